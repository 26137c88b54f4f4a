"""The Spark that is there: whether its version and Delta's work, and where its executors run.

A Spark without a class that the data source needs fails with an ImportError somewhere below; a
Delta of another line fails in Java. Apart from `jvm`, which imports pyspark: processes that have no
session ask, too.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import Final

from kafka_on_spark.base.errors import InvalidRequestError

SUPPORTED: Final = {"4.0": "4.4", "4.1": "4.4", "4.2": "4.4"}
"""Lines of pyspark, oldest first, each with the line of delta-spark that has jars for it."""

MISSING: Final = "no Spark is installed: pip install 'kafka_on_spark[spark]'"


def is_local(master: str | None) -> bool:
    """Return whether executors are threads of the driver's JVM."""
    return master is not None and (master == "local" or master.startswith("local["))


def check_versions(*, delta: bool = False) -> None:
    """Raise InvalidRequestError unless pyspark's version and, with `delta`, delta-spark's are in
    the table."""
    import pyspark

    found = {"pyspark": pyspark.__version__}
    wanted_delta = SUPPORTED.get(line_of(pyspark.__version__))
    if delta:
        try:
            found["delta-spark"] = version("delta-spark")
        except PackageNotFoundError:
            found["delta-spark"] = "missing"
    if wanted_delta is None or (delta and line_of(found["delta-spark"]) != wanted_delta):
        works = " or ".join(
            f"pyspark {each} with delta-spark {SUPPORTED[each]}" for each in SUPPORTED
        )
        have = ", ".join(f"{name} {each}" for name, each in found.items())
        raise InvalidRequestError(
            f"kafka_on_spark can't run on this Spark ({have}): install {works}"
        )


def check_stream(what: str, since: str) -> None:
    """Raise InvalidRequestError if a stream can't do `what` before the line `since` of pyspark."""
    import pyspark

    lines, line = list(SUPPORTED), line_of(pyspark.__version__)
    if lines.index(line) < lines.index(since):
        raise InvalidRequestError(
            f"a stream can't {what} topics on Spark {line}: install pyspark {since} or later, or"
            f" {what} batches, as foreachBatch does"
        )


def line_of(number: str) -> str:
    return ".".join(number.split(".")[:2])
