"""I1, I15: the audit of one replica, with its segments if deep. Runs in a task.

It answers with a trace and never raises for what a root or a table does: a part that can't be read
is a finding, and the audit of other replicas goes on. One table's history is in memory at a time.
"""

from dataclasses import dataclass, replace

from kafka_on_spark.audit.findings import FindingList
from kafka_on_spark.audit.history import FileEntry
from kafka_on_spark.audit.replicas.replica import ReplicaName, ReplicaReplay
from kafka_on_spark.audit.trace import ReplicaTrace
from kafka_on_spark.errors import KafkaOnSparkError, ReplicaLostError
from kafka_on_spark.ids import TopicPartition
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.ports import ReplicaArchive


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOrder:
    """Which replica to audit.

    Attributes:
        address: The replica.
        is_in_sync: It is in the ISR, so it must have all that is committed.
        is_deep: The audit also reads its segments and all of its checkpoints.
    """

    address: ReplicaAddress
    is_in_sync: bool
    is_deep: bool


def audit_replica(order: AuditOrder, archive: ReplicaArchive) -> ReplicaTrace:
    """Return the history of one replica, with what is wrong with it alone."""
    address = order.address
    replay = ReplicaReplay(
        ReplicaName(
            key=address.key,
            name=TopicPartition(address.topic, address.key.partition),
            broker_id=address.broker_id,
            replica_uuid=address.replica_uuid,
            configuration=archive.configuration(address),
        )
    )
    file_names: list[str] = []
    read = (0, 0)
    try:
        # Listed first: a file that is about to be committed then is in the log when that is read.
        file_names = archive.file_names(address)
        for step in archive.steps(address, is_deep=order.is_deep):
            replay.take(step)
        if order.is_deep:
            read = _read_segments(order, replay, archive)
    except ReplicaLostError as error:
        # Its disk is there, and its table is not.
        invariant = "I1" if order.is_in_sync else None
        replay.findings.add(invariant, f"the replica is lost: {error.message}")
    except KafkaOnSparkError as error:
        replay.findings.add(None, f"the replica could not be checked: {error.message}")
        return replace(replay.trace(), is_read=False)
    named = {entry.path for entry in replay.active_entries}
    return replace(
        replay.trace(),
        file_names=tuple(name for name in file_names if name not in named),
        read_files=read[0],
        read_bytes=read[1],
    )


def _read_segments(
    order: AuditOrder, replay: ReplicaReplay, archive: ReplicaArchive
) -> tuple[int, int]:
    """Read every segment that the log names; return how many they are, and their bytes."""
    entries = replay.active_entries
    for entry in entries:
        flaw = archive.segment_flaw(order.address, entry)
        if flaw is not None:
            _add_flaw(replay.findings, entry, flaw)
    return len(entries), sum(entry.size_bytes for entry in entries)


def _add_flaw(findings: FindingList, entry: FileEntry, flaw: str) -> None:
    base = entry.values.get("base_offset")
    is_offset = base is not None and base.isdecimal() and len(base) < 20
    offset = int(base) if base is not None and is_offset else None
    findings.add("I15", flaw, path=entry.path, offset=offset)
