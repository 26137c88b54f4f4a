"""Three voters: a decision is answered once a majority holds it, and a read is confirmed by one."""

from unittest.mock import patch

import pytest

from kafka_on_spark.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    InconsistentClusterError,
    KafkaStorageError,
    QuorumUnavailableError,
    ReplicaLostError,
)
from kafka_on_spark.metadata.records import MetadataBatch
from kafka_on_spark.raft.log.raft_log import OffsetAndEpoch
from kafka_on_spark.raft.tables.appending import NewDecision, append
from kafka_on_spark.raft.tables.following import adopt, fetch
from kafka_on_spark.service.quorum import leadership
from tests.voter_fakes import (
    SETTINGS,
    STAMP,
    MemoryQuorum,
    MemoryVoterLog,
    VoterFault,
    settings_of,
)


@pytest.fixture
def quorum():
    return MemoryQuorum()


@pytest.fixture
def process(quorum):
    """A process that has read what is committed: each voter has the first no-op."""
    process = quorum.process()
    process.decide("first")
    return process


def leave_tail(quorum, name):
    """Put a decision on the leader's table alone: its writer dies before anybody follows."""
    root = quorum.roots[0]
    end = root.table.log.end_offset
    batch = MetadataBatch(base_offset=end, stamp=STAMP, records=settings_of(name))
    write = NewDecision(base_offset=end, record_count=1, write_id=name)
    change = append(root.table, root.table.quorum_epoch, end, write)
    assert root.put(root.table, change, {name: batch})


def follow(quorum, node):
    """Bring a voter up to voter 0, as another process does."""
    leader, voter = quorum.roots[0], quorum.roots[node]
    for decide in (adopt, fetch):
        change = decide(voter.table, leader.table)
        if change is not None:
            assert voter.put(voter.table, change, leader.content)


def test_a_decision_is_answered_once_a_majority_holds_it(quorum, process):
    process.calls.loses_rest = True

    process.decide("a")

    assert [len(root.writes) for root in quorum.roots] == [4, 4, 3]
    assert quorum.process("q").names() == ["first", "a"]


def test_who_was_left_behind_is_brought_up_after_a_later_answer(quorum, process):
    process.calls.loses_rest = True
    process.decide("a")
    process.calls.loses_rest = False

    process.decide("b")

    assert quorum.roots[2].writes == quorum.roots[0].writes
    assert quorum.roots[2].table.log == quorum.roots[1].table.log


def test_an_append_is_a_commit_a_voter_and_an_idle_read_looks_at_two(quorum, process):
    end = process.read(from_offset=0)[-1].end_offset
    before = [(root.commits, root.looks, root.loads) for root in quorum.roots]

    process.decide("a", at=end)
    process.read(from_offset=end + 1)

    after = [(root.commits, root.looks, root.loads) for root in quorum.roots]
    made = [
        tuple(b - a for a, b in zip(*each, strict=True)) for each in zip(before, after, strict=True)
    ]
    assert made == [(1, 1, 0), (1, 1, 0), (1, 0, 0)]


@pytest.mark.parametrize("away", [1, 2])
def test_one_voter_may_be_away(quorum, process, away):
    quorum.roots[away].is_offline = True

    process.decide("a")

    assert quorum.process("q").names() == ["first", "a"]
    quorum.roots[away].is_offline = False
    process.decide("b")
    assert quorum.roots[away].writes == quorum.roots[0].writes


def test_a_decision_that_too_few_hold_is_unknown(quorum, process):
    for node in (1, 2):
        quorum.roots[node].is_read_only = True

    with pytest.raises(CommitOutcomeUnknownError):
        process.decide("a")

    # It stands on the leader: the next who looks ends what the writer left.
    for node in (1, 2):
        quorum.roots[node].is_read_only = False
    assert process.names() == ["first", "a"]


