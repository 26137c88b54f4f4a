"""A power cut while records are appended, decisions committed, files merged, checkpoints written and
commits deleted: at each moment, all that was acknowledged is kept, and the cluster goes on."""

import math

import pytest

from tests.power.states.life import record_upkeep
from tests.power.states.looking import all_states, spread, violations

AT_BEGINNINGS = 150
A_ROUND = 3000
GO_ON_EACH = 25


@pytest.mark.long
def test_a_cluster_at_work_keeps_all_that_was_acknowledged(bench, pytestconfig):
    count = pytestconfig.getoption("--power-states") - AT_BEGINNINGS
    bench.clear()
    record = record_upkeep(bench.base, rounds=math.ceil(count / A_ROUND))
    states = spread(all_states(record), count)

    found = list(violations(bench, record, states, goes_on_each=GO_ON_EACH))

    assert not found, "\n".join(map(str, found))
    assert len(states) == count
