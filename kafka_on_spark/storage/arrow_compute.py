"""The functions of `pyarrow.compute`, which is imported once one of them is called.

It makes a Python function of each of its hundreds of kernels when it is imported. That takes a
tenth of the start of a process, and most processes that open a cluster read and append no record.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    import pyarrow.compute

    found = globals()[name] = getattr(pyarrow.compute, name)
    return found
