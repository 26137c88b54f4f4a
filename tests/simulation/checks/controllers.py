"""What must hold of controllers: a deposed one decides nothing, and a request is decided once at most."""

from collections import Counter

from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import (
    AdminRequestRecord,
    AdminResultRecord,
    BrokerChangeRecord,
    BrokerState,
    ControllerRecord,
    MetadataBatch,
)
from tests.simulation.checks.ledger import require

ENOUGH_HAVE_MET = (
    "F2 a broker is fenced for want of room if its controller or two hosts have met it"
)
LAST_MEMBER_ANSWERS = "F1 the last member of an ISR is not fenced for want of room"


def check_controllers(before: MetadataImage, batch: MetadataBatch, seen: Counter[str]) -> None:
    """Check one commit to the metadata log (I7, I6, I11, F1)."""
    held = before.controller
    stamped = batch.stamp.controller_epoch
    if held is not None and stamped is not None:
        require(
            stamped >= held.controller_epoch,
            "I7",
            f"a decision of controller epoch {stamped} after {held.controller_epoch} was claimed",
        )
    pending = {each.request for each in before.requests}
    for record in batch.records:
        if isinstance(record, ControllerRecord) and held is not None:
            is_owner = held.controller_id in (None, record.controller_id)
            is_claim = record.controller_epoch > held.controller_epoch
            is_own = record.controller_epoch == held.controller_epoch and is_owner
            require(is_claim or is_own, "I6", f"controller epoch taken twice: {record}")
            seen["lease taken over"] += is_claim and held.controller_id is not None
        elif isinstance(record, BrokerChangeRecord) and record.refused is not None:
            is_fenced = record.broker_state is BrokerState.FENCED
            is_last = any(each.isr == {record.broker_id} for _, each in before.partitions())
            require(not (is_fenced and is_last), LAST_MEMBER_ANSWERS, f"{record}")
            hosts = record.refused.hosts
            is_met = batch.stamp.controller_id in hosts or len(hosts) > 1
            require(not is_fenced or is_met, ENOUGH_HAVE_MET, f"{record}")
            seen["fenced for want of room" if is_fenced else "refused write noted"] += 1
        elif isinstance(record, AdminRequestRecord):
            seen["request asked for"] += 1
        elif isinstance(record, AdminResultRecord):
            require(record.request in pending, "I11", f"decided twice, or never asked: {record}")
            pending.remove(record.request)
            is_withdrawn = stamped is None
            seen["request withdrawn" if is_withdrawn else "request answered"] += 1
