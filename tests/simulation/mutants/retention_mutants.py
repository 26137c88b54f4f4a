"""Rules of retention, switched off one at a time: the simulation must see each."""

from dataclasses import replace
from typing import Any

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.controller import cleanup_policy, log_start
from kafka_on_spark.log import operations, replica_upkeep, replicas, retention
from kafka_on_spark.metadata import partition as registrations
from tests.builders import partition_map
from tests.simulation.checks import producers
from tests.simulation.mutants.protocol_mutants import Mutant, _forgetting, _nothing, _yes


def _own(own_ms: int, root_ms: int, newest_ms: int) -> int:
    return own_ms


def _root_s(own_ms: int, root_ms: int, newest_ms: int) -> int:
    return root_ms


def _to_the_end(state: Any, limits: Any, *, high_watermark: int, **named: Any) -> Any:
    return retention.retained(state, limits, high_watermark=state.log_end_offset, **named)


def _one_further(replica: Any, state: Any, offset: int, *registered: Any) -> Any:
    further = min(offset + 1, state.log_end_offset)
    return replicas.try_to_advance(replica, state, further, *registered)


def _is_possible(partition: Any, offset: int) -> bool:
    return bool(partition.log_start_offset < offset)


def _unchecked(image: Any, key: Any, offset: int, cause: str) -> Any:
    partition = image.partition(key)
    registered = replace(partition, high_watermark=Offset(offset))
    topic = image.topics[key.topic_id]
    topic = replace(
        topic, partitions=partition_map(dict(topic.partitions) | {key.partition: registered})
    )
    raised = replace(image, topics=dict(image.topics) | {key.topic_id: topic})
    return _RAISE(raised, key, offset, cause)


_RAISE = log_start.raise_log_start


RETENTION_MUTANTS = [
    Mutant(
        "nothing above the high watermark is deleted",
        (
            (cleanup_policy, "retained", _to_the_end),
            (log_start, "is_raised_within", _is_possible),
            (log_start, "raise_log_start", _unchecked),
            (registrations, "ensure", _nothing),
        ),
        seed=22,
        invariant="I9",
    ),
    Mutant(
        "a process's clock that is ahead deletes nothing",
        ((cleanup_policy, "too_old_by_ms", _own),),
        seed=16,
        invariant="I16",
    ),
    Mutant(
        "a disk's clock that is ahead deletes nothing",
        ((cleanup_policy, "too_old_by_ms", _root_s),),
        seed=107,
        invariant="I16",
    ),
    Mutant(
        "what is known of producers outlives the headers that retention takes",
        ((operations, "advance_log_start", _forgetting(operations.advance_log_start)),),
        seed=5,
        invariant=producers.KEPT,
    ),
    Mutant(
        "a replica never runs ahead of the log start that was decided",
        ((replica_upkeep, "advance_to", _one_further),),
        invariant="I16",
    ),
]

OTHER_LEADER = Mutant(
    "what another leader's log had is no ground any more",
    ((log_start, "is_of_now", _yes),),
    invariant="I16",
)
"""It shows only where an unclean election and new records come between a look and its decision."""
