"""I1, I15, I27: the audit of one replica, with its segments if deep. Runs in a task.

It answers with a trace and never raises for what a root or a table does: a part that can't be read
is a finding, and the audit of other replicas goes on. One table's history is in memory at a time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafka_on_spark.audit.history import TableDamage, TableStep
from kafka_on_spark.audit.replicas.replica import PRODUCER_STATE, ReplicaReplay
from kafka_on_spark.audit.trace import ReplicaTrace
from kafka_on_spark.errors import CorruptLogError, KafkaOnSparkError, ReplicaLostError
from kafka_on_spark.fsck.segment_audit import NOTHING_READ, FollowedLog, read_segments
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.producers import ProducerEntries, producers_file_name
from kafka_on_spark.storage.replicas.archives.archive import ReplicaArchive
from kafka_on_spark.storage.replicas.replica_log import configuration_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOrder:
    """Which replica to audit.

    Attributes:
        address: The replica.
        is_in_sync: It is in the ISR, so it must have all that is committed.
        is_deep: The audit also reads its segments and all of its checkpoints.
        borders: Offsets between which the records in its segments are added up.
        expired_epochs: With which epochs producer ids have expired that came back since.
    """

    address: ReplicaAddress
    is_in_sync: bool
    is_deep: bool
    borders: tuple[int, ...]
    expired_epochs: Mapping[str, Sequence[int]] = field(default_factory=dict)


def audit_replica(order: AuditOrder, archive: ReplicaArchive) -> ReplicaTrace:
    """Return the history of one replica, with what is wrong with it alone."""
    address = order.address
    replay = ReplicaReplay(address, configuration_of(address.identity), order.expired_epochs)
    read, forgotten = NOTHING_READ, tuple[tuple[str, int], ...]()
    try:
        log = FollowedLog(address, replay, archive, is_deep=order.is_deep)
        log.catch_up()
        forgotten = _compare_producers(order, replay, archive)
        if order.is_deep:
            read = read_segments(log, archive, order.borders)
    except ReplicaLostError as error:
        # Its disk is there, and its table is not.
        invariant = "I1" if order.is_in_sync else None
        replay.findings.add(invariant, f"the replica is lost: {error.message}")
    except KafkaOnSparkError as error:
        replay.findings.add(None, f"the replica could not be checked: {error.message}")
        return replace(replay.trace(), is_read=False)
    trace = replay.trace()
    return replace(
        trace,
        findings=(*trace.findings, *read.findings),
        forgotten_producers=forgotten,
        contents=read.contents,
        read_files=read.files,
        read_bytes=read.size_bytes,
    )


def _compare_producers(
    order: AuditOrder, replay: ReplicaReplay, archive: ReplicaArchive
) -> tuple[tuple[str, int], ...]:
    """Compare the producer state with the log's history; return the producers that it lacks."""
    file, number = replay.producers_file, replay.producer_state
    entries: ProducerEntries = {}
    try:
        if number:
            entries = archive.producers(order.address, file)
    except CorruptLogError as error:
        later = archive.steps(order.address, is_deep=False)
        if all(_named_by(step) <= number for step in later):  # else it may be cleaned by now
            replay.findings.add("I15", error.message, path=producers_file_name(number))
        return ()
    return replay.compare_producers(entries)


def _named_by(step: TableStep) -> int:
    return 0 if isinstance(step, TableDamage) else step.counters.get(PRODUCER_STATE, 0)
