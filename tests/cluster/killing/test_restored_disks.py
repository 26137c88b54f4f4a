"""A broker's disk comes back from a copy of before a merge, a compaction or a retention pass: what
it lacks or has too much is seen, it is never served or elected wrongly, and it is made good."""

import shutil

import pytest

from tests.cluster.disks import new_disks, partition_of
from tests.cluster.killing.processes import contents, finish, replicas_differ, rows_of
from tests.cluster.killing.stories import CONFIGS, PRODUCER, SEQUENCE, STORIES, TOPIC, produced

LEADERS = {"merge": 1, "compaction": 2, "retention": 1}
PATIENCE = 8


@pytest.fixture
def disks():
    with new_disks(configs=CONFIGS) as disks:
        yield disks


def key(number):
    return b"later-%d" % number


def recover(disks):
    """Do what any process does from time to time, until all are in sync and nothing is due."""
    cluster = disks.open()
    for _ in range(PATIENCE):
        cluster.run_controller()
        cluster.replicate(is_sweep=True)
        cluster.maintain()  # a replica that has not compacted what it must is not in sync
        partition = partition_of(cluster, TOPIC)
        if partition.isr == frozenset(partition.replicas):
            break
    assert list(finish(cluster)) == []
    return cluster


def bring_back(disks, name, *, is_leader, is_late):
    """Copy a disk, maintain and perhaps append, and put the copy in its place; return what was
    read just before."""
    story, cluster = STORIES[name], disks.cluster
    story.build(cluster)
    whole = rows_of(cluster)
    leader = partition_of(cluster, TOPIC).leader
    assert leader == LEADERS[name]
    broker_id = leader if is_leader else 3
    copy = disks.leave_unreadable(disks.root(broker_id))
    story.act(cluster)
    if is_late:
        cluster.alter_topic_configs(TOPIC, {"retention.bytes": -1})
        for number in range(3):
            cluster.append(TOPIC, [(key(number), b"later")])
    rows = rows_of(cluster)
    disks.restore(copy, disks.root(broker_id))
    shutil.rmtree(copy)
    return broker_id, whole, rows


# fmt: off
CASES = [
    pytest.param("merge",      True,  False, id="a-leader-before-a-merge", marks=pytest.mark.long),
    pytest.param("merge",      False, False, id="a-follower-before-a-merge", marks=pytest.mark.long),
    pytest.param("merge",      True,  True,  id="a-leader-before-a-merge-and-appends"),
    pytest.param("merge",      False, True,  id="a-follower-before-a-merge-and-appends", marks=pytest.mark.long),
    pytest.param("compaction", True,  False, id="a-leader-before-a-compaction"),
    pytest.param("compaction", False, False, id="a-follower-before-a-compaction", marks=pytest.mark.long),
    pytest.param("compaction", True,  True,  id="a-leader-before-a-compaction-and-appends", marks=pytest.mark.long),
    pytest.param("compaction", False, True,  id="a-follower-before-a-compaction-and-appends", marks=pytest.mark.long),
    pytest.param("retention",  True,  False, id="a-leader-before-retention", marks=pytest.mark.long),
    pytest.param("retention",  False, False, id="a-follower-before-retention", marks=pytest.mark.long),
    pytest.param("retention",  True,  True,  id="a-leader-before-retention-and-appends", marks=pytest.mark.long),
    pytest.param("retention",  False, True,  id="a-follower-before-retention-and-appends", marks=pytest.mark.long),
]
# fmt: on


@pytest.mark.parametrize("name, is_leader, is_late", CASES)
def test_a_disk_that_comes_back_as_it_was_is_made_good(disks, name, is_leader, is_late):
    broker_id, whole, rows = bring_back(disks, name, is_leader=is_leader, is_late=is_late)

    # At once, by a process that knows nothing.
    assert rows_of(disks.open()) == rows

    cluster = recover(disks)
    assert rows_of(cluster) == rows
    assert list(replicas_differ(cluster)) == []
    assert disks.open().fsck(deep=True).findings == ()
    assert partition_of(cluster, TOPIC).unclean_generation == 0
    again = cluster.append(TOPIC, produced(SEQUENCE), producer_id=PRODUCER, sequence=SEQUENCE)
    assert again.partitions[0].is_duplicate
    cluster.append(TOPIC, [(b"at last", b"x")])
    assert [row[1:] for row in contents(cluster, broker_id)][-1] == (b"at last", b"x")
    assert name != "merge" or whole == rows[: len(whole)]


@pytest.mark.long
@pytest.mark.parametrize("name", LEADERS)
def test_a_disk_that_came_back_never_leads_with_what_it_lacks(disks, name):
    """All others are away when it is back: nobody leads, until one of them returns."""
    broker_id, _, rows = bring_back(disks, name, is_leader=True, is_late=True)
    others = {1, 2, 3} - {broker_id}
    disks.take_away(*others)
    cluster = disks.open()
    for _ in range(3):
        cluster.run_controller()
    assert partition_of(cluster, TOPIC).unclean_generation == 0

    disks.give_back(*others)

    cluster = recover(disks)
    assert rows_of(cluster) == rows
    assert list(replicas_differ(cluster)) == []
    assert disks.open().fsck(deep=True).findings == ()
