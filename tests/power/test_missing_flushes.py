"""Each flush that our code could leave out is left out in turn: then a power cut breaks a promise."""

import pytest

from tests.power.states.changes import Flush
from tests.power.states.life import record_beginning, record_upkeep
from tests.power.states.looking import all_states
from tests.power.states.mutants import AT_THE_BEGINNING, HARMLESS, IN_UPKEEP
from tests.power.states.mutating import what_comes_of


class Recorded:
    """A record, and the states that are possible with all flushes."""

    def __init__(self, record):
        self.record = record
        self.known = {each.identity for each in all_states(record)}


@pytest.fixture(scope="module")
def beginning(bench):
    bench.clear()
    return Recorded(record_beginning(bench.base))


@pytest.fixture(scope="module")
def upkeep(bench):
    bench.clear()
    return Recorded(record_upkeep(bench.base))


@pytest.mark.parametrize("mutant", AT_THE_BEGINNING, ids=lambda mutant: mutant.what)
def test_a_flush_that_is_left_out_at_the_beginning_is_missed(bench, beginning, mutant):
    assert what_comes_of(mutant, bench, beginning.record, beginning.known)


@pytest.mark.parametrize("mutant", IN_UPKEEP, ids=lambda mutant: mutant.what)
def test_a_flush_that_is_left_out_in_upkeep_is_missed(bench, upkeep, mutant):
    assert what_comes_of(mutant, bench, upkeep.record, upkeep.known)


def test_no_flush_is_left_that_protects_nothing(upkeep):
    kinds = {each.what for each in upkeep.record.changes if isinstance(each, Flush)}

    assert kinds == {*(each.what for each in (*AT_THE_BEGINNING, *IN_UPKEEP)), *HARMLESS}