def test_a_tail_is_ended_by_whoever_finds_it_after_a_commits_time(quorum, process):
    leave_tail(quorum, "tail")

    assert quorum.process("q").names() == ["first", "tail"]
    assert quorum.clock.slept_ms[-1] == 50
    assert quorum.roots[1].writes == quorum.roots[0].writes


def test_a_tail_is_ended_before_anything_is_decided(quorum, process):
    end = process.read(from_offset=0)[-1].end_offset
    leave_tail(quorum, "tail")

    with pytest.raises(CommitConflictError):
        process.decide("a", at=end)

    process.decide("a")
    assert process.names() == ["first", "tail", "a"]


def test_a_tails_own_writer_may_end_it(quorum, process):
    leave_tail(quorum, "tail")
    quorum.clock.on_sleep = lambda: follow(quorum, 1)
    before = [root.commits for root in quorum.roots]

    assert process.names() == ["first", "tail"]
    assert [root.commits for root in quorum.roots] == [before[0], before[1] + 1, before[2]]


def test_who_loses_the_race_to_end_a_tail_counts_the_winners_commit(quorum, process):
    leave_tail(quorum, "tail")

    def overtake(change):
        quorum.roots[1].before_commit = lambda change: None
        follow(quorum, 1)

    quorum.roots[1].before_commit = overtake

    assert process.names() == ["first", "tail"]


def test_nobody_reads_what_only_the_leader_has(quorum, process):
    leave_tail(quorum, "tail")
    reader = quorum.process("q")
    reader.cut_off = {1, 2}

    with pytest.raises(QuorumUnavailableError):
        reader.names()
    assert [batch.records for batch in process.look(from_offset=3)] == []


def test_a_look_shows_what_the_leaders_log_proves(quorum, process):
    end = process.read(from_offset=0)[-1].end_offset
    other = quorum.process("q")
    first = other.decide("a")
    other.decide("b")
    quorum.roots[1].is_offline = quorum.roots[2].is_offline = True

    assert process.look(from_offset=end) == [first]


def test_the_minority_side_neither_reads_nor_decides_and_the_other_side_does_both(quorum, process):
    process.cut_off = {1, 2}
    other = quorum.process("q")

    with pytest.raises(QuorumUnavailableError):
        process.names()
    with pytest.raises((QuorumUnavailableError, CommitOutcomeUnknownError)):
        process.decide("a", at=3)

    other.decide("b")
    assert "b" in other.names()
    process.cut_off = set()
    assert process.names() == other.names()


def test_a_process_that_reaches_followers_only_ends_nothing_that_others_lead(quorum, process):
    """It waits, and finds that the voters take the leader's batches: it disturbs nobody."""
    lonely = quorum.process("q")
    assert lonely.names() == ["first"]
    lonely.cut_off = {0}
    quorum.clock.on_sleep = lambda: process.decide("more")

    with pytest.raises(QuorumUnavailableError):
        lonely.names()

    assert {root.table.quorum_epoch for root in quorum.roots} == {1}


def test_an_emptied_voter_counts_for_nothing(quorum, process):
    quorum.roots[2].empty()

    process.decide("a")
    assert quorum.process("q").names() == ["first", "a"]

    quorum.roots[0].is_offline = True
    with pytest.raises(QuorumUnavailableError):
        process.names()
    assert len(quorum.roots[2].versions) == 1


def test_a_voter_that_was_restored_is_refused_by_who_has_seen_more(quorum, process):
    process.decide("a")
    quorum.roots[2].restore(1)

    process.decide("b")

    assert len(quorum.roots[2].versions) == 2
    quorum.roots[1].is_offline = True
    with pytest.raises((QuorumUnavailableError, CommitOutcomeUnknownError)):
        process.decide("c")


def test_a_leader_that_was_restored_is_replaced_by_who_has_seen_more(quorum, process):
    process.decide("a")
    quorum.roots[0].restore(2)

    assert process.names() == ["first", "a"]
    assert quorum.roots[1].table.leads


