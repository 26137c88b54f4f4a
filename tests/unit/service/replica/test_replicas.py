"""One operation on one table: load, decide, commit, and again after a conflict."""

import pytest

from kafka_on_spark.errors import (
    CommitOutcomeUnknownError,
    FencedLeaderEpochError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    ProducerFencedError,
    ReplicaLostError,
    UnexpectedOffsetError,
)
from kafka_on_spark.ids import NO_CHAIN, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import WriterFence
from kafka_on_spark.service.replica import replica_operations
from tests.builders import NOW_MS, address, batch, disk, log, partition, staged, stamp, text_of
from tests.fakes import Fault, MemoryReplicaStore, MemoryRoots

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
    return replica_operations.begin_leadership(replica, partition("1", epoch=epoch, **fields))


def append(replica, batch_, state=None, **fields):
    return replica_operations.append(
        replica, batch_, state or replica.load(), leader_epoch=0, now_ms=NOW_MS, **fields
    )


def test_leader_begins_by_fencing_its_table(replica):
    state = lead(replica, 3)

    assert (state.leader_epoch, state.version) == (3, 1)
    assert replica.load() == state


def test_leadership_that_has_begun_is_not_begun_again(replica):
    first = lead(replica, 3)

    assert lead(replica, 3) == first


def test_older_leadership_is_refused(replica):
    lead(replica, 3)

    with pytest.raises(FencedLeaderEpochError):
        lead(replica, 2)


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


def test_append_says_where_it_stands(replica):
    lead(replica)
    first = append(replica, staged("a", "2"))
    second = append(replica, staged("b"))

    assert (first.batch, first.is_duplicate) == (batch("a", 0, "2", after=log()), False)
    assert (second.batch, second.is_duplicate) == (batch("b", 2, after=log("0:aa")), False)
    assert second.state == replica.load()


def test_loser_of_a_race_takes_the_new_end_with_the_same_files(replica):
    old = lead(replica)
    append(replica, staged("a", "2"))

    late = append(replica, staged("b"), old)

    assert late.batch == batch("b", 2, after=log("0:aa"))
    assert text_of(replica.load()) == "0:aab"


def test_loser_of_a_race_against_itself_finds_its_own_append(replica):
    """The twin of a task, or a retry of an unknown outcome: decided in the commit, once."""
    old = lead(replica)
    won = append(replica, staged("a", producer=stamp(4)), old)

    again = append(replica, staged("z", producer=stamp(4)), old)

    assert (again.batch, again.is_duplicate) == (won.batch, True)
    assert text_of(replica.load()) == "0:a"


def test_loser_of_a_race_against_a_new_leader_is_fenced(replica):
    old = lead(replica)
    lead(replica, 1)

    with pytest.raises(FencedLeaderEpochError):
        append(replica, staged("a"), old)

    assert replica.load().batches == ()


def test_expected_offset_is_asked_again_after_a_lost_race(replica):
    old = lead(replica)
    append(replica, staged("a"))

    with pytest.raises(UnexpectedOffsetError):
        append(replica, staged("b"), old, expected_offset=Offset(0))


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


@pytest.mark.parametrize("count", [1, 5, 31])
def test_conflicts_are_tried_again(roots, replica, count):
    lead(replica)
    roots[HERE.root].faults.extend([Fault.CONFLICT] * count)

    assert append(replica, staged("a")).batch == batch("a", 0, after=log())


def test_endless_conflict_is_bounded(roots, replica):
    lead(replica)
    roots[HERE.root].faults.extend([Fault.CONFLICT] * 1000)

    with pytest.raises(KafkaStorageError, match="keep conflicting"):
        append(replica, staged("a"))
    with pytest.raises(KafkaStorageError, match="keep conflicting"):
        lead(replica, 1)

    assert len(roots[HERE.root].faults) == 1000 - 2 * replica_operations.ATTEMPTS_MAX


def test_decision_that_is_nothing_commits_nothing(replica):
    before = lead(replica)

    after = replica_operations.commit_decided(
        replica, lambda state: operations.advance_log_start(state, Offset(0))
    )

    assert after == before


@pytest.mark.parametrize("happen", ["offline", "wiped", "other-disk"])
def test_table_that_is_not_there_is_said(roots, replica, happen):
    root = roots[HERE.root]
    if happen == "offline":
        root.is_offline = True
    else:
        root.wipe()
    if happen == "other-disk":
        root.directory_id = disk(9)

    with pytest.raises(KafkaStorageError):  # absent, not lost: it may come back as it was
        lead(replica)


