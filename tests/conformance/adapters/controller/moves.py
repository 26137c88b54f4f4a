"""KRaft's rule for a move under way: another target replaces it. The product refuses that."""

from kafka_on_spark.controller.election import change_record
from kafka_on_spark.controller.reassignment import (
    check_target,
    registered_partition,
    start_of_move,
)
from kafka_on_spark.metadata.image import ControllerResult


def start_or_replace(image, key, target, new_uuid):
    """Decide that a partition moves to `target`, also if it moves elsewhere."""
    partition = registered_partition(image, key)
    change = start_of_move(partition, check_target(image, key, target), new_uuid)
    records = [] if change is None else [change_record(image, key, partition, change, "")]
    return ControllerResult(records, [key] if records else [])