def test_a_leader_that_lacks_what_was_seen_committed_stops_everything(quorum, process):
    """Voter 1 was restored from a copy, and elected by who had not seen it."""
    process.calls.loses_rest = True
    process.decide("a")
    quorum.roots[1].restore(1)
    quorum.lead(2, epoch=2, voters=[1])
    old, leader = quorum.roots[0], quorum.roots[2]
    for decide in (adopt, fetch):
        assert old.put(old.table, decide(old.table, leader.table), leader.content)

    with pytest.raises(InconsistentClusterError, match="which this process has seen committed"):
        process.names()


class LateAnswers:
    """Voters whose answers come after the call that asked has gone on, the first `late` times; each
    answer takes `answer_ms`."""

    def __init__(self, clock, late, answer_ms=0):
        self.clock, self.late, self.answer_ms = clock, late, answer_ms

    def run(self, calls, timeout_ms):
        answers = [call() for call in calls]
        if self.late or timeout_ms < self.answer_ms:
            self.late = max(self.late - 1, 0)
            self.clock.sleep_ms(timeout_ms)
            return
        self.clock.sleep_ms(self.answer_ms)
        yield from answers

    def is_quick(self, key):
        return False


def test_voters_that_are_slow_are_waited_for_as_a_leader_is(quorum):
    """A process that opens a large log reads each voter for longer than it waits for an answer."""
    process = quorum.process("new")
    process.tables._side_by_side = LateAnswers(quorum.clock, late=3)

    assert process.names() == []


def test_a_look_that_takes_longer_than_the_whole_call_is_followed_by_another(quorum):
    process = quorum.process("starved", answer_timeout_ms=60_000)
    process.tables._side_by_side = LateAnswers(quorum.clock, late=1)

    assert process.names() == []


def test_voters_that_stay_slow_are_no_quorum(quorum):
    process = quorum.process("new")
    process.tables._side_by_side = LateAnswers(quorum.clock, late=1000)

    with pytest.raises(QuorumUnavailableError, match="all answer"):
        process.names()


def test_where_most_voters_fail_a_slow_one_is_not_waited_for(quorum):
    process = quorum.process("new")
    process.tables._side_by_side = LateAnswers(quorum.clock, late=1000)
    for root in quorum.roots[:2]:
        root.is_offline = True
    began_ms = quorum.clock.monotonic_ms()

    with pytest.raises(QuorumUnavailableError, match="does not answer"):
        process.names()

    assert quorum.clock.monotonic_ms() - began_ms < SETTINGS.call_timeout_ms


def test_a_large_decision_has_the_time_that_its_voters_need_to_copy_it(
    quorum, process, monkeypatch
):
    monkeypatch.setattr(leadership, "COPIED_A_MS", 1)
    slow = LateAnswers(quorum.clock, late=0, answer_ms=9000)
    names = [f"setting {number}" for number in range(8000)]
    end = quorum.roots[0].table.log.end_offset
    process.tables._side_by_side = slow

    process.append(settings_of(*names), STAMP, expected_offset=end)

    assert [root.table.log.end_offset for root in quorum.roots] == [end + len(names)] * 3


def test_a_voter_that_was_away_for_long_catches_up_in_bounded_commits(quorum, process, monkeypatch):
    quorum.roots[2].is_offline = True
    for name in "abcdef":
        process.decide(name)
    quorum.roots[2].is_offline = False
    before = quorum.roots[2].commits
    monkeypatch.setattr("kafka_on_spark.service.quorum.following.FETCH_RECORDS_MAX", 2)

    process.decide("g")

    assert quorum.roots[2].table.log == quorum.roots[0].table.log
    assert quorum.roots[2].commits - before == 4


