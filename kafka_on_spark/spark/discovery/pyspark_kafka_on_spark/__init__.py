"""Where Spark finds `format("kafka_on_spark")` by its name.

Spark looks for top-level packages called `pyspark_*` and takes their `DefaultSource`. It looks in
folders only, so a real one is kept here, on the path of every session, and the wheel has it at its
top level.
"""

from kafka_on_spark.spark.data_source import KafkaOnSparkDataSource as DefaultSource

__all__ = ["DefaultSource"]
