"""I1, I15: the audit of one replica, with its segments if deep. Runs in a task.

It answers with a trace and never raises for what a root or a table does: a part that can't be read
is a finding, and the audit of other replicas goes on. One table's history is in memory at a time.
"""

from dataclasses import dataclass, replace

from kafka_on_spark.audit.findings import FindingList
from kafka_on_spark.audit.history import FileEntry, TableDamage, TableStep
from kafka_on_spark.audit.replicas.log_counters import PRODUCER_STATE
from kafka_on_spark.audit.replicas.replica import ReplicaName, ReplicaReplay
from kafka_on_spark.audit.trace import ReplicaTrace
from kafka_on_spark.errors import CorruptLogError, KafkaOnSparkError, ReplicaLostError
from kafka_on_spark.ids import TopicPartition
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.producers import ProducerEntries, producers_file_name
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
    read, forgotten = (0, 0), tuple[str, ...]()
    try:
        # Listed first: a file that is about to be committed then is in the log when that is read.
        file_names = archive.file_names(address)
        for step in archive.steps(address, is_deep=order.is_deep):
            replay.take(step)
        forgotten = _compare_producers(order, replay, archive)
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
    named.add(producers_file_name(replay.producer_state))
    return replace(
        replay.trace(),
        file_names=tuple(name for name in file_names if name not in named),
        forgotten_producers=forgotten,
        read_files=read[0],
        read_bytes=read[1],
    )


def _compare_producers(
    order: AuditOrder, replay: ReplicaReplay, archive: ReplicaArchive
) -> tuple[str, ...]:
    """Compare the producer state with the log's history; return the producers that it lacks."""
    number = replay.producer_state
    entries: ProducerEntries = {}
    try:
        if number:
            entries = archive.producers(order.address, number)
    except CorruptLogError as error:
        later = archive.steps(order.address, is_deep=False)
        if all(_named_by(step) <= number for step in later):  # else it may be cleaned by now
            replay.findings.add("I15", error.message, path=producers_file_name(number))
        return ()
    return replay.compare_producers(entries)


def _named_by(step: TableStep) -> int:
    return 0 if isinstance(step, TableDamage) else step.counters.get(PRODUCER_STATE, 0)


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