def test_a_snapshot_lies_on_each_voter_that_takes_it(quorum, process):
    quorum.roots[1].is_offline = True
    end = process.decide("a").end_offset

    process.write_snapshot(settings_of("first", "a"), STAMP, end)

    assert [list(root.snapshots) for root in quorum.roots] == [[(end, 1)], [], [(end, 1)]]
    quorum.roots[0].is_offline = True
    quorum.roots[1].is_offline = False
    assert quorum.process("q").newest_snapshot().end_offset == end


def test_a_snapshot_that_all_voters_have_is_read_once(quorum, process, monkeypatch):
    end = process.decide("a").end_offset
    process.write_snapshot(settings_of("first", "a"), STAMP, end)
    answers = []
    read = MemoryVoterLog.read_snapshot

    def counted(log, at):
        answers.append(read(log, at))
        return answers[-1]

    monkeypatch.setattr(MemoryVoterLog, "read_snapshot", counted)
    found = quorum.process("q").newest_snapshot()

    assert answers == [found]
    assert found.end_offset == end


def test_a_snapshot_that_the_leader_lacks_is_found_on_another_voter(quorum, process):
    old = process.decide("a").end_offset
    process.write_snapshot(settings_of("first", "a"), STAMP, old)
    new = process.decide("b").end_offset
    process.write_snapshot(settings_of("first", "a", "b"), STAMP, new)
    del quorum.roots[0].snapshots[new, 1]

    assert process.newest_snapshot().end_offset == new


def test_a_snapshot_is_written_to_a_voter_once_that_holds_its_end(quorum, process):
    quorum.roots[2].is_read_only = True  # as to commits; the fake refuses snapshots, too
    end = process.decide("a").end_offset
    with patch.object(MemoryVoterLog, "write_snapshot", write_in_any_case):
        process.write_snapshot(settings_of("first", "a"), STAMP, end)
        assert not quorum.roots[2].snapshots
        quorum.roots[2].is_read_only = False
        process.write_snapshot(settings_of("first", "a"), STAMP, end)

    assert list(quorum.roots[2].snapshots) == [(end, 1)]


def write_in_any_case(log, records, stamp, end):
    base_offset = end.offset - len(records)
    batch = MetadataBatch(base_offset=base_offset, stamp=stamp, records=records)
    log._root.snapshots.setdefault(end, batch)


@pytest.mark.parametrize("end, epoch", [(4, 2), (5, 1), (9, 1)])
def test_a_snapshot_of_another_log_does_not_count(quorum, process, end, epoch):
    """It is of another epoch, ends within a batch, or beyond the log."""
    process.decide("a")
    last = process.decide("b", "c").end_offset
    assert last == 6
    process.write_snapshot(settings_of("first"), STAMP, 3)
    for root in quorum.roots:
        batch = MetadataBatch(base_offset=end - 1, stamp=STAMP, records=settings_of("lost"))
        root.snapshots[OffsetAndEpoch(end, epoch)] = batch

    assert process.newest_snapshot().end_offset == 3
    assert process.newest_snapshot(to_offset=20).end_offset == 3


def test_a_snapshot_that_can_not_be_read_gives_way_to_another_voters(quorum, process, monkeypatch):
    end = process.decide("a").end_offset
    process.write_snapshot(settings_of("first", "a"), STAMP, end)
    read = MemoryVoterLog.read_snapshot

    def damaged(log, at):
        if log._root is quorum.roots[0]:
            raise CorruptLogError("torn")
        return read(log, at)

    monkeypatch.setattr(MemoryVoterLog, "read_snapshot", damaged)

    assert process.newest_snapshot().end_offset == end


class FirstTwo:
    """A SideBySide of which only the first two calls are done: who waits for another waits long."""

    def run(self, calls, timeout_ms):
        yield from (call() for call in calls[:2])
        raise AssertionError("a third voter is waited for")


