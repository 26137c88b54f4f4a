"""fsspec's file system for Azure, of any cloud or emulator, with time limits on each request and
one request for each question. It is imported where Azure is used.
"""

from collections.abc import Mapping
from typing import Any, Final

from adlfs import AzureBlobFileSystem
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob.aio import BlobServiceClient

SETTINGS: Final = {
    "read_timeout": 60.0,  # botocore's
    "connection_timeout": 60.0,
    # Waits of 3, 5 and 9 s, 1 s more or less. The client's own of 15 s and more outlast a call.
    "retry_total": 3,
    "initial_backoff": 1,
    "increment_base": 2,
    "random_jitter_range": 1,
}


class AzureFiles(AzureBlobFileSystem):  # type: ignore[misc]  # it has no types
    """An AzureBlobFileSystem that connects to any endpoint.

    adlfs knows https://HOST only, and limits the time of puts and reads alone. To look at what is
    absent it lists as well, and to list a folder it lists those whose names begin so.
    """

    def __init__(
        self, *, endpoint_url: str = "", settings: Mapping[str, Any] | None = None, **given: Any
    ) -> None:
        self._endpoint = endpoint_url
        self._account = given.get("account_name")
        self._settings = {**SETTINGS, **(settings or {})}
        for each in ("connect", "read", "status"):  # the client limits each kind to three as well
            self._settings[f"retry_{each}"] = self._settings["retry_total"]
        super().__init__(**given)

    def do_connect(self) -> None:
        """Make the client."""
        text, account, credential = self.connection_string, self.account_name, self.credential
        if text is not None:
            client = BlobServiceClient.from_connection_string(text, **self._settings)
            if self._account not in (None, client.account_name):
                raise ValueError(
                    f"the connection string is of the account {client.account_name}, and the URL"
                    f" or the options name {self._account}: give one of them"
                )
            self.service_client = client
            return
        if account is None:
            raise ValueError("no account is given: give account_name, or a connection_string")
        if credential is None and self.account_key is not None:
            credential = AzureNamedKeyCredential(account, self.account_key)
        elif credential is None and self.sas_token is not None:
            credential = AzureSasCredential(self.sas_token)
        host = self._endpoint or f"{account}.blob.core.windows.net"
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
        info: dict[str, Any] = (await self._details([found]))[0]
        return info

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
        entries: list[dict[str, Any]] = await self._details(found)
        return entries if detail else [each["name"] for each in entries]
