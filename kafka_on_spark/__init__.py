"""kafka_on_spark: a partitioned, replicated, ordered log on Spark and storage, without Kafka."""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Final

# Spark starts its Python workers with this; unset, it takes the PATH's python3, which may be
# another Python without this package. A notebook then needs no launcher.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from kafka_on_spark.base import __version__

if TYPE_CHECKING:
    from kafka_on_spark.base.errors import KafkaOnSparkError
    from kafka_on_spark.cluster import Cluster
    from kafka_on_spark.produce.records import Record
    from kafka_on_spark.spark.query_lag import LagListener, lag

__all__ = ["Cluster", "KafkaOnSparkError", "LagListener", "Record", "__version__", "lag"]

_PLACES: Final = {
    "Cluster": "cluster",
    "KafkaOnSparkError": "base.errors",
    "LagListener": "spark.query_lag",
    "Record": "produce.records",
    "lag": "spark.query_lag",
}
"""Imported when first asked for: Spark starts a process for each run of a streaming query, which
imports this package for its reader, while the query waits."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
