"""fsspec's file system for S3, with a time limit on puts. It is imported where S3 is used."""

from typing import Any

from botocore.handlers import add_expect_header
from s3fs import S3FileSystem


class S3Files(S3FileSystem):  # type: ignore[misc]  # it has no types
    """An S3FileSystem whose puts keep to `read_timeout`.

    botocore has a put wait for "100 Continue" before it sends a body, and aiohttp waits for that
    without any limit: a store that hangs then holds a commit until the call to its root is given
    up. What is put is small, so nothing is saved by asking first.
    """

    async def set_session(self, refresh: bool = False, kwargs: Any = None) -> Any:
        """Return the client, made if there is none."""
        client = await super().set_session(refresh, kwargs or {})
        client.meta.events.unregister("before-call.s3", add_expect_header)
        return client
