"""The checker itself: for each invariant that no mutant shows a violation is planted, and it is seen.

An effect is put on the disks by hand, as no correct protocol would put it.
"""

import pytest

from kafka_on_spark.base.ids import LOST
from tests.simulation.checks import invariants
from tests.simulation.checks.ledger import Moment
from tests.simulation.faults import healing
from tests.simulation.mutants.plants import PLANTED
from tests.simulation.mutants.stage import KEY, Stage
from tests.simulation.plan import Plan
from tests.simulation.programs.clients import Appending
from tests.simulation.simulation import simulate
from tests.simulation.world.scheduler import Violation


@pytest.fixture
def stage():
    made = Stage()
    made.committed(10, 11)
    return made


def test_nothing_is_seen_where_nothing_is_wrong(stage):
    stage.change(leader=2)
    for broker_id in (2, 1, 3):
        stage.adopt(broker_id, 1)
    stage.committed(12)
    stage.checker.on_ack(KEY, 2, [12], begun=Moment(acked=1), is_duplicate=False)
    stage.checker.on_read(KEY, 0, [(0, 10), (1, 11), (2, 12)], generation=0)
    invariants.no_acked_record_lost(stage.checker.ledger)
    healing.everything_is_in_sync(stage.checker)

    assert stage.log.committed == [(10, 0), (11, 0), (12, 1)]


@pytest.mark.parametrize("invariant, plant", PLANTED, ids=[each[1].__name__ for each in PLANTED])
def test_a_planted_violation_is_seen(stage, invariant, plant):
    with pytest.raises(Violation) as found:
        plant(stage)

    assert found.value.invariant == invariant, found.value


def test_a_table_whose_disk_lost_commits_is_not_accused(stage):
    """What a lost disk holds is no fault of the code; that it does not count is checked elsewhere."""
    stage.table(3).is_suspect = True
    stage.add(1, stage.batch(12, 2), "append")

    stage.add(3, stage.batch(13, 2))
    stage.change(directories=("disk1", "disk2", LOST), isr=frozenset({1, 2}))

    assert stage.partition.isr == {1, 2}


def test_a_client_that_never_ends_is_seen(monkeypatch):
    def once(self):
        while True:
            self.driver.clock.sleep_ms(1)

    monkeypatch.setattr(Appending, "once", once)

    outcome = simulate(Plan(seed=1, steps=100))

    assert outcome.violation == "L1 every append ends"


def test_an_error_that_nobody_expects_is_seen(monkeypatch):
    def once(self):
        self.driver.clock.sleep_ms(1)
        raise TypeError("planted")

    monkeypatch.setattr(Appending, "once", once)

    outcome = simulate(Plan(seed=1, steps=100))

    assert outcome.violation == "crash: TypeError"
    assert "planted" in outcome.message
