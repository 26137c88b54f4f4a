"""What the rig has Spark do, step by step: spark-submit job.py BASE STEP…; needs the package alone.

Each append has rows of its own, so that all of them can be looked for. A failed append is tried
again with its sequence, as a user would. The exit code is 0 if all is there once.
"""

import argparse
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from kafka_on_spark import Cluster, KafkaOnSparkError
from kafka_on_spark.base.errors import ClusterNotFoundError
from kafka_on_spark.spark.session import build_session, register_data_source

TOPIC, COPIES = "orders", "copies"
PARTITIONS, TASKS, ROWS, BATCH = 4, 6, 3000, 100
TRIES_MAX, WAIT_S_MAX = 5, 600


def marked(
    batches: Iterator[pa.RecordBatch], *, marks: str, pause_s: float, slow: str
) -> Iterator[pa.RecordBatch]:
    """Pass rows on with a pause before each batch, and leave a mark of which host has the task."""
    task, host = TaskContext.get(), socket.gethostname()
    assert task is not None
    for number, batch in enumerate(batches):
        if number == 0:
            Path(marks, f"{host}-{task.partitionId()}-{task.taskAttemptId()}").touch()
        time.sleep(pause_s * (20 if host == slow else 1))
        yield batch


class Work:
    def __init__(self, spark: SparkSession, given: argparse.Namespace) -> None:
        self.spark, self.given, self.base = spark, given, given.base
        self.marks = Path(given.marks)
        self.appended = list[str]()
        root = f"{self.base}/metadata"
        try:
            self.cluster = Cluster.open(root, spark)
        except ClusterNotFoundError:
            brokers = {number: f"{self.base}/broker-{number}" for number in (1, 2, 3)}
            self.cluster = Cluster.create(root, brokers, spark=spark)
        for name in {TOPIC, COPIES} - {each.name for each in self.cluster.image.topics.values()}:
            configs = {"min.insync.replicas": 2}
            self.cluster.create_topic(
                name, partitions=PARTITIONS, replication_factor=3, configs=configs
            )

    def append(self) -> str:
        """Append rows that name this append; after an error, which may be an unknown outcome, the
        same again."""
        name = f"{self.given.id}.{len(self.appended)}"
        ids = self.spark.range(0, ROWS, numPartitions=TASKS)
        value = F.concat(F.lit(f"{name}-"), ids.id.cast("string"))
        frame = ids.select((ids.id % 7).cast("string").alias("key"), value.alias("value"))
        slowly = partial(
            marked, marks=str(self.marks), pause_s=self.given.pause, slow=self.given.slow
        )
        said = []
        for _ in range(TRIES_MAX):
            try:
                result = self.cluster.append(
                    TOPIC, frame.mapInArrow(slowly, frame.schema),
                    producer_id=self.given.id, sequence=len(self.appended),
                )  # fmt: skip
            except KafkaOnSparkError as error:
                said.append(f"{type(error).__name__}: {str(error)[:200]}")
                continue
            self.appended.append(name)
            return "; ".join([*said, str(result)])
        raise AssertionError(f"{TRIES_MAX} tries failed: {'; '.join(said)}")

    def check(self) -> str:
        """Check that each row of each append is there once, and no other."""
        values = self.cluster.read(TOPIC)["value"].to_pylist()
        expected = {f"{name}-{row}".encode() for name in self.appended for row in range(ROWS)}
        prefix = f"{self.given.id}.".encode()
        found = Counter(each for each in values if each.startswith(prefix))
        doubled, lost = [v for v, n in found.items() if n > 1], expected - found.keys()
        if doubled or lost or len(found) != len(expected):
            raise AssertionError(
                f"{len(doubled)} rows are doubled, {len(lost)} lost, {len(found.keys() - expected)} of nobody"
            )
        hosts = Counter(each.name.partition("-")[0] for each in self.marks.iterdir())
        return f"{len(found)} rows, each once; tasks by host {dict(sorted(hosts.items()))}"

    def stream(self) -> str:
        """Stream the topic into another one, and read that by a query."""
        cluster, lists = f"{self.base}/metadata", f"{self.given.marks}/../stream-{self.given.id}"
        stream = self.spark.readStream.format("kafka_on_spark").option("cluster", cluster)
        rows = stream.option("subscribe", TOPIC).option("startingOffsets", "earliest").load()
        writer = rows.select("key", "value").writeStream.format("kafka_on_spark")
        to = writer.option("cluster", cluster).option("topic", COPIES)
        query = to.option("checkpointLocation", lists).trigger(availableNow=True).start()
        assert query.awaitTermination(WAIT_S_MAX), "the stream does not end"
        source = self.spark.read.format("kafka_on_spark").option("cluster", cluster)
        read = source.option("subscribe", COPIES).load().collect()
        copies = Counter(bytes(row.value) for row in read)
        assert copies == Counter(self.cluster.read(TOPIC)["value"].to_pylist()), "copies differ"
        return f"{copies.total()} rows"

    def reassign(self) -> str:
        """Move every partition to a broker that is new."""
        self.cluster.register_broker(4, f"{self.base}/broker-4")
        targets = {(TOPIC, number): [4, 2, 3] for number in range(PARTITIONS)}
        self.cluster.reassign(targets)
        for rounds in range(1, TRIES_MAX + 1):
            self.cluster.replicate()
            self.cluster.run_controller()
            here = self.cluster.describe_topic(TOPIC).partitions
            if all(list(each.replicas) == [4, 2, 3] for each in here):
                assert all(sorted(each.isr) == [2, 3, 4] for each in here), "some are not in sync"
                return f"{len(targets)} partitions in {rounds} rounds"
        raise AssertionError("the moves do not end")

    def view(self) -> str:
        self.cluster.view(TOPIC, "orders_view")
        count = self.spark.sql("SELECT count(DISTINCT value) AS n FROM orders_view").collect()[0].n
        assert count == self.cluster.count(TOPIC), f"the view has {count} rows"
        return f"{count} rows by SQL"

    def idle(self) -> str:
        """Wait until Spark has let all executors go."""
        status = self.spark.sparkContext._jsc.sc().getExecutorMemoryStatus
        until = time.monotonic() + WAIT_S_MAX
        while status().size() > 1:
            assert time.monotonic() < until, "executors do not leave"
            time.sleep(0.5)
        return "no executor is left"

    def healed(self) -> str:
        """Wait until the rig has undone what it did."""
        until = time.monotonic() + WAIT_S_MAX
        while not (self.marks.parent / "healed").exists():
            assert time.monotonic() < until, "nobody heals"
            time.sleep(0.5)
        return "it is over"

    def twice(self) -> str:
        """Check that Spark ran a task twice at once."""
        tasks = Counter(each.name.split("-")[1] for each in self.marks.iterdir())
        extra = sum(tasks.values()) - TASKS * len(self.appended)
        assert extra > 0, "Spark has started no task a second time: nothing was shown"
        return f"{extra} tasks ran a second time"

    def fsck(self) -> str:
        self.cluster.replicate()
        report = self.cluster.fsck()
        assert not report.findings, str(report.findings[0])
        return "nothing found"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base")
    parser.add_argument("steps", nargs="+")
    parser.add_argument("--marks", required=True, help="a folder that all hosts see")
    parser.add_argument("--id", default="rig", help="the producer; each run has one of its own")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds before each batch")
    parser.add_argument("--slow", default="", help="a host with longer pauses")
    given = parser.parse_args(arguments)
    rows = {"spark.sql.execution.arrow.maxRecordsPerBatch": BATCH}
    spark = build_session("hosts", **rows)
    spark.sparkContext.setLogLevel("ERROR")
    register_data_source(spark)
    Path(given.marks).mkdir(parents=True, exist_ok=True)
    work = Work(spark, given)
    try:
        for step in given.steps:
            began = time.monotonic()
            said = getattr(work, step)()
            print(f"STEP {step}: {said} ({time.monotonic() - began:.1f} s)", flush=True)
    except AssertionError as error:
        print(f"WRONG {step}: {error}", flush=True)
        return 1
    finally:
        work.cluster.close()
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
