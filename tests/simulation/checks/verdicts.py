"""I22: a replica that is called lost is not sound, and one that is taken back is whole.

Checked as the record is committed: a sound replica is not lost for a moment. One on which nothing
rests may differ from its leader's log, and is created again; no verdict is a mistake there.
"""

from kafka_on_spark.base.ids import LOST, NO_CHAIN, BrokerId, PartitionKey, ReplicaUuid
from kafka_on_spark.metadata.partition import PartitionRegistration
from tests.simulation.checks.ledger import Ledger, records_of, require
from tests.simulation.world.disks import Table

I22 = "I22 verdicts"


def sound_is_not_lost(
    ledger: Ledger,
    key: PartitionKey,
    before: PartitionRegistration,
    after: PartitionRegistration,
) -> None:
    """A member of ISR or ELR that has all that is committed is not called lost."""
    for broker_id in before.isr | before.elr:
        if broker_id not in after.replicas or not before.is_created(broker_id):
            continue
        if after.directory_of(broker_id) == LOST:
            require(
                not _is_sound(ledger, key, before, broker_id),
                I22,
                f"{key.partition} on {broker_id} is sound, and was called lost",
            )


def _is_sound(
    ledger: Ledger, key: PartitionKey, partition: PartitionRegistration, broker_id: BrokerId
) -> bool:
    table = ledger.live_table(key, partition, broker_id)
    root = ledger.disks.root_of(broker_id)
    if table is None or not root.is_whole(_place(table)):
        return False
    if _place(table) in root.damaged:
        return False  # it was damaged when it was inspected
    start, mark = table.state.log_start_offset, partition.high_watermark
    if partition.begins_empty and table.state.chain_at(mark) != NO_CHAIN:
        return (
            False  # a stale listing showed it without records, and an unclean election took it so
        )
    found = records_of(table.state, start, mark)
    flaw = ledger.log(key).flaw_of(found, start, mark, table.state.compaction)
    return start <= partition.log_start_offset and flaw is None


def _place(table: Table) -> str:
    identity = table.identity
    return f"{identity.topic_id}/{identity.partition}-{identity.replica_uuid}"


def note_created_again(
    ledger: Ledger,
    key: PartitionKey,
    before: PartitionRegistration,
    after: PartitionRegistration,
) -> None:
    """Remember which lost tables wait until the new incarnation of their replica is in sync."""
    for broker_id in before.replicas:
        waiting = ledger.lost_tables.setdefault((key, broker_id), set())
        has_former = before.former_of(broker_id) is not None
        if broker_id not in after.replicas or broker_id in after.isr - before.isr:
            waiting.clear()
            continue
        was, now = before.uuid_of(broker_id), after.uuid_of(broker_id)
        if now in waiting:  # taken back
            waiting.clear()
        elif was != now and before.directory_of(broker_id) == LOST and not has_former:
            waiting.add(was)  # of several the oldest
        elif has_former and after.former_of(broker_id) is None:
            waiting.clear()


def removed_is_not_waited_for(ledger: Ledger, key: PartitionKey, replica_uuid: ReplicaUuid) -> None:
    """A lost table is removed only once the new incarnation of its replica is in sync."""
    if ledger.image.partition(key) is None:
        return
    waiting = [
        uuids
        for (each, _), uuids in ledger.lost_tables.items()
        if each == key and replica_uuid in uuids
    ]
    require(not waiting, I22, f"{key.partition}: {replica_uuid} was removed before it was replaced")


def taken_back_is_whole(
    ledger: Ledger,
    key: PartitionKey,
    before: PartitionRegistration,
    after: PartitionRegistration,
) -> None:
    """A replica that was lost is one again only with all of its files.

    A disk may be wiped between the inspection and the commit: facts are a moment old, and the next
    finds the replica lost again.
    """
    for broker_id in after.replicas:
        if broker_id not in before.replicas or not after.is_created(broker_id):
            continue
        uuid = after.uuid_of(broker_id)
        was_lost = before.directory_of(broker_id) == LOST and before.uuid_of(broker_id) == uuid
        if not was_lost and before.former_of(broker_id) != uuid:
            continue
        root, place = ledger.disks.root_of(broker_id), f"{key.topic_id}/{key.partition}-{uuid}"
        is_whole = root.is_whole(place) or place in root.whole
        require(is_whole, I22, f"{key.partition} on {broker_id} is not whole, and was taken back")
