"""Each flush that our code could leave out is left out in turn: then a power cut breaks a promise.

A mutant is the record without one kind of flush: code that does not flush does all else alike. What
each protects is in docs/testing.md.
"""

import random

import pytest

from tests.power.states.changes import Flush
from tests.power.states.crashes import crash_states
from tests.power.states.life import record_beginning, record_upkeep
from tests.power.states.looking import SEED, all_states, violations

AT_THE_BEGINNING = (
    "an identity",
    "the metadata root",
    "a broker's root",
    "a folder above a root",
    "a topic's folder",
    "a replica's folder",
)
IN_UPKEEP = (
    "a segment",
    "a replica's folder",
    "a replica's commit",
    "the folder of a replica's commits",
    "metadata rows",
    "the metadata table's folder",
    "a metadata commit",
    "the folder of metadata commits",
    "a metadata checkpoint",
    "the folder of metadata commits after a checkpoint",
    "a replica's checkpoint",
    "the folder of a replica's commits after a checkpoint",
)
HARMLESS = (
    "a hint at a checkpoint",  # our code passes over one without bytes, and not every engine does
    "a root's test",  # its files are deleted when it is over, and nobody reads them
)

STATES_MAX = 240
AT_ONCE = 8
MOMENTS = (16, 4, 1)
"""One of so many moments is searched, and then each: most flushes are missed at most moments."""


class Recorded:
    """A record, and the states that are possible with all flushes."""

    def __init__(self, record):
        self.record = record
        self.known = {each.identity for each in all_states(record)}

    def breaks_without(self, what, bench):
        """Return whether some state without a kind of flush, and impossible with it, breaks a promise."""
        without, rng = self.record.without(what), random.Random(SEED)
        for each_moment in MOMENTS:
            states = crash_states(without, rng, drawn=1, each_moment=each_moment)
            fresh = [each for each in states if each.identity not in self.known]
            rng.shuffle(fresh)
            for start in range(0, min(STATES_MAX, len(fresh)), AT_ONCE):
                some = sorted(fresh[start : start + AT_ONCE], key=lambda each: each.at)
                if any(violations(bench, without, some, goes_on_each=4)):
                    return True
        return False


@pytest.fixture(scope="module")
def beginning(bench):
    bench.clear()
    return Recorded(record_beginning(bench.base))


@pytest.fixture(scope="module")
def upkeep(bench):
    bench.clear()
    return Recorded(record_upkeep(bench.base))


@pytest.mark.parametrize("what", AT_THE_BEGINNING)
def test_a_flush_that_is_left_out_at_the_beginning_is_missed(bench, beginning, what):
    assert beginning.breaks_without(what, bench)


@pytest.mark.parametrize("what", IN_UPKEEP)
def test_a_flush_that_is_left_out_in_upkeep_is_missed(bench, upkeep, what):
    assert upkeep.breaks_without(what, bench)


def test_no_flush_is_left_that_protects_nothing(upkeep):
    kinds = {each.what for each in upkeep.record.changes if isinstance(each, Flush)}

    assert kinds == {*AT_THE_BEGINNING, *IN_UPKEEP, *HARMLESS}
