"""Reads the objects of stores."""

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
