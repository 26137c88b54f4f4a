"""Rules of the chain, switched off one at a time: the simulation must see each."""

from typing import Any

from kafka_on_spark.base.errors import ReplicaLostError
from kafka_on_spark.controller import isr
from kafka_on_spark.log import fetch as fetching
from kafka_on_spark.log import operations, state, truncation
from kafka_on_spark.metadata.partition import has_all_committed
from tests.simulation.mutants.protocol_mutants import (
    Mutant,
    _any_end,
    _believed,
    _by_epochs,
    _nothing,
)


def _the_follower_is_bad(self: Any, follower: Any) -> Any:
    error = ReplicaLostError("the replica has another log than its leader")
    return fetching.FollowerRefusedError(error)


def _outside_the_isr_it_is_bad(self: Any, follower: Any) -> Any:
    if self._order.follower.broker_id in self._order.partition.isr:
        return _DIVERGED(self, follower)
    return _the_follower_is_bad(self, follower)


_DIVERGED = fetching._Fetcher._diverged


def _by_epoch_alone(partition: Any, **log: Any) -> bool:
    known = log | {"chain_at_high_watermark": partition.high_watermark_chain}
    return has_all_committed(partition, **known)


FORGING_MUTANTS = [
    Mutant(
        "a log end counts only where the chain digest there is the leader's",
        (
            (fetching, "fetch_start", _any_end),
            (truncation, "shared_border", _by_epochs),
        ),
        seed=20,
        invariant="I22 verdicts",
    ),
    Mutant(
        "a chain digest is computed, and not believed",
        ((state, "check_chain", _believed), (operations, "check_chain", _believed)),
        seed=79,
        invariant="L2 every record reaches all",
    ),
    Mutant(
        "of two logs that diverge above what is committed none is guessed to be the wrong one",
        ((fetching._Fetcher, "_diverged", _the_follower_is_bad),),
        seed=49,
        invariant="I22 verdicts",
    ),
    Mutant(
        "nor where one of them is eligible, and not in sync",
        ((fetching._Fetcher, "_diverged", _outside_the_isr_it_is_bad),),
        seed=6,
        invariant="I22 verdicts",
    ),
    Mutant(
        "a follower is cut where the chains diverge, not the epochs alone",
        ((truncation, "shared_border", _by_epochs),),
        seed=196,
        invariant="L3 the ISR returns to all replicas",
    ),
    Mutant(
        "a proof of all that is committed includes the registered chain digest",
        ((state, "has_all_committed", _by_epoch_alone),),
        seed=2,
        invariant="H2 one value an offset",
    ),
    Mutant(
        "where two logs diverge the leader epoch is raised",
        ((isr, "raise_epoch", _nothing),),
        seed=196,
        invariant="L3 the ISR returns to all replicas",
    ),
]