def test_an_opening_waits_for_no_more_voters_than_the_leader_and_a_majority(quorum, process):
    end = process.decide("a").end_offset
    process.write_snapshot(settings_of("first", "a"), STAMP, end)
    opened = quorum.process("q")
    opened.tables._side_by_side = FirstTwo()

    assert opened.newest_snapshot().end_offset == end


def test_upkeep_asks_no_voter_again_that_fails_until_that_answers(quorum, process, monkeypatch):
    asked = []
    monkeypatch.setattr(MemoryVoterLog, "maintain", lambda log: asked.append(log._key.node_id))
    quorum.roots[2].is_offline = True
    process.decide("a")

    process.maintain()
    assert asked == [0, 1]
    quorum.roots[2].is_offline = False
    process.decide("b")
    process.maintain()
    assert asked == [0, 1, 0, 1, 2]


def test_a_voter_that_fails_in_upkeep_alone_is_left_out_of_the_next(quorum, process, monkeypatch):
    """A root that hangs costs one deadline, and not one each time."""
    asked = []

    def maintain(log):
        asked.append(log._key.node_id)
        if log._key.node_id == 1:
            raise KafkaStorageError("a call to it hangs")
        return False

    monkeypatch.setattr(MemoryVoterLog, "maintain", maintain)

    process.maintain()
    process.maintain()

    assert asked == [0, 1, 2, 0, 2]


def test_a_stranded_voter_is_rescued_before_the_upkeep_of_any(quorum, process, monkeypatch):
    done = []
    rescue = process._leadership.rescue_stranded
    monkeypatch.setattr(
        process._leadership, "rescue_stranded", lambda: done.append("rescue") or rescue()
    )
    monkeypatch.setattr(MemoryVoterLog, "maintain", lambda log: done.append("upkeep"))

    process.maintain()

    assert done == ["rescue", "upkeep", "upkeep", "upkeep"]


@pytest.mark.parametrize("failing, expected", [(None, [0, 1]), (1, [0, 2]), (2, [0, 1])])
def test_who_may_write_is_asked_of_a_majority_and_first_of_those_that_are_well(
    quorum, process, monkeypatch, failing, expected
):
    asked = []
    monkeypatch.setattr(
        MemoryVoterLog, "check_writable", lambda log: asked.append(log._key.node_id)
    )
    if failing is not None:
        quorum.roots[failing].is_offline = True

    process.check_writable()

    assert [*dict.fromkeys(asked)] == expected


def test_committed_batches_are_read_from_any_voter_that_has_them(quorum, process):
    batch = process.decide("a")
    quorum.roots[0].is_offline = True

    assert process.read(from_offset=3, to_offset=4) == [batch]


def test_who_loses_the_race_for_the_leaders_table_decides_again(quorum, process):
    other = quorum.process("q")
    at = other.read(from_offset=0)[-1].end_offset
    process.decide("a")

    with pytest.raises(CommitConflictError):
        other.decide("b", at=at)
    other.decide("b")
    assert process.names() == ["first", "a", "b"]


def test_a_commit_that_is_not_flushed_is_flushed_by_who_counts_it(quorum, process):
    quorum.roots[1].faults.append(VoterFault.TORN)
    quorum.roots[2].is_offline = True

    process.decide("a")
    quorum.roots[1].cut_power()

    assert "a" in quorum.process("q").names()
    assert quorum.roots[1].writes == quorum.roots[0].writes


def test_an_emptied_voter_beside_others_that_do_not_answer_stops_nothing_for_ever(
    quorum, process, monkeypatch
):
    """Of the only voter that is an error on which all has to stop; of one of three it is passing."""
    end = process.read(from_offset=0)[-1].end_offset

    def read(log, **given):
        error = ReplicaLostError if log._key == quorum.roots[0].key else KafkaStorageError
        raise error("not now")

    monkeypatch.setattr(MemoryVoterLog, "read", read)
    with pytest.raises((ReplicaLostError, KafkaStorageError)):
        process.read(from_offset=0, to_offset=end)
