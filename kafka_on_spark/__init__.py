"""kafka_on_spark: a partitioned, replicated, ordered log on Spark and storage, without Kafka."""

import os
import sys

# Spark starts its Python workers with this; unset, it takes the PATH's python3, which may be
# another Python without this package. A notebook then needs no launcher.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from kafka_on_spark import logs
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.spark.lag import LagListener, lag
from kafka_on_spark.storage.records import Record
from kafka_on_spark.version import __version__

__all__ = ["Cluster", "KafkaOnSparkError", "LagListener", "Record", "__version__", "lag"]

logs.set_up()
