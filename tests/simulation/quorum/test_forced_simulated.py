"""Snapshots of a generation that was given up never count, whoever wrote them, and when."""

import pytest

from kafka_on_spark.metadata.quorum import forcing, quorum_log
from kafka_on_spark.metadata.quorum.quorum_log import QuorumLog
from kafka_on_spark.metadata.quorum.voter_table import OffsetAndEpoch
from tests.simulation.quorum.forced_snapshots import Forced

SEEDS = 30
SEEDS_OF_MUTANTS = SEEDS_LONG = 60


def flaws(seeds):
    found = {seed: Forced(seed).run() for seed in seeds}
    return {seed: flaw for seed, flaw in found.items() if flaw is not None}


def test_what_is_read_after_a_force_is_the_log_of_who_goes_on():
    assert flaws(range(SEEDS)) == {}


@pytest.mark.long
def test_it_is_so_with_more_seeds():
    assert flaws(range(SEEDS, SEEDS_LONG)) == {}


def any_snapshot_below_the_end_counts(patch):
    patch.setattr(quorum_log, "is_snapshot_of", lambda log, end: end.offset <= log.end_offset)


def generation_begins_with_the_next_epoch(patch):
    """The voters that were given up elect a leader of the very epoch."""
    patch.setattr(forcing, "first_epoch_after", lambda epoch, node_id: epoch + 1)


def snapshot_lies_on_all_that_answer(patch):
    """A snapshot is written to a voter that does not hold its end as yet."""

    def write_snapshot(self, records, stamp, end_offset):
        end = OffsetAndEpoch(end_offset, self.confirm().log.end.epoch)
        for key in self.tables.voters.keys:
            self.tables.log_of(key).write_snapshot(records, stamp, end)

    patch.setattr(QuorumLog, "write_snapshot", write_snapshot)


# fmt: off
MUTANTS = {
    any_snapshot_below_the_end_counts:     ("is read of", "CorruptLogError"),
    generation_begins_with_the_next_epoch: ("is read of",),
    snapshot_lies_on_all_that_answer:      ("which it lacks",),
}
# fmt: on


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_rule_of_snapshots_that_is_left_out_is_told(mutant, monkeypatch):
    mutant(monkeypatch)

    left = set(MUTANTS[mutant])
    for seed in range(SEEDS_OF_MUTANTS):
        flaw = Forced(seed).run() or ""
        left = {words for words in left if words not in flaw}
        if not left:
            break

    assert not left, mutant.__doc__
