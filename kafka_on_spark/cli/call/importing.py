"""What the imports of a call leave out: looks for garbage, and threads of numpy's linear algebra.

OpenBLAS starts a thread for each core when numpy is imported, which takes a thirtieth of a short
call's processor time, and no call makes use of it. The library does not do this, since its users
may multiply matrices.
"""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kafka_on_spark.service.metadata.gc_pause import gc_paused

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


@contextmanager
def imports_kept() -> Iterator[None]:
    """Pause the collector for imports, and have it never look at what there is by then, not even
    when the process ends. For a process of our own: of anybody else's, garbage would stay."""
    with gc_paused():
        yield
        gc.freeze()
