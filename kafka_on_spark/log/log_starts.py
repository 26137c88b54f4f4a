"""Log starts of replicas: each removes the records below the log start that was decided.

The decision is in the metadata log. This command follows it and may fail without harm: a fetch from
or to a replica does the same.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from kafka_on_spark.base.errors import CommitConflictError, KafkaOnSparkError
from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.log import operations
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.producers import RegisteredProducers, registered_producers
from kafka_on_spark.log.replicas import ReplicaLog, ReplicaStore
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStartOrder:
    """The replica, and the log start that was decided; and which producer ids have not expired,
    if any has."""

    address: ReplicaAddress
    log_start_offset: Offset
    registered: RegisteredProducers | None = None


def plan_log_starts(image: MetadataImage, keys: Iterable[PartitionKey]) -> list[LogStartOrder]:
    """Return an order for each in-sync replica; the others follow when they fetch."""
    registered = registered_producers(image)
    return [
        LogStartOrder(
            address=address_of(image, key, partition, broker_id),
            log_start_offset=partition.log_start_offset,
            registered=registered,
        )
        for key in keys
        if (partition := image.partition(key)) is not None
        for broker_id in partition.isr
        if partition.is_created(broker_id) and image.brokers[broker_id].is_online
    ]


def run_log_start(order: LogStartOrder, replicas: ReplicaStore) -> str | None:
    """Move a replica's log start to the decided one; return why that failed, or None."""
    replica = replicas.open(order.address)
    try:
        advance_to(replica, replica.load(), order.log_start_offset, order.registered)
    except KafkaOnSparkError as error:
        return error.message
    return None


def advance_to(
    replica: ReplicaLog,
    state: ReplicaState,
    offset: Offset,
    registered: RegisteredProducers | None = None,
) -> ReplicaState:
    """Move a log's start to `offset`, if its end is not below; return the state after it."""
    if offset > state.log_end_offset:
        return state
    try:
        while (change := operations.advance_log_start(state, offset, registered)) is not None:
            state = replica.commit(state, change)
    except CommitConflictError:
        pass  # another process has done it, or the next fetch will
    return state


def try_to_advance(
    replica: ReplicaLog,
    state: ReplicaState,
    offset: Offset,
    registered: RegisteredProducers | None = None,
) -> ReplicaState:
    """As `advance_to`, for whoever reads a log that needs no log start to be read.

    That a replica can't drop records yet says nothing against what it has: it must not cost a sound
    leader its leadership, nor a follower its place in the ISR. Upkeep tries it again, and tells.
    """
    try:
        return advance_to(replica, state, offset, registered)
    except KafkaOnSparkError as error:
        log.warning("a log start is left to upkeep: %s", error)
        return state
