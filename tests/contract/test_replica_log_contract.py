"""The contract of ReplicaLog and ReplicaStore, for the fakes and for those on Delta."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import CommitConflictError, KafkaStorageError, ReplicaLostError
from kafka_on_spark.base.ids import DirectoryId, Offset, PartitionKey
from kafka_on_spark.log import operations, producer_state
from kafka_on_spark.log.compaction import CompactionProgress
from kafka_on_spark.log.producer_state import AppendedBefore
from tests.builders import NOW_MS, batch, disk, entry, log, merged, staged, stamp, text_of, uuid_on

CHAIN = log("0:xyz").chain_digest


@pytest.fixture
def address(disks):
    return disks.addresses[1]


@pytest.fixture
def replica(disks, address):
    disks.replicas.create(address)
    return disks.replicas.open(address)


def adopt(state, epoch, *, cut=None):
    return operations.adopt(state, leader_epoch=epoch, truncate_to=cut, floor=Offset(0))


def append(state, batch_):
    return operations.append(state, batch_, leader_epoch=state.leader_epoch, now_ms=NOW_MS)


def run(replica, *decisions):
    """Commit one decision after the other; return the state after the last."""
    for decide in decisions:
        state = replica.load()
        change = decide(state)
        after = replica.commit(state, change)
        assert after == state.apply(change)
    return after


def lead(epoch):
    return lambda state: adopt(state, epoch)


def write(name, counts="1", producer=None):
    return lambda state: append(
        state, staged(name, counts, epoch=state.leader_epoch, producer=producer)
    )


def assert_reopens_as(disks, address, expected):
    assert disks.reopened().open(address).load() == expected


def test_new_table_is_an_empty_log_without_a_fence(replica, address):
    state = replica.load()

    assert state.identity == address.identity
    assert (state.version, state.log_start_offset, state.log_end_offset) == (0, 0, 0)
    assert (state.leader_epoch, state.batches, dict(state.producers)) == (None, (), {})


def test_creating_twice_keeps_the_table_that_is_there(disks, replica, address):
    after = run(replica, lead(0), write("a"))

    disks.replicas.create(address)

    assert_reopens_as(disks, address, after)


def test_every_operation_is_read_back_as_it_was_committed(disks, replica, address):
    def fetch(state):
        first = batch("f", 7, "2 1", epoch=2, after=state)
        longer = replace(state, batches=(*state.batches, first))
        second = batch("g", 10, epoch=2, producer=stamp(6), after=longer)
        return operations.append_fetched(state, [first, second], leader_epoch=2)

    steps = [
        ("", lead(0)),
        ("0:a", write("a")),
        ("0:abbb", write("b", "2 1", stamp(4, epoch=1, digest=-(2**63)))),
        ("0:abbbccc", write("c", "1 1 1")),
        ("0:abbbccc", lead(2)),
        ("0:abbbccc 2:fffg", fetch),
        ("0:abbb", lambda state: adopt(state, 3, cut=Offset(4))),
        ("0:bbb", lambda state: operations.advance_log_start(state, Offset(2))),
        ("0:bbb", lambda state: producer_state.fence_producer(state, "q", 5, leader_epoch=3)),
        ("", lambda state: operations.advance_log_start(state, Offset(4))),
    ]
    for expected, decide in steps:
        after = run(replica, decide)

        assert text_of(after) == expected
        assert_reopens_as(disks, address, after)
    assert after.version == len(steps)
    assert after.producers == {
        "p": entry(4, epoch=1, base=1, count=3, digest=-(2**63)),
        "q": entry(epoch=5),
    }


def test_a_merge_is_one_commit_that_is_read_back_as_it_was_made(disks, replica, address):
    def merge(base, end, **given):
        def decide(state):
            made = merged(state, base, end, **given)
            return operations.replace_neighbours(
                state,
                state.batches_between(base, end),
                made,
                operation="merge",
                leader_epoch=state.leader_epoch,
                stable_offset=Offset(end),
                compaction=state.compaction,
            )

        return decide

    run(replica, lead(0), write("a"), write("b", "2 1"), lead(2), write("c"), write("d", "2"))

    after = run(replica, merge(0, 4))
    assert_reopens_as(disks, address, after)
    assert [each.end_offset for each in after.batches] == [4, 5, 7]

    after = run(replica, write("e"), merge(4, 8, records=0), write("f"))
    assert_reopens_as(disks, address, after)
    assert [each.record_count for each in after.batches] == [4, 0, 1]

    after = run(replica, lambda state: operations.advance_log_start(state, Offset(4)))
    assert_reopens_as(disks, address, after)


def test_new_start_is_one_commit_with_the_leaders_producers(disks, replica, address):
    kept = {"p": entry(2**40, epoch=3, base=2**50), "q / é": entry(epoch=2, unknown_to=7)}
    before = run(replica, lead(1), write("a", "2"), write("b"))

    after = run(
        replica,
        lambda state: operations.truncate_fully_and_start_at(
            state, Offset(40), leader_epoch=2, producers=kept, chain_before=CHAIN
        ),
    )

    assert after.version == before.version + 1
    assert (after.log_start_offset, after.log_end_offset, after.batches) == (40, 40, ())
    assert (after.leader_epoch, dict(after.producers)) == (2, kept)
    assert after.chain_digest == CHAIN
    assert_reopens_as(disks, address, after)


def test_producers_whose_headers_went_survive_checkpoints(disks, replica, address):
    run(
        replica, lead(0), write("a", producer=stamp(4)), write("b", producer=stamp(5, producer="q"))
    )
    run(replica, lambda state: operations.advance_log_start(state, Offset(2)))
    for name in "cdefghijklmn":
        after = run(replica, write(name))
        replica.maintain()

    again = disks.reopened().open(address).load()

    assert again == after
    kept = {"p": entry(4), "q": entry(5, base=1)}
    assert again.producers == kept
    assert append(again, staged("z", producer=stamp(4))) == AppendedBefore(None, kept["p"].last)


def test_commit_decided_on_an_old_state_is_a_conflict_and_changes_nothing(disks, replica, address):
    old = run(replica, lead(0))
    newest = run(replica, write("a"))

    with pytest.raises(CommitConflictError):
        replica.commit(old, append(old, staged("b")))

    assert_reopens_as(disks, address, newest)


def test_a_change_decided_on_what_the_disk_has_lost_is_a_conflict_at_the_same_version_too(
    disks, replica, address
):
    """Another thread, which shares the handle, has read what a restored disk was given since."""
    run(replica, lead(0))
    lost = run(replica, write("a"))
    disks.lose_commit(address)
    newest = run(disks.reopened().open(address), write("b"))
    assert replica.load() == newest
    assert newest.version == lost.version

    with pytest.raises(CommitConflictError):
        replica.commit(lost, append(lost, staged("c")))

    assert_reopens_as(disks, address, newest)
    assert run(replica, write("c")).log_end_offset == 2


# fmt: off
OTHERS = [  # a replica that is not there, or another's table, is lost; of another disk nothing is said
    pytest.param({"key": PartitionKey("0" * 32, 0)},        ReplicaLostError,  id="topic-id"),
    pytest.param({"key": PartitionKey("1" * 32, 4)},        ReplicaLostError,  id="partition"),
    pytest.param({"replica_uuid": uuid_on(9)},              ReplicaLostError,  id="replica-uuid"),
    pytest.param({"directory_id": DirectoryId("other")},    KafkaStorageError, id="directory"),
]
# fmt: on


@pytest.mark.parametrize("fields, error", OTHERS)
def test_another_identity_is_never_served(disks, replica, address, fields, error):
    run(replica, lead(0), write("a"))

    with pytest.raises(error):
        disks.reopened().open(replace(address, **fields)).load()


def test_a_replica_is_not_created_on_another_disk_or_where_there_is_no_root(disks, address):
    other = replace(address, directory_id=disk(9), replica_uuid=uuid_on(9))
    with pytest.raises(KafkaStorageError):
        disks.replicas.create(other)
    with pytest.raises(KafkaStorageError):
        disks.replicas.open(other).load()

    with pytest.raises((ReplicaLostError, KafkaStorageError)):
        disks.replicas.create(replace(address, root=f"{address.root}-unmounted"))


def test_counters_of_compaction_are_in_the_commit_that_changes_them(disks, replica, address):
    run(replica, lead(0), write("a", "2"))
    progress = CompactionProgress(
        compacted_below=2, tombstones_below=1, round_below=2, compacted_to=1, finished_below=1
    )

    run(replica, lambda state: replace(adopt(state, 1), compaction=progress))
    after = run(replica, write("b"))

    assert after.compaction == progress
    assert_reopens_as(disks, address, after)
