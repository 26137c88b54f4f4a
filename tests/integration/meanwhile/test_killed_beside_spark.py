"""Upkeep is killed (`kill -9`) at its commits and its deletions while a stream copies what is
appended and views are read by SQL: each retained record is copied once and in order."""

import re
import signal
import threading
import time
from contextlib import contextmanager
from itertools import cycle

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kafka_on_spark import Cluster
from kafka_on_spark.errors import KafkaStorageError
from tests.cluster.disks import new_disks
from tests.cluster.killing.processes import Worker, finish
from tests.cluster.killing.stories import CONFIGS
from tests.integration.format.frames import bytes_of, stream
from tests.integration.meanwhile.workers import (
    AFTER_EACH,
    BEFORE_EACH,
    FEW,
    KEYS,
    MERGED,
    PRICES,
    RETAINED,
    TOPICS,
    append,
    maintain,
    wrong_rows,
    wrong_with,
)

pytestmark = [pytest.mark.integration, pytest.mark.long]

COPIES = "copies"
DELAY_S = 5.0
"""For so long a query has the files of its view."""
PAUSE_S = 0.1
PATIENCE_S = 240.0


class Killer(threading.Thread):
    """Has upkeep done by one process after the other, each of which is killed at its change.

    Attributes:
        killed: Kills, and at which change each took place.
        failed: What upkeep could not do, and processes that ended in another way.
    """

    def __init__(self, base, kills):
        super().__init__()
        self.killed = []
        self.failed = []
        self._base = base
        self._kills = kills
        self._is_over = False

    def run(self):
        for kill in self._kills:
            worker = Worker(maintain, self._base, kill)
            deadline = time.monotonic() + PATIENCE_S
            while worker.process.is_alive() and not self._is_over and time.monotonic() < deadline:
                worker.process.join(0.1)
            code = worker.process.exitcode
            worker.process.kill()
            told = worker.told()
            self.failed += [each for each in told if isinstance(each, tuple)]
            if code != -signal.SIGKILL:
                self.failed.append((kill, "was not killed, but ended with", code))
                return
            self.killed.append((kill, told[-1]))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_error):
        self._is_over = True
        self.join()


class Views:
    """Makes views of the topics, one after the other, and reads each twice by SQL.

    Attributes:
        wrong: What was wrong with what they had.
        seen: The topics whose views were read, in order.
    """

    def __init__(self, spark, cluster):
        self.wrong = []
        self.seen = []
        self._spark = spark
        self._cluster = cluster
        self._topics = cycle(TOPICS)
        self._before = dict.fromkeys(TOPICS, ())

    def look(self):
        """Read a view of the next topic; it has the same rows for as long as files stay."""
        topic, made = next(self._topics), time.monotonic()
        try:
            rows = self.rows_of(topic)
            time.sleep(0.3)
            again = self._rows(topic)
        except (KafkaStorageError, PySparkException, Py4JJavaError):
            if time.monotonic() - made < DELAY_S:
                raise
            return  # a machine with other work was slow, and the files are gone by right
        assert again == rows
        self.wrong += wrong_with(topic, rows, self._before[topic])
        self.seen.append(topic)
        self._before[topic] = rows

    def rows_of(self, topic):
        """Return the rows of a new view."""
        self._cluster.view(topic, f"{topic}_now")
        return self._rows(topic)

    def _rows(self, topic):
        rows = self._spark.sql(f"SELECT offset, key, value FROM {topic}_now ORDER BY offset")
        return [(row.offset, bytes_of(row.key), bytes_of(row.value)) for row in rows.collect()]


@contextmanager
def appending(disks):
    """Append to all topics in a process of its own until its `stop` is called, which returns how
    many records each topic has got."""
    worker = Worker(append, disks.base, PAUSE_S)

    def stop():
        worker.ours.send("stop")
        [count] = worker.told()
        return count

    try:
        yield stop
    finally:
        worker.process.kill()


@contextmanager
def copying(spark, disks, checkpoint):
    """Copy what all topics have by a stream, which goes on where retention has overtaken it."""
    options = {"startingOffsets": "earliest", "failOnDataLoss": "false"}
    frame = stream(spark, disks, ",".join(TOPICS), **options).selectExpr(
        "concat(topic, ' ', cast(offset AS string), ' ', cast(key AS string)) AS key", "value"
    )
    writer = frame.writeStream.format("kafka_on_spark").option("topic", COPIES)
    writer = writer.option("cluster", str(disks.metadata_root))
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime="3 seconds").start()
    try:
        yield query
    finally:
        query.stop()


def copied(cluster):
    """Return (offset, key, value) of each copy, by topic, in the order of the copies."""
    found = {topic: [] for topic in TOPICS}
    for row in cluster.read(COPIES).to_pylist():
        match = re.fullmatch(rb"(\w+) (\d+) (\d+)", row["key"])
        found[match[1].decode()].append((int(match[2]), match[3], row["value"]))
    return found


def rows_read(cluster, topic):
    table = cluster.read(topic).to_pylist()
    return [(row["offset"], row["key"], row["value"]) for row in table]


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(FEW, id="at-a-change-of-each-work"),
        pytest.param(AFTER_EACH, id="after-each-change"),
        pytest.param(BEFORE_EACH, id="before-each-change"),
    ],
)
def test_a_stream_and_views_read_on_while_upkeep_is_killed(spark, tmp_path, kills, record_property):
    configs = {**CONFIGS, "file.delete.delay.ms": int(1000 * DELAY_S)}
    with new_disks(configs=configs) as disks:
        for topic, own in {**TOPICS, COPIES: {}}.items():
            disks.cluster.create_topic(topic, replica_assignment={0: [1, 2, 3]}, configs=own)
        disks.opened.append(Cluster.open(disks.metadata_root, spark=spark))
        views = Views(spark, disks.opened[-1])
        with copying(spark, disks, tmp_path / "checkpoint") as query, appending(disks) as stop:
            for _ in TOPICS:  # the first queries take a session longest
                views.look()
            with Killer(disks.base, kills) as killer:
                while killer.is_alive():
                    views.look()
                    killer.join(1.0)
            count = stop()
            query.processAllAvailable()

        assert killer.failed == []
        assert [kill for kill, _ in killer.killed] == list(kills)
        assert (views.wrong, set(views.seen)) == ([], {*TOPICS})
        assert len(views.seen) > len(TOPICS), "some were read between the kills"
        check_at_last(disks, views, count)
    at = "; ".join(f"{kill.work}: {change}" for kill, change in killer.killed)
    record_property("killed", f"{len(killer.killed)} kills, {len(views.seen)} views read, {at}")


def check_at_last(disks, views, count):
    """Finish the upkeep; check what was copied, what is read, and the tables."""
    disks.cluster.alter_cluster_configs({"file.delete.delay.ms": 0})
    cluster = disks.open()
    assert list(finish(cluster)) == []
    copies = copied(cluster)
    for topic in TOPICS:
        rows = rows_read(cluster, topic)
        assert list(wrong_with(topic, rows, ())) == []
        assert rows[-1][0] == count - 1
        assert views.rows_of(topic) == rows
        assert list(wrong_rows(topic, copies[topic])) == []
        assert set(rows) <= set(copies[topic]), "each retained record is copied"
        assert len(rows) == KEYS or topic != PRICES
        assert rows[0][0] > 0 or topic != RETAINED
    assert [offset for offset, _, _ in copies[MERGED]] == list(range(count))
    assert disks.open().fsck(deep=True).findings == ()
