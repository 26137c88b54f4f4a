"""Files on object stores: what `local_files` does on disks, by fsspec's file system of a store.

An object comes by one request, or, if it is large, by some, and each that is answered is progress;
a put has time by its bytes. So nobody takes a store for one that hangs because its link is slow.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.store.deadlines import LONG, SHORT, extend_deadline
from kafka_on_spark.store.error_translation import ABSENT, is_busy
from kafka_on_spark.store.local_files import check_size

FETCH_BYTES: Final = 2**25
"""What one request fetches of an object at most: half a megabyte a second is enough for it."""

PUT_BYTES_A_SECOND: Final = 2**19
"""What goes to a store over the slowest usable link."""

_TIME_NAMES: Final = ("LastModified", "last_modified", "updated", "mtime")
"""What stores' clients call the time of an object: a datetime, or one as text."""


@dataclass(frozen=True, slots=True, eq=False)
class ObjectStamp:
    """What tells an object from another one of its name. The answer to a put has no time."""

    tag: str | None
    time: str | None

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same object: where both times are known, they are the same. On
        S3 a tag is of the bytes alone, and a put that is sent again may land later."""
        if not isinstance(other, ObjectStamp):
            return NotImplemented
        return self.tag == other.tag and (
            None in (self.time, other.time) or self.time == other.time
        )

    def __hash__(self) -> int:
        return hash(self.tag)


def _stamp_in(found: Mapping[str, Any]) -> ObjectStamp | tuple[()]:
    """Return which object it is of which a store says this; () if it does not say."""
    tag = found.get("ETag") or found.get("etag")
    time = next((str(found[each]) for each in _TIME_NAMES if each in found), None)
    return ObjectStamp(tag, time) if tag or time else ()


def _time_of(value: Any) -> datetime | None:
    if isinstance(value, str):
        with suppress(ValueError):
            value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ObjectFiles:
    """The files of a store; `store` is fsspec's. Its errors are the store's own."""

    store: Any

    def read_file(self, path: str, bytes_max: int) -> bytes:
        """Return an object's bytes."""
        content = self._beginning(path, min(bytes_max + 1, FETCH_BYTES))
        check_size(len(content), bytes_max, path)
        return content if len(content) < FETCH_BYTES else self._with_rest(path, content, bytes_max)

    def _with_rest(self, path: str, beginning: bytes, bytes_max: int) -> bytes:
        """Return the bytes of a large object that begins so.

        It is looked at before the rest is fetched, so no range begins at its end, and once more
        after it. What was put in its place just before the first look, its reader finds damaged,
        and reads again.
        """
        found = self.store.info(path)
        size_bytes = found["size"]
        check_size(size_bytes, bytes_max, path)
        pieces = [beginning]
        for start in range(len(beginning), size_bytes, FETCH_BYTES):
            extend_deadline(SHORT.store)
            end = min(start + FETCH_BYTES, size_bytes)
            pieces.append(self.store.cat_file(path, start=start, end=end))
        content = b"".join(pieces)
        if len(content) != size_bytes or _stamp_in(self.store.info(path)) != _stamp_in(found):
            raise KafkaStorageError(f"{path} was replaced while it was read: read it again")
        return content

    def _beginning(self, path: str, count: int) -> bytes:
        """Return the first `count` bytes of an object, or all if it has fewer."""
        try:
            content: bytes = self.store.cat_file(path, start=0, end=count)
        except ABSENT:
            raise
        except Exception as error:
            # No store returns a range of an empty object, and each says so by an error of its own:
            # whatever it is, it is raised unless the object is there and empty. A store that is
            # busy was asked for long, and is not asked again.
            if is_busy(error):
                raise
            if self.store.info(path)["size"] != 0:
                raise
            return b""
        return content

    def read_all(self, paths: Sequence[str], bytes_max: int) -> list[bytes | None]:
        """Return the bytes of some objects, None where there is none; they are fetched side by
        side.

        All beginnings together are what one request fetches elsewhere. One of many that is longer
        comes by itself: each answer is progress.
        """
        count = min(bytes_max + 1, max(1, FETCH_BYTES // max(1, len(paths))))
        fetched = self.store.cat_ranges(list(paths), 0, count, on_error="return")
        return [
            self._whole(path, found, count, bytes_max)
            for path, found in zip(paths, fetched, strict=True)
        ]

    def _whole(
        self, path: str, found: bytes | Exception, count: int, bytes_max: int
    ) -> bytes | None:
        """Return the bytes of an object of whose first `count` the store has answered `found`."""
        if isinstance(found, ABSENT):
            return None
        if isinstance(found, bytes):
            check_size(len(found), bytes_max, path)
            if len(found) < count:
                return found
        # It is longer, or may be empty; and a failure of one of many is not all the store's.
        extend_deadline(SHORT.store)
        try:
            return self.read_file(path, bytes_max)
        except ABSENT:
            return None

    def pieces(self, path: str, bytes_max: int) -> Iterator[bytes]:
        yield self.read_file(path, bytes_max)

    def read_end(self, path: str, size_bytes: int, count: int) -> bytes:
        end: bytes = self.store.cat_file(path, start=size_bytes - count, end=size_bytes)
        return end

    def size_of(self, path: str) -> int:
        size: int = self.store.info(path)["size"]
        return size

    def stamp_at(self, path: str) -> ObjectStamp | tuple[()]:
        extend_deadline(SHORT.store)  # it is one of some that are asked for in one step
        return _stamp_in(self.store.info(path))

    def stamps_at(self, paths: Sequence[str]) -> list[ObjectStamp | tuple[()] | None]:
        """Return which objects stand at some paths, None where there is none; they are asked for
        side by side, and so in any order."""
        if not getattr(self.store, "async_impl", False):
            return [self._stamp_or_none(each) for each in reversed(paths)][::-1]
        # In the function: a process that has disks alone imports it for nothing.
        import asyncio

        async def ask() -> list[Any]:
            asked = (self.store._info(each) for each in paths)
            return await asyncio.gather(*asked, return_exceptions=True)

        extend_deadline(SHORT.store)
        found = asyncio.run_coroutine_threadsafe(ask(), self.store.loop).result()
        failures = [each for each in found if isinstance(each, BaseException)]
        for each in failures:
            if not isinstance(each, ABSENT):
                raise each
        return [None if isinstance(each, BaseException) else _stamp_in(each) for each in found]

    def _stamp_or_none(self, path: str) -> ObjectStamp | tuple[()] | None:
        with suppress(*ABSENT):
            return self.stamp_at(path)
        return None

    def time_and_size_of(self, path: str) -> tuple[int, int]:
        """Return when an object was written, ms since 1970 UTC, and its bytes."""
        found = self.store.info(path)
        for name in _TIME_NAMES:
            if (time := _time_of(found.get(name))) is not None:
                return int(time.timestamp() * 1000), int(found.get("size") or 0)
        raise KafkaStorageError(f"the store does not say when {path} was written")

    def names_in(self, path: str) -> list[str]:
        return sorted(self.sizes_in(path))

    def sizes_in(self, path: str) -> dict[str, int]:
        found = self.store.ls(path, detail=True)
        return {each["name"].rstrip("/").rsplit("/", 1)[-1]: each["size"] or 0 for each in found}

    def write(self, path: str, pieces: Iterable[bytes]) -> None:
        content = b"".join(pieces)
        extend_deadline(LONG.store + len(content) / PUT_BYTES_A_SECOND)
        self.store.pipe_file(path, content)

    def create_file(self, path: str, content: bytes, **_: bool) -> ObjectStamp | tuple[()]:
        """Put an object unless there is one; return which it is, () if only a look tells."""
        # S3's client alone tells whether it sent a put once.
        answer = self.store.pipe_file(path, content, mode="create")
        tag = answer.get("ETag") if isinstance(answer, Mapping) else None
        return ObjectStamp(tag, None) if tag else ()

    def delete_file(self, path: str) -> None:
        """Delete an object by one request: for `delete` a store lists and looks first, which costs
        more than all else that is asked of it."""
        self.store.rm_file(path)

    def delete(self, path: str) -> None:
        self.store.rm(path, recursive=True)
