"""Kill -9 of a streaming query in the middle of a batch; it goes on from its checkpoint.

Each step of a commit is a test without Spark: tests/cluster/format/test_sink_killed.py.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from glob import glob
from pathlib import Path

import pytest

from tests.cluster.disks import new_disks, values_of
from tests.integration.format.frames import Started, stream

pytestmark = [pytest.mark.integration, pytest.mark.long]

ROOT = Path(__file__).parents[3]
WAIT_S_MAX = 900.0
RECORDS, BATCH_RECORDS = 6000, 10
"""So many batches that the query has some left, however late the kill is on a busy machine: each
takes a good part of a second."""
SEQUENCE = 1

QUERY = """
import sys
from kafka_on_spark.spark.session import build_session, register_data_source
from tests.integration.format.frames import Started

root, checkpoint, batch_records = sys.argv[1:]
spark = build_session("killed", **{"spark.master": "local[2]", "spark.ui.enabled": "false"})
register_data_source(spark)
reader = spark.readStream.format("kafka_on_spark").option("cluster", root)
reader = reader.option("subscribe", "given").option("startingOffsets", "earliest")
frame = reader.option("maxOffsetsPerTrigger", batch_records).load()
writer = frame.selectExpr("key", "value", "concat('to-', string(key)) as topic").writeStream
writer = writer.format("kafka_on_spark").option("cluster", root)
Started(writer.option("checkpointLocation", checkpoint)).awaitTermination()
"""


@pytest.fixture
def disks():
    with new_disks() as disks:
        cluster = disks.cluster
        cluster.create_topic("given", replication_factor=2)
        for name in ("to-a", "to-b"):
            cluster.create_topic(name, partitions=2, replication_factor=3)
        keys = [b"a", b"b"]
        cluster.append("given", [(keys[n % 2], b"%04d" % n) for n in range(RECORDS)])
        yield disks


def kill_in_batch(disks, checkpoint: Path) -> None:
    """Run the query in a process of its own; kill it once a batch stands in a leader's log."""
    output = disks.base / "output.txt"
    environment = {key: text for key, text in os.environ.items() if not key.startswith("PYSPARK_")}
    command = [sys.executable, "-c", QUERY]
    with output.open("wb") as file:
        process = subprocess.Popen(
            [*command, str(disks.metadata_root), str(checkpoint), str(BATCH_RECORDS)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for_append(disks.base, process, output)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for_append(base: Path, process: subprocess.Popen, output: Path) -> None:
    mark = f'"sequence":"{SEQUENCE}"'.encode()
    read: set[str] = set()
    deadline = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < deadline:
        for file in set(glob(f"{base}/broker-*/to-*/*/_delta_log/*.json")) - read:
            read.add(file)
            with suppress(FileNotFoundError):
                if mark in Path(file).read_bytes():
                    return
        assert process.poll() is None, f"it ended by itself: {output.read_text()}"
        # Until the first batch there is nothing to miss, and looking takes a processor.
        time.sleep(0.002 if read else 0.2)
    raise AssertionError(f"batch {SEQUENCE} was not reached: {output.read_text()}")


def test_every_record_is_there_once_and_in_order_after_a_kill(spark, disks):
    checkpoint = disks.base / "checkpoint"
    kill_in_batch(disks, checkpoint)
    counts = [len(values_of(disks.cluster, name)) for name in ("to-a", "to-b")]
    assert sum(counts) < RECORDS, "the kill came too late to show anything"

    # The batch that was killed is as long as it was, and the rest is one batch.
    frame = stream(spark, disks, "given", startingOffsets="earliest")
    rows = frame.selectExpr("key", "value", "concat('to-', string(key)) as topic")
    writer = rows.writeStream.format("kafka_on_spark").option("cluster", str(disks.metadata_root))
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    assert Started(writer).awaitTermination(int(WAIT_S_MAX))

    for name, remainder in (("to-a", 0), ("to-b", 1)):
        expected = [b"%04d" % n for n in range(RECORDS) if n % 2 == remainder]
        assert values_of(disks.cluster, name) == expected
