"""One operation on one table: load, decide, commit, and again after a conflict."""

import pytest

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    FencedLeaderEpochError,
    KafkaStorageError,
    ProducerFencedError,
    ReplicaLostError,
    RootFullError,
)
from kafka_on_spark.base.ids import NO_CHAIN, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log import replicas as tables
from kafka_on_spark.log.batch import WriterFence
from kafka_on_spark.log.replicas import advance_to
from kafka_on_spark.store.deadlines import CONFLICTS_MS
from tests.builders import NOW_MS, address, batch, disk, log, partition, staged, text_of
from tests.fakes import Fault, MemoryReplicaStore, MemoryRoots
from tests.log.test_reading import replicas_of

HERE = address(1)


@pytest.fixture
def roots():
    return MemoryRoots({HERE.root: disk(1)})


@pytest.fixture
def replica(roots):
    store = MemoryReplicaStore(roots)
    store.create(HERE)
    return store.open(HERE)


def lead(replica, epoch=0, **fields):
    """Begin to lead; what the table has at the high watermark is what is committed."""
    is_known = "hw" not in fields or "hw_chain" in fields
    if not is_known:
        fields["hw_chain"] = replica.load().chain_at(Offset(fields["hw"]))
    return tables.begin_leadership(replica, partition("1", epoch=epoch, **fields))


def append(replica, batch_, state=None, **fields):
    return tables.commit_staged(
        replica, batch_, state or replica.load(), leader_epoch=0, now_ms=NOW_MS, **fields
    )


def test_leader_begins_by_fencing_its_table(replica):
    state = lead(replica, 3)

    assert (state.leader_epoch, state.version) == (3, 1)
    assert replica.load() == state


def test_what_is_refused_on_an_old_state_is_decided_again_on_the_newest(roots, replica):
    lead(replica)
    old = append(replica, staged("a")).state
    append(MemoryReplicaStore(roots).open(HERE), staged("b"))

    appended = append(replica, staged("c"), old, expected_offset=Offset(2))

    assert appended.batch.base_offset == 2


# fmt: off
UNPROVEN = [  # register that a log of "0:ab" can't prove
    pytest.param({"hw": 3, "hw_epoch": 0},             id="shorter-than-the-high-watermark"),
    pytest.param({"hw": 2, "hw_epoch": 1},             id="another-epoch-below-it"),
    pytest.param({"hw": 2, "hw_epoch": 0, "hw_chain": log("0:ac").chain_digest}, id="another-log-of-the-same-epoch"),
]
# fmt: on


@pytest.mark.parametrize("register", UNPROVEN)
@pytest.mark.parametrize("epoch", [1, 0])
def test_leader_that_lacks_committed_records_does_not_begin(replica, register, epoch):
    """Nor go on: the proof is asked also of a table that is fenced already."""
    lead(replica)
    append(replica, staged("a"))
    before = append(replica, staged("b")).state

    with pytest.raises(ReplicaLostError):
        lead(replica, epoch, **register)

    assert replica.load() == before


def test_loser_of_a_race_against_a_new_leader_is_fenced(replica):
    old = lead(replica)
    lead(replica, 1)

    with pytest.raises(FencedLeaderEpochError):
        append(replica, staged("a"), old)

    assert replica.load().batches == ()


@pytest.mark.parametrize("fault, is_there", [(Fault.LOST_BEFORE, False), (Fault.LOST_ANSWER, True)])
def test_unknown_outcome_is_said_and_the_same_append_again_is_there_once(
    roots, replica, fault, is_there
):
    lead(replica)
    roots[HERE.root].faults.append(fault)

    with pytest.raises(CommitOutcomeUnknownError):
        append(replica, staged("a"))
    again = append(replica, staged("a"))

    assert again.is_duplicate is is_there
    assert text_of(replica.load()) == "0:a"


def test_a_commit_that_was_refused_is_not_looked_for_in_the_log(replica, monkeypatch):
    """Once what others have appended there is deleted, nobody could tell whether it stands."""

    def refuse(state, change):
        raise RootFullError("no space is left")

    lead(replica)
    puts = []
    with monkeypatch.context() as full:
        full.setattr(replica, "commit", refuse)
        with pytest.raises(RootFullError):
            append(replica, staged("a"), puts=puts)
    append(replica, staged("b"))
    append(replica, staged("c"))
    advance_to(replica, replica.load(), Offset(2))

    assert append(replica, staged("a"), puts=puts).batch.base_offset == 2


@pytest.mark.parametrize("count", [1, 5, 30])
def test_conflicts_are_tried_again(roots, replica, count):
    lead(replica)
    roots[HERE.root].faults.extend([Fault.CONFLICT] * count)

    assert append(replica, staged("a")).batch == batch("a", 0, after=log())


def test_conflicts_are_tried_again_no_longer_than_a_call_may_take(roots, replica):
    lead(replica)
    roots[HERE.root].faults.extend([Fault.CONFLICT] * 1000)

    with pytest.raises(KafkaStorageError, match="other commits are faster"):
        append(replica, staged("a"))
    with pytest.raises(KafkaStorageError, match="other commits are faster"):
        lead(replica, 1)

    assert len(roots[HERE.root].faults) == 1000 - 2 * (CONFLICTS_MS // 1000 + 1)


def test_an_unclean_leader_that_has_nothing_begins_at_the_log_start(replica):
    lead(replica)
    append(replica, staged("ab"))

    again = {"hw": 9, "hw_epoch": None, "hw_chain": NO_CHAIN, "start": 9}
    state = lead(replica, 4, **again)

    assert (state.log_start_offset, state.log_end_offset, state.leader_epoch) == (9, 9, 4)
    assert lead(replica, 4, **again) == state


def test_a_writers_epoch_is_written_once_to_a_log(replica):
    state = lead(replica)
    writer = WriterFence(transactional_id="t", epoch=3)

    fenced = tables.fence_older_writers(replica, state, writer)

    assert fenced.version == state.version + 1
    assert fenced.producers[writer.key].producer_epoch == 3
    assert tables.fence_older_writers(replica, fenced, writer) == fenced
    assert replica.load() == fenced
    with pytest.raises(ProducerFencedError):
        tables.fence_older_writers(replica, fenced, WriterFence(transactional_id="t", epoch=2))


@pytest.mark.parametrize("offset, begins_at", [(0, 0), (2, 2), (3, 3), (4, 0)])
def test_a_log_may_begin_up_to_its_end_and_not_above(offset, begins_at):
    replica = replicas_of(on_1="0:abc").open(address(1))

    after = advance_to(replica, replica.load(), Offset(offset))

    assert after.log_start_offset == begins_at
    assert after.log_end_offset == 3


def test_a_log_start_is_reached_in_as_many_commits_as_its_files_take(monkeypatch):
    monkeypatch.setattr(operations, "FILES_A_CHANGE_MAX", 2)
    replica = replicas_of(on_1="0:abcde").open(address(1))
    before = replica.load()

    after = advance_to(replica, before, Offset(5))

    assert (after.log_start_offset, after.batches) == (5, ())
    assert after.version == before.version + 3
