"""A cluster that is deleted and created again at its path: a process that has the old one open notices
it, and changes nothing in the new one."""

import pytest

from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.records import MetadataBatch
from tests.simulation.checks.ledger import PATH_IS_NO_CLUSTER
from tests.simulation.chunks import missed, outcomes
from tests.simulation.faults.aimed_plans import remade
from tests.simulation.mutants.protocol_mutants import Mutant
from tests.simulation.mutants.seeing import seen_without
from tests.simulation.test_simulation import failure_text
from tests.simulation.world.metadata_log import SimulatedMetadataLog

SEEDS_MORE = 60
CHUNK = 12
MUTANT_SEEDS_MAX = 20

SOMETIMES = (
    "another cluster noticed",
    "append acks=all",
    "fault: torn",
    "fault: freeze",
    "fault: make again",
)


def _is_not_asked(self: SimulatedMetadataLog) -> bool:
    return False


def _never_back(
    self: SimulatedMetadataLog, *, from_offset: Offset, to_offset: Offset | None = None
) -> list[MetadataBatch]:
    """Wait for a log that is shorter than what was seen of it."""
    if from_offset > self._world.disks.image.offset:
        self._world.scheduler.call("metadata read")
        return []
    return READ(self, from_offset=from_offset, to_offset=to_offset)


READ = SimulatedMetadataLog.read
PATH_ALONE = Mutant(
    "a metadata log is that of the root's identity, not of its path",
    (
        (SimulatedMetadataLog, "is_replaced", _is_not_asked),
        (SimulatedMetadataLog, "read", _never_back),
    ),
    invariant=PATH_IS_NO_CLUSTER,
)


@pytest.mark.parametrize(
    "first",
    [0, *(pytest.param(each, marks=pytest.mark.long) for each in range(CHUNK, SEEDS_MORE, CHUNK))],
)
def test_a_process_with_an_open_cluster_changes_nothing_in_another_at_its_path(first):
    failed, _ = outcomes(remade, first, CHUNK)

    assert failed is None, failure_text(failed)


def test_every_event_that_a_plan_allows_happened():
    assert missed(remade, SOMETIMES, SEEDS_MORE, CHUNK) == []


def test_a_missing_rule_is_seen():
    plans = map(remade, range(MUTANT_SEEDS_MAX))

    assert PATH_ALONE.invariant in seen_without(PATH_ALONE, plans)
