"""Has numpy be imported without the threads of its linear algebra, of which no call makes use.

OpenBLAS starts a thread for each core when numpy is imported, which takes a thirtieth of a short
call's processor time. The library does not do this, since its users may multiply matrices.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

THREADS: Final = "OPENBLAS_NUM_THREADS"


@contextmanager
def one_thread_of_openblas() -> Iterator[None]:
    """Have an import of numpy start no thread, unless somebody has said how many.

    Only in here: the processes that a session of `serve` starts get our environment.
    """
    if THREADS in os.environ:
        yield
        return
    os.environ[THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[THREADS]
