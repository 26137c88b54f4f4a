"""The functions of `pyarrow.compute`, which is imported once one of them is called.

It makes a Python function of each of its hundreds of kernels when it is imported. That takes a
tenth of the start of a process, and most processes that open a cluster read and append no record.
"""

from typing import Any

from kafka_on_spark.base.errors import KafkaOnSparkError


def __getattr__(name: str) -> Any:
    try:
        import pyarrow.compute
    except (ImportError, OSError) as error:
        raise KafkaOnSparkError(
            f"pyarrow.compute can't be imported in the middle of a call ({error}): see that this"
            " process may open more files and that its packages are whole, and call again"
        ) from error

    found = globals()[name] = getattr(pyarrow.compute, name)
    return found
