"""fsspec's file system for Google's store, with time limits on requests and one request for each
look. It is imported where that store is used.
"""

import logging
import os
from collections.abc import Mapping
from errno import ENOENT
from typing import Any, Final

from aiohttp import ClientTimeout

# Not gcsfs.GCSFileSystem: that asks first, by another protocol, what kind each bucket is of, which
# an emulator does not answer; and a bucket that only gRPC writes has no conditional puts of ours.
from gcsfs.core import GCSFileSystem

# It prints what it also raises, a 416 of an empty object too, where nobody has set up logging.
logging.getLogger("gcsfs").addHandler(logging.NullHandler())

TIMES: Final = {"sock_connect": 60.0, "sock_read": 60.0}
"""How long a connection or an answer may take, seconds: as botocore's."""

_METHODS: Final = ("google_default", "cloud", "cache", "anon")
"""What gcsfs takes in place of a key file; any other text it sends as a token."""


class GoogleFiles(GCSFileSystem):  # type: ignore[misc]  # it has no types
    """A GCSFileSystem whose requests end, and that looks at an object without listing beside."""

    def __init__(
        self,
        *,
        token: str | None = None,
        key_file: Mapping[str, str] | None = None,
        anon: bool = False,
        endpoint_url: str = "",
        times: Mapping[str, float] | None = None,
        **given: Any,
    ) -> None:
        if token and not (key_file or anon or token in _METHODS or os.path.exists(token)):
            raise ValueError(  # its text may be a secret: not shown
                "the key file that token (application_credentials, service_account) names is not"
                " on this host: give the path of one that is, executors too"
            )
        super().__init__(
            token=key_file or ("anon" if anon else token),
            endpoint_url=endpoint_url.rstrip("/"),
            requests_timeout=ClientTimeout(**{**TIMES, **(times or {})}),
            **given,
        )

    async def _info(self, path: str, *given: Any, **kwargs: Any) -> Any:
        """Return what is known of an object."""
        return await self._get_object(self._strip_protocol(path))

    async def _find(self, path: str, *given: Any, **kwargs: Any) -> list[str]:
        """Return what is below a folder: the gcsfs of 2025.3 has `rm` of one that is gone delete
        all whose names begin so."""
        path = self._strip_protocol(path).rstrip("/")
        found = await super()._find(path, *given, **kwargs)
        return [each for each in found if each == path or each.startswith(f"{path}/")]

    async def _call(self, *given: Any, **kwargs: Any) -> Any:
        """Do as gcsfs does; what it raises of a 403 is an OSError like any other, and of a 404 the
        address alone."""
        try:
            return await super()._call(*given, **kwargs)
        except FileNotFoundError as error:
            text = "there is no such bucket or object"
            raise FileNotFoundError(ENOENT, text, str(error)) from error
        except OSError as error:
            if str(error).startswith("Forbidden"):
                raise PermissionError(str(error)) from error
            raise
