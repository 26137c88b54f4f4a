"""A program whose processes say what they do: run by a test, which looks for their lines.

python log_lines.py METADATA_ROOT FOLDER
"""

import sys

from kafka_on_spark import Cluster
from kafka_on_spark.spark.session import build_session


def main(metadata_root: str) -> None:
    """Have a controller, a planner, executors and a commit run."""
    spark = build_session("logs", **{"spark.master": "local[2]", "spark.ui.enabled": False})
    spark.sparkContext.setLogLevel("ERROR")
    with Cluster.open(metadata_root) as cluster:
        cluster.run_controller()
    given = {"cluster": metadata_root, "subscribe": "first", "startingOffsets": "earliest"}
    written = {"cluster": metadata_root, "topic": "second"}
    batch = spark.read.format("kafka_on_spark").options(**given).load().select("value")
    batch.write.format("kafka_on_spark").mode("append").options(**written).save()


if __name__ == "__main__":
    main(*sys.argv[1:])
