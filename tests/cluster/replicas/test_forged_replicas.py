"""One replica's root changed by hand: it never leads, is never copied and never read."""

import pytest

from kafka_on_spark.fsck.findings import FsckReport
from tests import forging
from tests.cluster.disks import (
    PATIENCE_MS,
    kept_disks,
    partition_of,
    records,
    restored,
    values_of,
)

VALUES = [b"a", b"b", b"c", b"d"]
PASSES_MAX = 4


def rewritten(folder):
    forging.rewrite(folder, 1, b"FORGED")


def rewritten_and_made_to_compute(folder):
    forging.rewrite(folder, 1, b"FORGED")
    forging.rechain(folder)


def last_rewritten_and_made_to_compute(folder):
    forging.rewrite(folder, 3, b"FORGED")
    forging.rechain(folder)


def rewritten_and_longer(folder):
    forging.rewrite(folder, 3, b"FORGED")
    forging.append(folder, b"FORGED, too")


def rolled_back_and_gone_on(folder):
    forging.roll_back(folder)
    forging.append(folder, b"FORGED")


def header_changed(folder):
    forging.edit_batch(folder, 2, lambda add: add["partitionValues"].update(partition_count="7"))


def time_changed(folder):
    forging.edit_batch(folder, 2, lambda add: add.update(modificationTime=1))


def bit_of_a_commit_flipped(folder):
    forging.without_checkpoints(folder)
    forging.flip_a_bit(forging.commit_files(folder)[-1])


DAMAGES = [
    rewritten,
    rewritten_and_made_to_compute,
    last_rewritten_and_made_to_compute,
    rewritten_and_longer,
    forging.roll_back,
    rolled_back_and_gone_on,
    header_changed,
    time_changed,
    bit_of_a_commit_flipped,
]


def a_topic(disks):
    disks.cluster.create_topic(
        "orders",
        replica_assignment={0: [1, 2, 3]},
        configs={"min.insync.replicas": 2},
    )
    for value in VALUES:
        disks.cluster.append("orders", records(value))


def uuid_of(cluster, broker_id):
    return partition_of(cluster, "orders").uuid_of(broker_id)


def mend(cluster):
    cluster.replicate(is_sweep=True)
    cluster.run_controller()


def healed(cluster, broker_id, changed):
    """Have the cluster find and mend what it can, until the changed replica was made anew and all are
    in sync; and stay so."""

    def is_healed():
        mend(cluster)
        partition = partition_of(cluster, "orders")
        return uuid_of(cluster, broker_id) != changed and len(partition.isr) == 3

    assert any(is_healed() for _ in range(PASSES_MAX)), partition_of(cluster, "orders")
    assert is_healed(), "it was found bad again"


@pytest.fixture(scope="module")
def life():
    with kept_disks(a_topic) as base:
        yield base


@pytest.fixture
def with_a_topic(life):
    with restored(life) as disks:
        yield disks


@pytest.mark.parametrize(
    "broker_id, is_appended",
    [pytest.param(1, True, id="leader"), pytest.param(2, False, id="follower")],
)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_replica_that_was_changed_is_never_read_nor_copied_and_is_made_anew(
    with_a_topic, damage, broker_id, is_appended
):
    disks, changed = with_a_topic, uuid_of(with_a_topic.cluster, broker_id)
    damage(disks.folder(broker_id, "orders"))
    cluster = disks.open()
    expected = list(VALUES)

    report: FsckReport = cluster.fsck()
    assert values_of(cluster, "orders") == expected
    if is_appended:
        cluster.append("orders", records(b"after"), timeout_ms=PATIENCE_MS)
        expected.append(b"after")
    healed(cluster, broker_id, changed)
    cluster.append("orders", records(b"last"))
    expected.append(b"last")
    healed(cluster, broker_id, changed)

    assert {each.place.broker_id for each in report.findings} == {broker_id}
    assert values_of(disks.open(), "orders") == expected
    assert sorted(partition_of(cluster, "orders").isr) == [1, 2, 3]
    for each in (1, 2, 3):
        assert disks.values_on(each, "orders") == expected