def test_table_that_went_back_lacks_what_was_committed(roots, replica):
    lead(replica)
    append(replica, staged("a"))
    roots[HERE.root].roll_back(1)

    with pytest.raises(ReplicaLostError):
        lead(replica, 1, hw=1, hw_epoch=0)


class StaleOnce:
    """A replica whose first state is an old one, from a listing that misses the newest commits."""

    def __init__(self, replica, stale):
        self.load = iter([stale, *[replica.load()] * 9]).__next__
        self.commit = replica.commit


def test_a_stale_state_of_a_leader_is_no_loss(replica):
    """A log seems too short on an old listing; it was called lost (found by simulation)."""
    stale = lead(replica)
    newest = append(replica, staged("a", "2")).state

    state = lead(StaleOnce(replica, stale), hw=2, hw_epoch=0, hw_chain=newest.chain_digest)

    assert state == newest


def test_a_leader_whose_log_start_has_moved_on_is_not_lost(replica):
    """A plan of before the deletion called a whole log lost (found by simulation)."""
    lead(replica)
    state = append(replica, staged("a")).state
    replica.commit(state, operations.advance_log_start(state, Offset(1)))

    with pytest.raises(NotLeaderOrFollowerError, match="refresh"):
        lead(replica, hw=1, hw_epoch=0, start=0)
    assert lead(replica, hw=1, hw_epoch=0, start=1).log_start_offset == 1


def test_an_unclean_leader_that_has_nothing_begins_at_the_log_start(replica):
    lead(replica)
    append(replica, staged("ab"))

    again = {"hw": 9, "hw_epoch": None, "hw_chain": NO_CHAIN, "start": 9}
    state = lead(replica, 4, **again)

    assert (state.log_start_offset, state.log_end_offset, state.leader_epoch) == (9, 9, 4)
    assert lead(replica, 4, **again) == state


def test_a_log_that_starts_below_the_images_log_start_leads(replica):
    """Its replica has not applied yet what was decided; one that starts above knows more."""
    lead(replica)
    for each in "abc":
        append(replica, staged(each))
    change = operations.advance_log_start(replica.load(), Offset(1))
    replica.commit(replica.load(), change)

    assert lead(replica, 1, start=2, hw=2, hw_epoch=0).leader_epoch == 1
    with pytest.raises(NotLeaderOrFollowerError, match="starts above"):
        lead(replica, 2, start=0, hw=0)


# fmt: off
PROOFS = [  # high watermark, epoch below it   proves
    pytest.param(1, 0,                           True,  id="in the first leadership"),
    pytest.param(2, 0,                           True,  id="at its end"),
    pytest.param(3, 2,                           True,  id="in a later one"),
    pytest.param(5, 4,                           True,  id="at the log end"),
    pytest.param(3, 0,                           False, id="of the epoch at the log start"),
    pytest.param(3, 4,                           False, id="of the epoch at the log end"),
    pytest.param(6, 4,                           False, id="above the log end"),
]
# fmt: on


@pytest.mark.parametrize("hw, hw_epoch, expected", PROOFS)
def test_a_log_of_several_leaderships_proves_itself_by_the_one_below_the_high_watermark(
    hw, hw_epoch, expected
):
    state = log("0:ab 2:c 4:de")
    register = partition("1", hw=hw, hw_epoch=hw_epoch, hw_chain=state.chain_at(Offset(hw)))

    assert replica_operations.proves_complete(state, register) is expected


def test_a_writers_epoch_is_written_once_to_a_log(replica):
    state = lead(replica)
    writer = WriterFence(transactional_id="t", epoch=3)

    fenced = replica_operations.fence_older_writers(replica, state, writer)

    assert fenced.version == state.version + 1
    assert fenced.producers[writer.key].producer_epoch == 3
    assert replica_operations.fence_older_writers(replica, fenced, writer) == fenced
    assert replica_operations.fence_older_writers(replica, fenced, None) == fenced
    assert replica.load() == fenced
    with pytest.raises(ProducerFencedError):
        replica_operations.fence_older_writers(
            replica, fenced, WriterFence(transactional_id="t", epoch=2)
        )
