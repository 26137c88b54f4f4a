"""A leader that has not got everything below C is elected uncleanly: what the register then says,
what the others that had compacted lose, and that compaction goes on."""

import pytest

from tests.cluster.disks import isr_of, new_disks, partition_of
from tests.cluster.killing.processes import contents, finish, replicas_differ, rows_of
from tests.cluster.killing.stories import COMPACTED, CONFIGS, TOPIC


@pytest.fixture
def disks():
    with new_disks(configs=CONFIGS) as disks:
        disks.cluster.create_topic(TOPIC, replica_assignment={0: [1, 2, 3]}, configs=COMPACTED)
        yield disks


def append(cluster, *words):
    """Append a batch a word: "a1" writes a=1, "-a" deletes it."""
    for word in words:
        row = (word[1:], None) if word[0] == "-" else (word[0], word[1:])
        cluster.append(TOPIC, [tuple(part and part.encode() for part in row)])


def uuids_of(cluster):
    partition = partition_of(cluster, TOPIC)
    return {each: partition.uuid_of(each) for each in partition.replicas}


def elect_uncleanly(disks):
    """Have broker 3 lead, which has the first two records only; return what was registered."""
    cluster = disks.cluster
    disks.take_away(1, 2)
    disks.give_back(3)
    cluster.run_controller()
    cluster.run_controller()
    assert partition_of(cluster, TOPIC).leader is None, "it is not elected unasked"
    cluster.elect_leaders("unclean", [(TOPIC, 0)])
    return partition_of(cluster, TOPIC)


def take_back(disks):
    """Have the others back, and in sync."""
    disks.give_back(1, 2)
    for _ in range(8):
        disks.cluster.run_controller()
        disks.cluster.replicate(is_sweep=True)
        disks.cluster.maintain()
        if isr_of(disks.cluster, TOPIC) == [1, 2, 3]:
            break


def check_equal(disks, expected):
    """Check that all replicas hold these records, and nobody anything else."""
    assert rows_of(disks.open()) == contents(disks.cluster, 1) == expected
    assert list(replicas_differ(disks.cluster)) == []
    assert disks.open().fsck(deep=True).findings == ()


@pytest.mark.parametrize("words", ["a2 b2 c1", "a2 -b c1 -a"], ids=["values", "tombstones"])
def test_after_an_unclean_election_below_what_is_compacted_replicas_are_equal(disks, words):
    cluster = disks.cluster
    append(cluster, "a1", "b1")
    disks.take_away(3)
    cluster.run_controller()
    append(cluster, *words.split())
    assert list(finish(cluster)) == []
    before, old = partition_of(cluster, TOPIC), uuids_of(cluster)
    assert before.compaction.compacted_below > 2

    elected = elect_uncleanly(disks)

    assert (elected.leader, elected.unclean_generation, elected.high_watermark) == (3, 1, 2)
    lowered = elected.compaction
    assert max(lowered.compacted_below, lowered.cleaned_below, lowered.tombstones_below) <= 2
    # It is not read before it has applied what it was lowered to, under its own leadership.
    cluster.replicate(is_sweep=True)
    cluster.maintain()
    assert rows_of(cluster) == [(0, b"a", b"1"), (1, b"b", b"1")]

    append(cluster, "d1", "a7", "-b")
    take_back(disks)

    new = uuids_of(cluster)
    assert [new[each] != old[each] for each in (1, 2, 3)] == [True, True, False]
    assert list(finish(cluster)) == []
    check_equal(disks, [(2, b"d", b"1"), (3, b"a", b"7")])

    append(cluster, "e1", "d2")
    assert list(finish(cluster)) == []
    assert partition_of(cluster, TOPIC).compaction.compacted_below == 7
    check_equal(disks, [(3, b"a", b"7"), (5, b"e", b"1"), (6, b"d", b"2")])
