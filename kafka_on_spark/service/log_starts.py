"""Replicas drop what lies below the log start that was decided: deleted records.

The decision is in the metadata log; this is a command that follows it, and a lost one costs time
only: whoever fetches from or to a replica does it as well.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_on_spark.errors import CommitConflictError, KafkaOnSparkError
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.log import operations
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports import ReplicaAddress, ReplicaLog, ReplicaStore
from kafka_on_spark.service.addresses import address_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStartOrder:
    """Which replica begins where, as decided."""

    address: ReplicaAddress
    log_start_offset: Offset


def plan_log_starts(image: MetadataImage, keys: Iterable[PartitionKey]) -> list[LogStartOrder]:
    """Return an order for each replica that is in sync; the others do it once they fetch."""
    return [
        LogStartOrder(
            address=address_of(image, key, partition, broker_id),
            log_start_offset=partition.log_start_offset,
        )
        for key in keys
        if (partition := image.partition(key)) is not None
        for broker_id in partition.isr
        if partition.is_made(broker_id) and image.brokers[broker_id].is_online
    ]


def run_log_start(order: LogStartOrder, replicas: ReplicaStore) -> str | None:
    """Have a replica begin where it was decided; return why it does not yet, or None."""
    replica = replicas.open(order.address)
    try:
        advance_to(replica, replica.load(), order.log_start_offset)
    except KafkaOnSparkError as error:
        return error.message
    return None


def advance_to(replica: ReplicaLog, state: ReplicaState, offset: Offset) -> ReplicaState:
    """Have a log begin at `offset`, if it reaches that far; return the state after it."""
    if offset > state.log_end_offset:
        return state
    change = operations.advance_log_start(state, offset)
    if change is None:
        return state
    try:
        return replica.commit(state, change)
    except CommitConflictError:
        return state  # a twin has done it, or the next who comes by will
