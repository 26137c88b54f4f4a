"""Histories that simulated clusters went through, with all their faults, decided again."""

from contextlib import contextmanager
from functools import cache

import pytest

from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.observe.policy_replay import MIN_ISR, UNCLEAN, replay
from kafka_on_spark.observe.what_if import forecast
from tests.simulation import simulation
from tests.simulation.faults.swarm_plans import plan_of

SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 8))]


@contextmanager
def kept_simulations():
    """Keep what `simulate` makes: its outcome does not have the metadata log."""
    kept, begin = [], simulation.Simulation.__init__

    def begin_and_keep(self, plan):
        begin(self, plan)
        kept.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation.Simulation, "__init__", begin_and_keep)
        yield kept


@cache
def history_of(seed: int):
    with kept_simulations() as kept:
        outcome = simulation.simulate(plan_of(seed))
    assert outcome.violation is None
    return kept[-1].world.disks.batches


@pytest.mark.parametrize("seed", SEEDS)
def test_a_simulated_history_comes_out_as_it_was_under_its_own_settings(seed):
    batches = history_of(seed)

    found = replay(batches, {})

    assert len(batches) > 15
    assert found.differences == ()
    assert found.instead == found.recorded


@pytest.mark.parametrize("seed", SEEDS)
def test_any_policy_can_be_asked_for_any_history(seed):
    batches = history_of(seed)
    recorded = replay(batches, {}).recorded

    for policy in (
        {UNCLEAN: True},
        {UNCLEAN: False},
        {MIN_ISR: 1},
        {MIN_ISR: 3},
        {UNCLEAN: True, MIN_ISR: 3},
    ):
        found = replay(batches, policy)
        assert found.recorded.elections == recorded.elections
        assert found.recorded.refused_records == 0
        assert (policy.get(UNCLEAN) is not False) or found.instead.unclean_elections == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_at_any_moment_of_any_history_it_can_be_asked_what_if(seed):
    image = MetadataImage()
    for batch in history_of(seed):
        image = image.replay(batch)
        for broker_id in image.brokers:
            foreseen = forecast(image, frozenset({broker_id}))
            leaders = {each.leader_after for each in foreseen.partitions}
            assert broker_id not in leaders
            assert foreseen.leaders_after[broker_id] == 0
