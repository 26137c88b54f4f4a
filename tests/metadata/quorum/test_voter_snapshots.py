"""Snapshots of a quorum: which voters have them, which count, and how many voters are asked."""

from unittest.mock import patch

from kafka_on_spark.metadata.records import MetadataBatch
from tests.voter_fakes import STAMP, MemoryVoterLog, settings_of


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
