"""Rules of the chain, switched off one at a time: the simulation must see each."""

from typing import Any

from kafka_on_spark.controller import high_watermark, replication
from kafka_on_spark.errors import ReplicaLostError
from kafka_on_spark.log import operations, state, truncation
from kafka_on_spark.service import fetch_reports, replicas
from kafka_on_spark.service import replication as fetching
from tests.simulation.mutants import Mutant


def _any_end(follower: Any, leader: Any) -> bool:
    return bool(leader.log_start_offset <= follower.log_end_offset <= leader.log_end_offset)


def _believed(before: Any, topic_id: Any, partition: Any, batches: Any) -> Any:
    digest = before
    for batch in batches:
        digest = batch.chain_digest
    return digest


def _the_follower_is_guilty(self: Any, follower: Any) -> Any:
    error = ReplicaLostError("the replica has another log than its leader")
    return fetching._RefusedError(fetch_reports.failed_report(self._order.follower, error))


def _outside_the_isr_it_is_guilty(self: Any, follower: Any) -> Any:
    if self._order.follower.broker_id in self._order.partition.isr:
        return _PARTED(self, follower)
    return _the_follower_is_guilty(self, follower)


_PARTED = fetching._Fetcher._parted


def _by_epochs(follower: Any, leader: Any, end_offset: int) -> int:
    return end_offset


def _by_epoch_alone(partition: Any, **log: Any) -> bool:
    known = log | {"chain_at_high_watermark": partition.high_watermark_chain}
    return high_watermark.has_all_committed(partition, **known)


def _nothing(*arguments: Any, **named: Any) -> None:
    return None


FORGING_MUTANTS = [
    Mutant(
        "a log end counts only where the chain digest there is the leader's",
        ((fetching, "ends_alike", _any_end), (truncation, "shared_border", _by_epochs)),
    ),
    Mutant(
        "a chain digest is computed, and not believed",
        ((state, "check_chain", _believed), (operations, "check_chain", _believed)),
    ),
    Mutant(
        "of two logs that part above what is committed nobody is guessed to be guilty",
        ((fetching._Fetcher, "_parted", _the_follower_is_guilty),),
    ),
    Mutant(
        "nor where one of them is eligible, and not in sync",
        ((fetching._Fetcher, "_parted", _outside_the_isr_it_is_guilty),),
        seed=300,
    ),
    Mutant(
        "a follower is cut where the chains part, not the epochs alone",
        ((truncation, "shared_border", _by_epochs),),
    ),
    Mutant(
        "who proves to have all that is committed has the registered chain digest",
        ((replicas, "has_all_committed", _by_epoch_alone),),
    ),
    Mutant(
        "where two logs part the leader epoch is raised",
        ((replication, "raise_epoch", _nothing),),
    ),
]
