"""A power cut while a cluster is created, gets its tables and another broker: at each moment, all
that was promised is kept, and the same calls go on with the rest."""

import pytest

from tests.power.states.life import record_beginning, record_death
from tests.power.states.looking import all_states, spread, violations

STATES = 50
STATES_LONG = 150
GO_ON_EACH = 20
AFTER_DEATH = 3
AFTER_DEATH_LONG = 6
GO_ON_EACH_AFTER_DEATH = 3

DEATHS = {
    "the first folder above its root": "data",
    "the second": "data/cluster",
    "its metadata root": "data/cluster/meta",
    "the metadata table's first commit": "data/cluster/meta/__cluster.*/_delta_log/0{20}.json",
    "the metadata root's identity": "data/cluster/meta/meta.properties",
    "a broker's root": "disk-1/kafka/broker-1",
    "a broker's identity": "disk-2/kafka/broker-2/meta.properties",
    "a topic's folder": "disk-1/kafka/broker-1/t-[0-9a-f]{32}",
    "a replica's folder": "disk-2/kafka/broker-2/t-[0-9a-f]{32}/0-[0-9a-f]{32}",
    "a replica's first commit": "disk-1/kafka/broker-1/t-.*/_delta_log/0{20}.json",
    "the later broker's identity": "disk-3/kafka/broker-3/meta.properties",
}
"""Names that the process that begins has just given when it dies, before it flushes them."""


@pytest.mark.parametrize("count", [STATES, pytest.param(STATES_LONG, marks=pytest.mark.long)])
def test_a_cluster_that_begins_keeps_all_that_was_promised(bench, count):
    bench.clear()
    record = record_beginning(bench.base)
    states = spread(all_states(record), count)

    found = list(violations(bench, record, states, goes_on_each=GO_ON_EACH))

    assert not found, "\n".join(map(str, found))
    assert len(states) == count


@pytest.mark.parametrize("dies_at", DEATHS.values(), ids=DEATHS)
@pytest.mark.parametrize(
    "count", [AFTER_DEATH, pytest.param(AFTER_DEATH_LONG, marks=pytest.mark.long)]
)
def test_what_a_dead_process_did_not_flush_is_flushed_by_who_goes_on(bench, dies_at, count):
    bench.clear()
    record = record_death(bench.base, dies_at)
    states = spread(all_states(record), count)

    found = violations(bench, record, states, goes_on_each=GO_ON_EACH_AFTER_DEATH)
    assert not list(map(str, found))
