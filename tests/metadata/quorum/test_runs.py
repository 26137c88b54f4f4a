"""Runs: what is left of the headers of merged batches, and what they tell still."""

from dataclasses import replace

from kafka_on_spark.metadata.quorum.raft import Outcome, outcome_of
from kafka_on_spark.metadata.quorum.voter_table import (
    BatchKind,
    RaftBatch,
    has_write,
    runs_of,
)
from tests.metadata.quorum.voters import VOTERS, log


def merged(found, end=None):
    """Return a log with all that it may merge as runs, or what lies below `end`."""
    end = found.proved_end if end is None else end
    below = [each for each in found.batches if each.end_offset <= end]
    return replace(found, batches=(*runs_of(below), *found.batches[len(below) :]))


def test_batches_of_an_epoch_are_one_run_and_a_change_of_voters_ends_one():
    found = log(1, 1, 1, 2, 2)

    runs = runs_of(found.batches)

    assert [(each.base_offset, each.end_offset, each.epoch, each.write_id) for each in runs] == [
        (0, 1, 0, "bootstrap"),
        (1, 4, 1, "1-3"),
        (4, 6, 2, "2-5"),
    ]
    assert {each.kind for each in runs} == {BatchKind.RUN}
    changed = replace(found.batches[2], voters=VOTERS)
    ends = runs_of([*found.batches[:2], changed, *found.batches[3:]])
    assert [(each.end_offset, each.voters is not None) for each in ends[:3]] == [
        (1, True),
        (3, True),
        (4, False),
    ]


def test_a_write_within_a_run_is_there_by_its_epoch():
    found = merged(log(1, 1, 1, 2, 2))

    assert has_write(found, RaftBatch(1, 2, 1, "whatever"))
    assert not has_write(found, RaftBatch(1, 2, 2, "whatever"))
    assert not has_write(found, RaftBatch(2, 4, 1, "not that which ends the run"))


def test_what_became_of_a_write_that_was_merged_is_not_told():
    found = merged(log(1, 1, 1, 1, 1))

    def outcome(base_offset, epoch, write_id="mine"):
        write = RaftBatch(base_offset, base_offset + 1, epoch, write_id)
        return outcome_of(found, found.end_offset, write)

    assert outcome(2, 1) is Outcome.UNTOLD
    assert outcome(2, 0) is Outcome.LOST
    assert outcome(4, 1, found.batches[1].write_id) is Outcome.COMMITTED
