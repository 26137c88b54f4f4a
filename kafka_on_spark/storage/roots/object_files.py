"""Reads the objects of stores."""

from collections.abc import Sequence
from typing import Any

from kafka_on_spark.storage.calls.error_translation import ABSENT
from kafka_on_spark.storage.roots.local_files import check_size


def read_object(store: Any, path: str, bytes_max: int) -> bytes:
    """Return an object's bytes.

    Raises:
        UnsafeFileError: It has more than `bytes_max`; the rest is not fetched.
    """
    try:
        content: bytes = store.cat_file(path, start=0, end=bytes_max + 1)
    except ABSENT:
        raise
    except Exception:
        # No store returns a range of an empty object, and each says so by an error of its own:
        # whatever it is, it is raised unless the object is there and empty.
        if store.info(path)["size"] != 0:
            raise
        return b""
    check_size(len(content), bytes_max, path)
    return content


def read_objects(store: Any, paths: Sequence[str], bytes_max: int) -> list[bytes | None]:
    """Return the bytes of some objects, None where there is none; they are fetched side by side.

    Raises:
        UnsafeFileError: One has more than `bytes_max`.
    """
    fetched = store.cat_ranges(list(paths), 0, bytes_max + 1, on_error="return")
    return [
        _checked(store, path, found, bytes_max) for path, found in zip(paths, fetched, strict=True)
    ]


def _checked(store: Any, path: str, found: bytes | Exception, bytes_max: int) -> bytes | None:
    if isinstance(found, ABSENT):
        return None
    if isinstance(found, bytes):
        check_size(len(found), bytes_max, path)
        return found
    try:  # it may be empty, and a failure of one object of many is not all the store's
        return read_object(store, path, bytes_max)
    except ABSENT:
        return None
