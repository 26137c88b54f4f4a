"""The contract of VoterLog, for the fake and for the one on Delta, on a disk and on a store."""

import errno
import os

import pytest

from kafka_on_spark.base.errors import (
    ClusterNotFoundError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    KafkaStorageError,
    ReplicaLostError,
    RootAccessDeniedError,
)
from kafka_on_spark.metadata.quorum.raft import adopt, append, fetch
from kafka_on_spark.metadata.quorum.voter_table import OffsetAndEpoch, TableChange
from kafka_on_spark.metadata.records import ClusterRecord, MetadataBatch, Stamp
from kafka_on_spark.store import local_files
from kafka_on_spark.store.roots import StorageOptions
from tests.contract.voter_roots import delta_roots, lose_tail, memory_roots
from tests.store.s3.faulty_s3 import BUCKET
from tests.voter_fakes import STAMP, VoterFault, key_of, settings_of


@pytest.fixture(params=["memory", "disk", pytest.param("S3", marks=pytest.mark.long)])
def roots(request, tmp_path, monkeypatch):
    if request.param == "memory":
        return memory_roots()
    if request.param == "disk":
        return delta_roots(str(tmp_path), StorageOptions(), monkeypatch)
    _, options, _ = request.getfixturevalue("stored_roots")
    folder = f"s3://{BUCKET}/voters-{abs(hash(request.node.name))}"
    return delta_roots(folder, options, monkeypatch)


LOST = (ReplicaLostError, ClusterNotFoundError)
SNAPSHOT = (ClusterRecord(cluster_id="a-cluster"), *settings_of(*"abc"))


def decided(log, *names, time_ms=STAMP.time_ms, epoch=1):
    """Append a decision to a leader's log, whatever is committed of it; return the table after it."""
    table = log.load()
    end = table.log.end_offset
    batch = MetadataBatch(
        base_offset=end, stamp=Stamp(time_ms=time_ms), records=settings_of(*names)
    )
    return log.commit(
        table,
        append(
            table, epoch, end, base_offset=end, record_count=len(names), write_id="".join(names)
        ),
        batch,
    )


def test_a_table_is_loaded_as_it_was_committed_by_whoever_asks(roots):
    leader = roots.open(0)

    after = decided(leader, "a", "b")

    for log in (leader, roots.open(0)):
        found = log.load()
        assert found == after
        assert found.version == after.version
    assert after.leads
    assert [each.write_id for each in after.log.batches] == ["bootstrap", "no-op-1", "ab"]


def test_votes_marks_and_cuts_are_read_back(roots):
    leader, voter = roots.open(0), roots.open(1)
    decided(leader, "a")
    changes = [
        adopt(voter.load(), leader.load()),
        TableChange(quorum_epoch=4, vote=key_of(2)),
        TableChange(leader=key_of(2), cut_to=0),
        TableChange(quorum_epoch=5),
    ]
    for change in changes:
        table = voter.load()

        after = voter.commit(table, change)

        assert after == table.apply(change)
        assert roots.open(1).load() == after
        assert after.version == table.version + 1


def test_the_loser_of_a_race_has_changed_nothing(roots):
    winner, loser = roots.open(0), roots.open(0)
    old = loser.load()
    won = decided(winner, "a")

    with pytest.raises(CommitConflictError):
        loser.commit(old, TableChange(quorum_epoch=9))

    assert loser.load() == won


def test_records_are_read_as_they_were_appended_between_borders(roots):
    log = roots.open(0)
    decided(log, "a", "b")
    decided(log, "c")

    found = roots.open(0).read(from_offset=2, to_offset=5)

    assert [each.records for each in found] == [settings_of("a", "b"), settings_of("c")]
    assert [each.base_offset for each in found] == [2, 4]
    assert log.read(from_offset=2, to_offset=4) == found[:1]
    assert log.read(from_offset=2, to_offset=3) == []
    for start, end in ((3, 5), (2, 6)):
        with pytest.raises(CorruptLogError):
            log.read(from_offset=start, to_offset=end)


def test_what_a_voter_fetches_is_what_its_leader_has(roots):
    leader, voter = roots.open(0), roots.open(1)
    led = decided(leader, "a", "b")
    voter.commit(voter.load(), adopt(voter.load(), led))

    voter.commit(voter.load(), fetch(voter.load(), led), leader)

    assert voter.load().log == led.log
    assert voter.read(from_offset=0, to_offset=4) == leader.read(from_offset=0, to_offset=4)


