"""Reports of replicas, made from the states of their logs: the rows that decisions rest on.

Apart from the fetch, because the appender reports its own reading of a leader the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.errors import (
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    CommitOutcomeUnknownError,
    CorruptLogError,
    InconsistentTopicIdError,
    KafkaOnSparkError,
    KafkaStorageError,
    ProtocolError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import ChainDigest, Offset, PartitionKey
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.epochs import epoch_history
from kafka_on_spark.log.merged_segment import LogPart
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.log.truncation import fetch_start
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.reports import PartitionReport, ReplicaReport


@dataclass(frozen=True, slots=True)
class Diverged:
    """A follower's log that is not its leader's; it is not known which of the two is right."""

    follower: ReplicaState


def partition_report(
    key: PartitionKey,
    partition: PartitionRegistration,
    leader: ReplicaReport,
    leader_state: ReplicaState | None,
    followers: Sequence[ReplicaReport],
    *,
    now_ms: int,
) -> PartitionReport:
    """Return one report of a partition from what was seen of its replicas."""
    since_ms = None
    borders: list[tuple[Offset, ChainDigest]] = []
    epoch_start = leader.log_end_offset
    if leader_state is not None:
        above = leader_state.batches_between(partition.high_watermark, leader_state.log_end_offset)
        since_ms = above[0].appended_at_ms if above else None
        borders = _borders(leader_state, partition.high_watermark)
        leaderships = epoch_history(leader_state).entries
        epoch_start = leaderships[-1].start_offset if leaderships else leader_state.log_end_offset
    return PartitionReport(
        key=key,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        known_end=partition.log_end_offset,
        leader=leader,
        epoch_start_offset=epoch_start,
        uncommitted_since_ms=since_ms,
        followers=tuple(followers),
        now_ms=now_ms,
        borders=tuple(borders),
    )


def _borders(leader: ReplicaState, high_watermark: Offset) -> list[tuple[Offset, ChainDigest]]:
    """Return offset and chain digest of the borders of a leader's log from `high_watermark` on."""
    above = leader.batches_between(high_watermark, leader.log_end_offset)
    found = [(each.end_offset, each.chain_digest) for each in above[-BORDERS_MAX:]]
    digest = leader.chain_at(high_watermark)
    return found if digest is None else [(high_watermark, digest), *found]


def ends_alike(follower: ReplicaState, leader: ReplicaState) -> bool:
    """Return whether the leader's chain digest at the follower's end is the follower's.

    Both were computed when the tables were read, so the logs are the same below that end.
    """
    return fetch_start(follower, leader) is not None


def state_report(
    address: ReplicaAddress,
    state: ReplicaState,
    *,
    is_matched: bool,
    is_diverged: bool = False,
    missing: Sequence[LogPart],
) -> ReplicaReport:
    """Return the report of a replica whose table was read."""
    error = None if is_matched else CorruptLogError("its log differs from the leader's at its end")
    return ReplicaReport(
        broker_id=address.broker_id,
        replica_uuid=address.replica_uuid,
        directory_id=address.directory_id,
        fence=state.leader_epoch,
        log_end_offset=state.log_end_offset,
        last_epoch=state.batches[-1].leader_epoch if state.batches else None,
        chain_digest=state.chain_digest,
        is_matched=is_matched,
        is_diverged=is_diverged,
        missing_since_ms=missing[0].appended_at_ms if missing else None,
        missing_bytes=sum(batch.size_bytes for batch in missing),
        compacted_below=state.compaction.finished_below,
        error_code=NO_ERROR if error is None else error.code,
        error=None if error is None else str(error),
    )


BORDERS_MAX: Final = 1024
"""The newest borders of a leader's log that a report has at most."""

_BAD: Final = (ReplicaLostError, InconsistentTopicIdError, CorruptLogError)


def is_evidence(error: KafkaOnSparkError) -> bool:
    """Return whether `error` is evidence that a replica is bad; others say nothing about it."""
    return isinstance(error, _BAD)


