"""Passes of the controller in a quickstart: as many as it takes until the lost broker is judged."""

from types import SimpleNamespace

import pytest

from jobs.quickstart_run.steps import LOST_BROKER, PASSES_MAX, Run
from kafka_on_spark.metadata.broker import BrokerState


class ClusterOfPasses:
    """A cluster whose controller fences the lost broker in the pass of a number."""

    def __init__(self, fencing_pass):
        self.passes = 0
        self._fencing_pass = fencing_pass

    @property
    def image(self):
        is_fenced = self.passes >= self._fencing_pass
        state = BrokerState.FENCED if is_fenced else BrokerState.ACTIVE
        return SimpleNamespace(brokers={LOST_BROKER: SimpleNamespace(state=state)})

    def run_controller(self):
        self.passes += 1


# fmt: off
CASES = [
    pytest.param(0,              0,          id="it is fenced before"),
    pytest.param(1,              1,          id="the first pass says it"),
    pytest.param(3,              3,          id="two passes can't say"),
    pytest.param(PASSES_MAX + 1, PASSES_MAX, id="no pass says it"),
]
# fmt: on


@pytest.mark.parametrize("fencing_pass, expected", CASES)
def test_passes_go_on_until_the_lost_broker_is_fenced(fencing_pass, expected):
    cluster = ClusterOfPasses(fencing_pass)
    run = Run(spark=None, folder=None, cluster=cluster, output=None)

    run.control_until(is_fenced=True)

    assert cluster.passes == expected
    assert run.is_fenced == (fencing_pass <= PASSES_MAX)
