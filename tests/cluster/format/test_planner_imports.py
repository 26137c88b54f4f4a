"""What the process that plans a stream imports while its query waits for it, in a process."""

import subprocess
import sys

from pyspark import cloudpickle

from kafka_on_spark.spark.data_source import KafkaOnSparkDataSource

# Spark starts `python_streaming_source_runner`, which unpickles the source and asks its reader so.
PLAN = """
import pickle, sys
import pyspark.sql.streaming.python_streaming_source_runner as runner

source = pickle.loads(sys.stdin.buffer.read())
reader = runner._streamReader(source, source.schema())
reader.prepareForTriggerAvailableNow()
start = reader.initialOffset()
end = reader.latestOffset(start, reader.getDefaultReadLimit())
print(len(reader.partitions(start, end)), *sys.modules)
"""
SLOW = {
    "pandas",
    "asyncio",
    "fsspec",
    "pyarrow.compute",
    "pyarrow.dataset",
    "deltalake",
    "kafka_on_spark.cluster",
    "kafka_on_spark.controller.isr",
    "kafka_on_spark.controller.scheduler",
    "kafka_on_spark.log.operations",
    "kafka_on_spark.node.node",
    "kafka_on_spark.spark.sink",
    "kafka_on_spark.log.segments",
}


def test_process_that_plans_a_stream_imports_only_what_plans_it(disks):
    cluster = disks.cluster
    cluster.create_topic("flights", partitions=2, replication_factor=3)
    cluster.append("flights", [(None, b"a", None, None, 0), (None, b"b", None, None, 1)])
    options = {"cluster": str(disks.metadata_root), "subscribe": "flights"}
    source = KafkaOnSparkDataSource(options | {"startingoffsets": "earliest"})

    tasks, modules = planned(source)

    assert tasks == 2
    assert "kafka_on_spark.spark.source" in modules
    assert SLOW & modules == set()


def planned(source):
    """Return the number of tasks that another process plans, and the modules that it imports."""
    done = subprocess.run(
        [sys.executable, "-c", PLAN],
        input=cloudpickle.dumps(source),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    tasks, *modules = done.stdout.decode().split()
    return int(tasks), set(modules)
