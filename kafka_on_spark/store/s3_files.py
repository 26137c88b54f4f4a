"""fsspec's file system for S3, with a time limit on puts and a count of requests. It is imported
where S3 is used.
"""

import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

from aiobotocore.httpsession import AIOHTTPSession
from botocore.handlers import add_expect_header
from s3fs import S3FileSystem

from kafka_on_spark.store.counts import RequestKind, count_sent

KINDS: Final[Mapping[str, RequestKind]] = {
    "PutObject": "PUT",
    "UploadPart": "PUT",
    "CopyObject": "COPY",
    "CreateMultipartUpload": "POST",
    "CompleteMultipartUpload": "POST",
    "GetObject": "GET",
    "HeadObject": "HEAD",
    "HeadBucket": "HEAD",
    "DeleteObject": "DELETE",
    "DeleteObjects": "DELETE",
    "AbortMultipartUpload": "DELETE",
}
"""What S3's operations are billed as. All others list, or are billed as if they did."""

# What each bucket's store said the time was, and when by this process's clock. A module global: a
# store's clock is one, whichever client asks.
_told: Final[dict[str, tuple[str, int]]] = {}


@dataclass(slots=True)
class _Sending:
    """A call to a bucket's store, and how many requests were sent for it."""

    bucket: str = ""
    count: int = 0


_sending: Final[ContextVar[_Sending]] = ContextVar("sending", default=_Sending())  # noqa: B039 - of calls that are not ours


class _Session(AIOHTTPSession):  # type: ignore[misc]  # it has no types
    """A session that sends a request once: aiohttp sends a put again by itself, uncounted, where
    a connection that was kept alive has ended."""

    async def _get_session(self, proxy_url: str | None) -> Any:
        session = await super()._get_session(proxy_url)
        if session._retry_connection:  # an aiohttp without it sends again unseen: AttributeError
            session._retry_connection = False
        return session


class S3Files(S3FileSystem):  # type: ignore[misc]  # it has no types
    """An S3FileSystem whose puts keep to `read_timeout`, whose requests are counted, and which asks
    for objects and for nothing else.

    botocore has a put wait for "100 Continue" before it sends a body, and aiohttp waits for that
    without any limit: a store that hangs then holds a commit until the call to its root is given
    up. What is put is small, so nothing is saved by asking first.
    """

    def __init__(
        self,
        *,
        config_kwargs: Mapping[str, Any] | None = None,
        is_virtual: bool = False,
        **given: Any,
    ) -> None:
        config = {**(config_kwargs or {}), "http_session_cls": _Session}
        if is_virtual:  # buckets in host names
            config["s3"] = {"addressing_style": "virtual"}
        super().__init__(config_kwargs=config, **given)

    async def set_session(self, refresh: bool = False, kwargs: Any = None) -> Any:
        """Return the client, made if there is none."""
        client = await super().set_session(refresh, kwargs or {})
        events = client.meta.events
        events.unregister("before-call.s3", add_expect_header)
        events.register("before-send.s3", _count_request, unique_id="count-request")
        events.register("response-received.s3", _note_time, unique_id="note-time")
        return client

    async def _info(self, path: str, *given: Any, **kwargs: Any) -> dict[str, Any]:
        """Return what is known of an object.

        Where there is none, s3fs looks for a folder of that name: a listing, which has twelve times
        the price of a look, at each look whether somebody has committed.
        """
        bucket, key, _ = self.split_path(self._strip_protocol(path))
        found = await self._call_s3("head_object", self.kwargs, Bucket=bucket, Key=key)
        return {
            "name": f"{bucket}/{key}",
            "type": "file",
            "size": found["ContentLength"],
            "ETag": found.get("ETag", ""),
            "LastModified": found.get("LastModified", ""),
        }

    async def _ls(self, path: str, detail: bool = False, **kwargs: Any) -> list[Any]:
        """Return what is in a folder; where nothing is, s3fs lists the one above as well."""
        path = self._strip_protocol(path).rstrip("/")
        found = await self._lsdir(path)
        if not found:
            raise FileNotFoundError(path)
        return found if detail else sorted(each["name"] for each in found)

    async def _call_s3(self, method: str, *given: Any, **kwargs: Any) -> Any:
        """Do as s3fs does; the answer to a put that was sent twice has no tag: the other one may
        land later, with the same tag, where the object was deleted."""
        sending = _Sending(kwargs.get("Bucket", ""))
        token = _sending.set(sending)
        try:
            answer = await super()._call_s3(method, *given, **kwargs)
        finally:
            _sending.reset(token)
        if sending.count > 1 and method == "put_object":
            answer.pop("ETag", None)
        return answer


def _count_request(request: Any, event_name: str, **others: Any) -> None:
    """Count a request that is sent; each retry is another one."""
    _sending.get().count += 1
    count_sent(KINDS.get(event_name.rpartition(".")[2], "LIST"))


def told_ms(bucket: str) -> int | None:
    """Return the time of the store that keeps a bucket, ms since 1970 UTC: what its last answer to
    this process said, and what has passed since; None: it has said none."""
    told = _told.get(bucket)
    if told is None:
        return None
    date, at_ns = told
    try:
        at_ms = parsedate_to_datetime(date).timestamp() * 1000
    except ValueError:
        return None
    return int(at_ms) + (time.monotonic_ns() - at_ns) // 1_000_000


def _note_time(response_dict: Any, event_name: str, **others: Any) -> None:
    date = response_dict and response_dict["headers"].get("date")
    if date:
        _told[_sending.get().bucket] = date, time.monotonic_ns()
