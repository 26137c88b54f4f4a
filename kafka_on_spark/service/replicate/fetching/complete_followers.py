"""Whether a follower has every committed record, where it must have them all (I14). Pure.

A member of the ISR must, and so must an eligible leader replica (ELR). Any other replica may lack
committed records, and may hold records of a deposed leader in their place.
"""

from kafka_on_spark.errors import ReplicaLostError
from kafka_on_spark.ids import BrokerId, Offset
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.partition import PartitionRegistration


def must_be_complete(partition: PartitionRegistration, broker_id: BrokerId) -> bool:
    """Return whether a replica is in the ISR or the ELR, so that committed records rest on it."""
    return broker_id in partition.isr | partition.elr


def end_offset_min(partition: PartitionRegistration, broker_id: BrokerId) -> Offset:
    """Return the end offset below which a replica's log must not be cut."""
    return partition.high_watermark if must_be_complete(partition, broker_id) else Offset(0)


def loss_of(
    partition: PartitionRegistration, broker_id: BrokerId, log: ReplicaState
) -> ReplicaLostError | None:
    """Return what a replica that must be complete lacks of the committed records; None: nothing.

    Its log ends at the high watermark or above it and has its chain digest; both hold of a later
    registration, too. Nothing is known of what lies below the log start, nor of a border in a
    merged segment: what was merged is committed by a later registration.
    """
    end, high_watermark = log.log_end_offset, partition.high_watermark
    if not must_be_complete(partition, broker_id):
        return None
    if end < high_watermark:
        return ReplicaLostError(
            "the replica is shorter than what is committed", end=end, high_watermark=high_watermark
        )
    if log.log_start_offset > high_watermark or log.is_merged_over(high_watermark):
        return None
    if log.chain_at(high_watermark) != partition.high_watermark_chain:
        return ReplicaLostError(
            "the replica has other records than those that are committed",
            high_watermark=high_watermark,
        )
    return None
