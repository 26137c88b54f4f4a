"""What must hold of controllers that fence a broker for want of room."""

from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import BrokerChangeRecord, BrokerState, MetadataBatch
from tests.simulation.checks.ledger import require

ENOUGH_HAVE_MET = (
    "F2 a broker is fenced for want of room if its controller or two hosts have met it"
)
LAST_MEMBER_ANSWERS = "F1 the last member of an ISR is not fenced for want of room"


def check_controllers(before: MetadataImage, batch: MetadataBatch) -> None:
    """Check one commit to the metadata log (F1, F2)."""
    for record in batch.records:
        if isinstance(record, BrokerChangeRecord) and record.refused is not None:
            is_fenced = record.broker_state is BrokerState.FENCED
            is_last = any(each.isr == {record.broker_id} for _, each in before.partitions())
            require(not (is_fenced and is_last), LAST_MEMBER_ANSWERS, f"{record}")
            hosts = record.refused.hosts
            is_met = batch.stamp.controller_id in hosts or len(hosts) > 1
            require(not is_fenced or is_met, ENOUGH_HAVE_MET, f"{record}")
