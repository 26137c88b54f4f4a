"""Folders for tests that are about what is written, not about whether a disk keeps it.

On a file system in memory, where there is a roomy one, a flush costs nothing: tests of appends
then wait for the processor only.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")
_FREE_BYTES_MIN = 1 << 30


@contextmanager
def quick_folder() -> Iterator[Path]:
    """Give a new folder, and remove it at the end."""
    is_roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _FREE_BYTES_MIN
    parent = _MEMORY if is_roomy else None
    with tempfile.TemporaryDirectory(
        prefix="kafka-on-spark-", dir=parent, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def roots_in(folder: Path) -> list[Path]:
    """Return where a test's three voters are."""
    return [folder / name for name in ("m1", "m2", "m3")]
