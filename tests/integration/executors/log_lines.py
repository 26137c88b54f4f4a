"""A program whose processes say what they do: run by a test, which looks for their lines.

python log_lines.py METADATA_ROOT CHECKPOINT
"""

import sys

from kafka_on_spark import Cluster
from kafka_on_spark.spark.session import build_session, register_data_source
from tests.integration.format.frames import Started


def main(metadata_root: str, checkpoint: str) -> None:
    """Have a controller, a planner, executors, a commit, and a stream's source and sink run."""
    spark = build_session("logs", **{"spark.master": "local[2]", "spark.ui.enabled": False})
    spark.sparkContext.setLogLevel("ERROR")
    register_data_source(spark)
    with Cluster.open(metadata_root) as cluster:
        cluster.run_controller()
    given = {"cluster": metadata_root, "subscribe": "first", "startingOffsets": "earliest"}
    written = {"cluster": metadata_root, "topic": "second"}
    batch = spark.read.format("kafka_on_spark").options(**given).load().select("value")
    batch.write.format("kafka_on_spark").mode("append").options(**written).save()
    stream = spark.readStream.format("kafka_on_spark").options(**given).load().select("value")
    written |= {"topic": "third", "checkpointLocation": checkpoint}
    writer = stream.writeStream.format("kafka_on_spark").options(**written)
    Started(writer.trigger(availableNow=True)).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
