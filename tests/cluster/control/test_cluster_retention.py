"""Retention on disks: what is too old or too much goes, from every replica, and is told of."""

from datetime import UTC, datetime, timedelta

import pytest

from kafka_on_spark import Cluster, Record
from kafka_on_spark.base.errors import InvalidTimestampError
from kafka_on_spark.store.deadlines import SystemClock
from tests.cluster.disks import new_disks, values_of

HOUR_MS = 3_600_000


@pytest.fixture
def disks():
    configs = {
        "log.retention.check.interval.ms": "1",
        "retention.ms": 7 * 24 * HOUR_MS,
        "delivery.timeout.ms": "120000",
    }
    with new_disks(configs=configs) as disks:
        yield disks


@pytest.fixture
def cluster(disks):
    """A topic with a record of two hours ago, one of now, and one more of now."""
    disks.cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
    for value, hours in ((b"old", 2), (b"new", 0), (b"newest", 0)):
        stamped = datetime.now(UTC) - timedelta(hours=hours)
        disks.cluster.append("orders", [Record(b"k", value, timestamp=stamped)])
    return disks.cluster


# fmt: off
WAYS = [
    pytest.param(lambda cluster: cluster.run_controller(), id="a-controller-s-pass"),
    pytest.param(lambda cluster: cluster.replicate(),      id="a-round-without-a-controller"),
    pytest.param(lambda cluster: cluster.maintain(),       id="maintain"),
]
# fmt: on


@pytest.mark.parametrize("look", WAYS)
def test_what_is_too_old_goes_from_every_replica(disks, cluster, look):
    cluster.alter_topic_configs("orders", {"retention.ms": HOUR_MS})

    look(cluster)

    assert values_of(cluster, "orders") == [b"new", b"newest"]
    assert [disks.values_on(each, "orders") for each in (1, 2, 3)] == [[b"new", b"newest"]] * 3
    assert cluster.offsets("orders")[0].log_start_offset == 1
    assert cluster.fsck().findings == ()


def test_a_process_whose_clock_is_ahead_gives_its_time_to_nobody_and_is_refused_its_timestamps(
    disks, monkeypatch, caplog
):
    cluster = disks.cluster
    cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
    right = SystemClock.now_ms
    began_ms = right(SystemClock())

    with monkeypatch.context() as wrong, Cluster.open(cluster.root) as other:
        wrong.setattr(SystemClock, "now_ms", lambda self: right(self) + 3650 * 24 * HOUR_MS)
        other.create_topic("others", replica_assignment={0: [1, 2, 3]})
        other.append("orders", [(b"k", b"ahead")])
        timestamp = datetime.now(UTC) + timedelta(hours=2)
        with other.producer() as producer, pytest.raises(InvalidTimestampError):
            producer.send("orders", b"k", b"refused", timestamp=timestamp)
    cluster.append("orders", [(b"k", b"right")])
    with cluster.producer() as producer:
        producer.send("orders", b"k", b"sent").result(30)

    ahead, *others = [
        each.timestamp() * 1000 for each in cluster.read("orders")["timestamp"].to_pylist()
    ]
    assert began_ms <= ahead <= right(SystemClock()) + 60_000
    assert all(began_ms <= each <= right(SystemClock()) for each in others)
    told = [each.getMessage() for each in caplog.records if "clock of this process" in each.message]
    assert len(told) == 1