def failed_report(address: ReplicaAddress, error: KafkaOnSparkError) -> ReplicaReport:
    """Return the report of a replica that could not be read or written.

    A lost, mistaken or corrupt replica is bad. A root that does not answer is away, not bad.
    """
    code = error.code if isinstance(error, ProtocolError) else UNKNOWN_SERVER_ERROR
    if isinstance(error, CommitOutcomeUnknownError):
        code = KafkaStorageError.code
    file = error.context.get("segment")
    return ReplicaReport(
        broker_id=address.broker_id,
        replica_uuid=address.replica_uuid,
        directory_id=address.directory_id,
        error_code=code,
        error=str(error),
        is_bad=is_evidence(error),
        bad_file=None if file is None else str(file),
    )


def as_leaders_fault(error: KafkaOnSparkError) -> KafkaOnSparkError:
    """Return the error of an append that met `error` in its leader's log; it may be retried, since
    another replica may lead before the append's time is up."""
    if isinstance(error, CorruptLogError):
        return ReplicaLostError(f"the leader's log can't be read: {error}", **error.context)
    return error


def leader_failed(
    key: PartitionKey,
    partition: PartitionRegistration,
    leader: ReplicaAddress,
    error: KafkaOnSparkError,
    now_ms: int,
) -> PartitionReport:
    """Return the report of a partition whose leader could not be read, with the reason."""
    failed = failed_report(leader, error)
    return partition_report(key, partition, failed, None, (), now_ms=now_ms)


def merge_reports(reports: Sequence[PartitionReport]) -> list[PartitionReport]:
    """Return one report a partition: each follower's, and the leader's with the highest log end.

    A leader that some fetch could not read counts as unread, so nothing is decided.
    """
    by_key: dict[PartitionKey, list[PartitionReport]] = {}
    for report in reports:
        by_key.setdefault(report.key, []).append(report)
    return [_merged(each) for each in by_key.values()]


def _merged(reports: list[PartitionReport]) -> PartitionReport:
    furthest = max(
        reports,
        key=lambda report: (report.leader.error_code != NO_ERROR, report.leader.log_end_offset),
    )
    since = [each.uncommitted_since_ms for each in reports if each.uncommitted_since_ms is not None]
    return PartitionReport(
        key=furthest.key,
        leader_epoch=furthest.leader_epoch,
        partition_epoch=furthest.partition_epoch,
        known_end=furthest.known_end,
        leader=furthest.leader,
        epoch_start_offset=furthest.epoch_start_offset,
        uncommitted_since_ms=min(since, default=None),
        followers=tuple(follower for report in reports for follower in report.followers),
        now_ms=furthest.now_ms,
        borders=furthest.borders,
    )


def missing_batches(follower: ReplicaState, leader: ReplicaState) -> tuple[LogPart, ...]:
    """Return the leader's batches that the follower lacks, of logs that end alike.

    The first may begin below the follower's end: an emptied follower may begin inside a batch,
    which is fetched as a whole, and of a merged segment the rest is fetched.
    """
    if follower.log_end_offset >= leader.log_end_offset:
        return ()
    return leader.batches_between(follower.log_end_offset, leader.log_end_offset)


def report_of(
    partition: PartitionRegistration,
    leader: tuple[ReplicaAddress, ReplicaState | KafkaOnSparkError],
    follower: tuple[ReplicaAddress, ReplicaState | KafkaOnSparkError | Diverged | None] | None,
    *,
    now_ms: int,
) -> PartitionReport:
    """Return the report of a partition from what a fetch saw of its leader, and its follower after
    it, or why that failed."""
    address, seen = leader
    if isinstance(seen, KafkaOnSparkError):
        report, state = failed_report(address, seen), None
    else:
        report, state = state_report(address, seen, is_matched=True, missing=()), seen
    followers = () if follower is None else _follower_reports(state, *follower)
    return partition_report(address.key, partition, report, state, followers, now_ms=now_ms)


def _follower_reports(
    leader: ReplicaState | None,
    address: ReplicaAddress,
    seen: ReplicaState | KafkaOnSparkError | Diverged | None,
) -> tuple[ReplicaReport, ...]:
    if seen is None:
        return ()
    if isinstance(seen, KafkaOnSparkError):
        return (failed_report(address, seen),)
    if isinstance(seen, Diverged):
        log = seen.follower
        return (state_report(address, log, is_matched=False, is_diverged=True, missing=()),)
    assert leader is not None, "a follower's log is compared with its leader's"
    is_matched = ends_alike(seen, leader)
    missing = missing_batches(seen, leader) if is_matched else ()
    return (state_report(address, seen, is_matched=is_matched, missing=missing),)