def test_what_was_cut_since_it_was_seen_is_not_copied_from_what_stands_in_its_place(roots):
    voter = roots.open(1)
    voter.commit(voter.load(), adopt(voter.load(), roots.open(0).load()))
    stale = lose_tail(roots, lambda: decided(roots.open(0), "a"))
    before = voter.load()

    with pytest.raises(CorruptLogError):
        voter.commit(before, fetch(before, stale), roots.open(0))

    assert voter.load() == before


def test_a_copy_from_a_root_that_is_away_puts_nothing(roots):
    leader, voter = roots.open(0), roots.open(1)
    led = leader.load()
    voter.commit(voter.load(), adopt(voter.load(), led))
    before = voter.load()
    roots.away(0)

    with pytest.raises(KafkaStorageError):
        voter.commit(before, fetch(before, led), leader)

    assert voter.load() == before


def test_a_look_says_whether_anybody_has_committed_since(roots):
    mine, others = roots.open(0), roots.open(0)
    table = mine.load()
    assert mine.is_newest(table)

    after = decided(others, "a")

    assert not mine.is_newest(table)
    assert others.is_newest(after)


def test_a_root_that_was_emptied_is_another_directory(roots):
    log = roots.open(1)
    log.load()
    roots.empty(1)

    for lost in (log, roots.open(1)):
        with pytest.raises(LOST):
            lost.load()


def test_a_table_that_went_back_behind_what_was_seen_is_refused(roots):
    log = roots.open(0)
    seen = decided(log, "a")
    roots.restore(0, seen.version - 1)

    assert not is_newest(log, seen)
    with pytest.raises(ReplicaLostError):
        log.load()
    decided(roots.open(0), "b")
    assert not is_newest(log, seen)
    with pytest.raises(ReplicaLostError):
        log.load()


def is_newest(log, table):
    try:
        return log.is_newest(table)
    except ReplicaLostError:
        return False


@pytest.mark.parametrize(
    "fault, stands",
    [(VoterFault.LOST_BEFORE, False), (VoterFault.LOST_ANSWER, True), (VoterFault.TORN, True)],
)
def test_an_outcome_that_is_unknown_shows_in_the_table(roots, fault, stands):
    log = roots.open(0)
    roots.fault(0, fault)

    with pytest.raises(CommitOutcomeUnknownError):
        decided(log, "a")

    assert (log.load().log.batches[-1].write_id == "a") == stands


def test_a_root_that_is_away_says_so(roots):
    log = roots.open(0)
    table = log.load()
    roots.away(0)

    for ask in (
        log.load,
        lambda: log.is_newest(table),
        lambda: log.read(from_offset=0, to_offset=1),
        log.snapshots,
        lambda: log.read_snapshot(OffsetAndEpoch(1, 0)),
    ):
        with pytest.raises(KafkaStorageError):
            ask()


def test_a_moment_ends_the_log_before_the_first_batch_of_a_later_time(roots):
    log = roots.open(0)
    decided(log, "a", time_ms=STAMP.time_ms + 5)
    decided(log, "b", time_ms=STAMP.time_ms + 3)

    found = [log.offset_at(STAMP.time_ms + late_ms) for late_ms in (-1, 0, 3, 5)]

    assert found == [0, 2, 2, 4]


def test_a_snapshot_is_found_and_read_by_where_it_ends(roots):
    log = roots.open(0)
    assert log.snapshots() == []
    ends = [OffsetAndEpoch(4, 1), OffsetAndEpoch(6, 1), OffsetAndEpoch(6, 2)]
    for end in ends:
        log.write_snapshot(SNAPSHOT, STAMP, end)
    log.write_snapshot(SNAPSHOT[:1], STAMP, ends[0])

    assert sorted(roots.open(0).snapshots()) == ends
    for end in ends:
        found = log.read_snapshot(end)
        assert (found.end_offset, found.records) == (end.offset, SNAPSHOT)


@pytest.mark.parametrize("roots", ["disk"], indirect=True)
def test_a_disk_that_is_read_only_denies_what_is_put_there_and_names_its_root(roots, monkeypatch):
    leader = roots.open(0)
    leader.load()

    def refuse(*given, **named):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as read_only:
        read_only.setattr(local_files, "write_temporary", refuse)
        with pytest.raises(RootAccessDeniedError, match=f"{leader.root} takes no writes"):
            decided(leader, "a")
