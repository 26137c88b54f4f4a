"""fsspec's file system for Azure, of any cloud or emulator, with time limits on each request and
one request for each question. It is imported where Azure is used.
"""

from typing import Any, Final

from adlfs import AzureBlobFileSystem
from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob.aio import BlobServiceClient

SECONDS: Final = 60.0
"""How long a connection or an answer may take: botocore's default."""

RETRIES: Final = 4
_BACKOFF: Final = {"initial_backoff": 1, "increment_base": 2, "random_jitter_range": 1}
"""Waits of 1, 3, 5 and 9 s, more or less. The client's own of 15 s and more outlast a call."""


class AzureFiles(AzureBlobFileSystem):  # type: ignore[misc]  # it has no types
    """An AzureBlobFileSystem that connects to any endpoint.

    adlfs knows https://HOST only, and limits the time of puts and reads alone. To look at what is
    absent it lists as well, and to list a folder it lists those whose names begin so.
    """

    def __init__(
        self,
        *,
        endpoint_url: str = "",
        read_timeout: float = SECONDS,
        connect_timeout: float = SECONDS,
        max_retries: int = RETRIES,
        **given: Any,
    ) -> None:
        self._endpoint = endpoint_url
        self._account = given.get("account_name")
        self._settings = {
            "read_timeout": read_timeout,
            "connection_timeout": connect_timeout,
            "retry_total": max_retries,
            **_BACKOFF,
        }
        super().__init__(**given)

    def do_connect(self) -> None:
        """Make the client."""
        if self.connection_string is not None:
            client = BlobServiceClient.from_connection_string(
                self.connection_string, **self._settings
            )
            if self._account not in (None, client.account_name):
                raise ValueError(
                    f"the connection string is of the account {client.account_name}, and the URL"
                    f" or the options name {self._account}: give one of them"
                )
            self.service_client = client
            return
        if self.account_name is None:
            raise ValueError(
                "no account is given: give account_name, connection_string, or a URL such as"
                " abfss://container@account.dfs.core.windows.net/…"
            )
        credential: Any = self.credential
        if credential is None and self.account_key is not None:
            credential = {"account_name": self.account_name, "account_key": self.account_key}
        elif credential is None and self.sas_token is not None:
            credential = AzureSasCredential(self.sas_token)
        host = self._endpoint or f"{self.account_name}.blob.core.windows.net"
        url = host if "://" in host else f"https://{host}"
        self.service_client = BlobServiceClient(url, credential=credential, **self._settings)

    async def _info(self, path: str, *given: Any, **kwargs: Any) -> dict[str, Any]:
        """Return what is known of an object."""
        container, name, _ = self.split_path(path)
        try:
            async with self.service_client.get_blob_client(container, name) as blob:
                found = await blob.get_blob_properties()
        except ResourceNotFoundError as error:
            raise FileNotFoundError(path) from error
        return {
            "name": f"{container}/{name}",
            "type": "file",
            "size": found.size,
            "etag": found.etag,
            "last_modified": found.last_modified,
        }

    async def _ls(self, path: str, detail: bool = False, **kwargs: Any) -> list[Any]:
        """Return what is in a folder."""
        container, folder, _ = self.split_path(self._strip_protocol(path).rstrip("/"))
        beginning = f"{folder}/" if folder else ""
        try:
            async with self.service_client.get_container_client(container) as client:
                found = [each async for each in client.walk_blobs(name_starts_with=beginning)]
        except ResourceNotFoundError as error:
            raise FileNotFoundError(path) from error
        if not found:
            raise FileNotFoundError(path)
        entries = [
            {"name": f"{container}/{each.name}".rstrip("/"), "size": each.get("size")}
            for each in found
        ]
        return entries if detail else sorted(each["name"] for each in entries)
