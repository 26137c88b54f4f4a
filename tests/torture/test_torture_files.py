"""Faults of single files, forgeries and false verdicts: what is done, and that it is undone."""

import time

import pytest

from tests.cluster.disks import new_disks, partition_of, records, values_of
from tests.rigs.torturing.checks.anomalies import Anomaly
from tests.rigs.torturing.checks.verdicts import false_verdicts
from tests.rigs.torturing.checks.wholeness import acknowledged_since, open_again
from tests.rigs.torturing.faults.forging import FORGERIES, places_on
from tests.rigs.torturing.history import APPEND, OK, HistoryWriter


def test_a_replica_that_was_found_bad_for_a_passing_error_is_an_anomaly():
    before = {("orders/0", 3, "broker 1: replica is bad: lost")}
    new = ("orders/1", 9, "broker 2: replica is bad: x")

    assert false_verdicts(before, before) == []
    assert false_verdicts(before, before | {new}) == [
        Anomaly(
            "false-verdict", "orders/1", f"errors passed, and an intact replica was lost: {new[2]}"
        )
    ]


def test_only_appends_that_were_begun_since_count_as_answered(tmp_path):
    writer = HistoryWriter(tmp_path, "a.1")

    def begin(key):
        return writer.invoke(
            APPEND, parts={key: [key]}, acks="all", producer_id=None, sequence=None
        )

    before = begin("orders/0")
    since_ns = time.monotonic_ns()
    after = begin("orders/1")
    for call, key in ((before, "orders/0"), (after, "orders/1")):
        writer.complete(call, APPEND, OK, bases={key: 0})

    times = acknowledged_since(tmp_path, ["a"], since_ns)

    assert [key for key, at_ns in times.items() if at_ns is not None] == ["orders/1"]
    assert set(times) == {"orders/0", "orders/1", "payments/0", "payments/1"}


@pytest.mark.parametrize("kind", FORGERIES)
def test_a_forged_replica_is_found_by_a_newly_opened_cluster_and_created_again(kind):
    values = [b"a", b"b", b"c"]
    with new_disks(configs={"min.insync.replicas": "2"}) as disks:
        disks.cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
        for value in values:
            disks.cluster.append("orders", records(value))
        [place] = places_on(disks.cluster.image, 1)

        is_done = FORGERIES[kind](place)
        open_again(str(disks.metadata_root), "orders", 0)
        for _ in range(3):
            disks.cluster.run_controller()
            disks.cluster.replicate()

        assert is_done
        assert not place.is_in(disks.cluster.image)
        assert sorted(partition_of(disks.cluster, "orders").isr) == [1, 2, 3]
        assert values_of(disks.cluster, "orders") == values
        assert disks.values_on(1, "orders") == values
        assert disks.cluster.fsck().findings == ()
