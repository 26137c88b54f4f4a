"""Where ISRs shrink and expand, and all else that a round's reports lead to, decided together.

The ISR shrinks by lag, and expands by AlterPartition's checks (KIP-497). A member also leaves if
its broker fails or drains, or an append goes on without it (`brokers`), and a leader if its replica
can't be read. Lag in time needs no heartbeat: it is now minus the append time of the first batch
that a follower lacks. A wrong clock moves a follower out or in at another time; it loses nothing.

Each partition is independent: a report that is not current any more leads to nothing, and does not
affect the others. Of queued bytes that are damaged, or another version's, the process that queued
them decides on its own.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace
from hashlib import blake2b
from typing import Final

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import NO_ERROR, KafkaStorageError
from kafka_on_spark.base.ids import KEEP, BrokerId, Offset, PartitionKey, ReplicaUuid
from kafka_on_spark.controller.election import (
    change_of_isr,
    change_record,
    eligible_replicas,
    lost_change,
)
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import PartitionChangeRecord, Record
from kafka_on_spark.metadata.reports import (
    PartitionReport,
    ReplicaReport,
    advance_high_watermark,
    min_isr,
)


def alter_isr(
    image: MetadataImage, report: PartitionReport, *, high_watermark: Offset | None = None
) -> PartitionChangeRecord | None:
    """Decide which replicas leave and join the ISR of one partition; None if none does.

    `high_watermark`: where the same commit raises it to: a joining replica must have that.
    A bad replica is marked as lost here, one a round, since each changes the partition epoch.
    """
    partition = image.partition(report.key)
    if partition is None or partition.partition_epoch != report.partition_epoch:
        return None
    for seen in (report.leader, *report.followers):
        if is_verdict(seen) and _is_registered(partition, seen):
            change = lost_change(image, partition, seen.broker_id)
            cause = f"broker {seen.broker_id}: replica is bad: {seen.error}"
            return change_record(image, report.key, partition, change, cause)
    if partition.leader_epoch != report.leader_epoch:
        return None
    leaving = lagging_members(image, partition, report)
    committed = max(partition.high_watermark, high_watermark or Offset(0))
    joining = {
        seen.broker_id
        for seen in report.followers
        if seen.broker_id not in partition.isr
        and report.continues(partition)
        and seen.log_end_offset >= committed
        and may_join(image, partition, report, seen)
        and would_stay(image, report, seen)
    }
    if not leaving and not joining:
        return None
    isr = partition.isr.difference(leaving) | joining
    altered = change_of_isr(
        partition,
        isr,
        leader=partition.leader,
        min_isr=min_isr(image, report.key.topic_id, partition),
        eligible=image.eligible_brokers(),
        suspects=image.suspects,
    )
    assert altered is not None, "a replica leaves or joins"
    joined = [
        f"broker {seen.broker_id}: caught up at offset {seen.log_end_offset}"
        f" in epoch {report.leader_epoch}"
        for seen in sorted(report.followers, key=lambda each: each.broker_id)
        if seen.broker_id in joining
    ]
    cause = "; ".join([*leaving.values(), *joined])
    return change_record(image, report.key, partition, altered, cause)


def is_verdict(seen: ReplicaReport) -> bool:
    """Return whether two inspections of one process found a replica bad: one changes nothing."""
    return seen.is_bad_twice


def _is_registered(partition: PartitionRegistration, seen: ReplicaReport) -> bool:
    return (
        seen.broker_id in partition.replicas
        and partition.is_created(seen.broker_id)
        and partition.uuid_of(seen.broker_id) == seen.replica_uuid
    )


def _broken_limit(settings: Settings, lag_ms: int, missing_bytes: int, parts: int) -> str | None:
    """Return which limit a lag is beyond, in words; None if it is within a `parts`-th of both."""
    time_ms = settings.integer("replica.lag.time.max.ms") // parts
    size_bytes = settings.integer("replica.lag.max.bytes") // parts
    if lag_ms > time_ms:
        return f"lags by {lag_ms / 1000:.1f} s (replica.lag.time.max.ms={time_ms})"
    if 0 <= size_bytes < missing_bytes:  # below 0: any number
        return f"lags by {missing_bytes} bytes (replica.lag.max.bytes={size_bytes})"
    return None


def lagging_members(
    image: MetadataImage, partition: PartitionRegistration, report: PartitionReport
) -> dict[BrokerId, str]:
    """Return the members of the ISR that lag too far, with the reason in words.

    A replica that can't be counted is judged as if its log ended at the high watermark.
    """
    settings = image.settings(report.key.topic_id)
    lagging = {}
    for broker_id in partition.isr - {report.leader.broker_id}:
        seen = report.replica(broker_id)
        since_ms, missing_bytes = report.uncommitted_since_ms, 0
        if seen is not None and seen.counts_in(report.leader_epoch):
            since_ms, missing_bytes = seen.missing_since_ms, seen.missing_bytes
        if since_ms is None:
            continue
        broken = _broken_limit(settings, report.now_ms - since_ms, missing_bytes, 1)
        if broken is not None:
            lagging[broker_id] = f"broker {broker_id}: {broken}"
    return lagging


def would_stay(image: MetadataImage, report: PartitionReport, seen: ReplicaReport) -> bool:
    """Return whether a joining follower is within half of the limits that take a member out.

    The high watermark may be far below the log end, so a follower that has reached it may still lag
    too far. With half the limits, a follower at the edge does not leave and join each round
    (KAFKA-19996). A follower that lacks nothing stays.
    """
    if seen.missing_since_ms is None:
        return True
    lag_ms = report.now_ms - seen.missing_since_ms
    settings = image.settings(report.key.topic_id)
    return _broken_limit(settings, lag_ms, seen.missing_bytes, 2) is None


def may_join(
    image: MetadataImage,
    partition: PartitionRegistration,
    report: PartitionReport,
    seen: ReplicaReport,
) -> bool:
    """Return whether a follower outside the ISR may join it.

    It is on an eligible broker (KIP-841), under the uuid and directory of the image (KIP-903),
    fenced at the current epoch, has the high watermark and the start of the leadership, and is
    compacted as far as every member is (I27). A replica that a reassignment removes stays out once
    all of the target is in sync.
    """
    if not _is_registered(partition, seen):
        return False
    if seen.broker_id in partition.removing_replicas:
        is_over = partition.isr.issuperset(partition.target_replicas)
        if is_over and partition.leader in partition.target_replicas:
            return False
    broker = image.brokers.get(seen.broker_id)
    if broker is None or not broker.is_eligible or broker.directory_id != seen.directory_id:
        return False
    if partition.directory_of(seen.broker_id) != seen.directory_id:
        return False
    has_records = seen.log_end_offset >= max(partition.high_watermark, report.epoch_start_offset)
    is_compacted = seen.compacted_below >= partition.compaction.cleaned_below
    return seen.counts_in(report.leader_epoch) and has_records and is_compacted


def awaiting_compaction(image: MetadataImage, report: PartitionReport) -> list[BrokerId]:
    """Return the followers that may join the ISR once they are compacted as far as every member."""
    partition = image.partition(report.key)
    if partition is None or partition.leader_epoch != report.leader_epoch:
        return []
    cleaned_below = partition.compaction.cleaned_below
    return [
        seen.broker_id
        for seen in report.followers
        if seen.broker_id not in partition.isr
        and seen.compacted_below < cleaned_below
        and may_join(image, partition, report, replace(seen, compacted_below=cleaned_below))
    ]


def leave_unreadable(
    image: MetadataImage,
    key: PartitionKey,
    leader: BrokerId,
    replica_uuid: ReplicaUuid,
    *,
    readable: frozenset[BrokerId],
    cause: str,
) -> ControllerResult[bool]:
    """Decide that a leader leaves ISR and leadership, if a member that is `readable` is left. Its
    directory stays, since the replica is not lost. Answer: whether it leaves."""
    nothing: ControllerResult[bool] = ControllerResult([], False)
    partition = image.partition(key)
    if partition is None or partition.leader != leader or partition.uuid_of(leader) != replica_uuid:
        return nothing
    change = change_of_isr(
        partition,
        partition.isr - {leader},
        leader=None,
        min_isr=min_isr(image, key.topic_id, partition),
        eligible=readable & partition.isr & image.eligible_brokers(),
        suspects=image.suspects,
    )
    if change is None or partition.merge(change).leader is None:
        return nothing
    return ControllerResult([change_record(image, key, partition, change, cause)], True)


def raise_epoch(image: MetadataImage, report: PartitionReport) -> PartitionChangeRecord | None:
    """Decide a new epoch of the same leader if the log of a member of ISR or ELR diverges from
    the leader's.

    The member leaves ISR or ELR if the minimum is left without it, and comes back when it agrees:
    so a replica costs a partition at most one epoch each time it joins. None if no log diverges, or
    if the partition has changed since the inspection.
    """
    partition = image.partition(report.key)
    if (
        partition is None
        or partition.partition_epoch != report.partition_epoch
        or partition.leader_epoch != report.leader_epoch
        or partition.leader != report.leader.broker_id
        or not report.leader.counts_in(report.leader_epoch)
    ):
        return None
    diverged = [
        seen
        for seen in report.followers
        if seen.is_diverged
        and seen.broker_id in partition.isr | partition.elr
        and partition.uuid_of(seen.broker_id) == seen.replica_uuid
    ]
    if not diverged:
        return None
    minimum = min_isr(image, report.key.topic_id, partition)
    isr, elr = partition.isr, partition.elr
    for seen in diverged:
        if seen.broker_id in isr and len(isr) > minimum:
            isr = isr - {seen.broker_id}
        elif seen.broker_id in elr and len(isr | elr) > minimum:
            elr = elr - {seen.broker_id}
    elr = eligible_replicas(replace(partition, elr=elr), isr, minimum)
    change = PartitionChange(
        leader=partition.leader,
        isr=isr if isr != partition.isr else KEEP,
        elr=elr if elr != partition.elr else KEEP,
    )
    cause = "; ".join(
        f"broker {seen.broker_id}: its log diverges from broker {partition.leader}'s above the high"
        f" watermark {partition.high_watermark} in epoch {partition.leader_epoch}, and it is"
        " not known which is right"
        for seen in diverged
    )
    return change_record(image, report.key, partition, change, cause)


def without_suspects(report: PartitionReport, suspects: frozenset[ReplicaUuid]) -> PartitionReport:
    """Return the report in which no suspect counts, whatever was seen of it."""

    def counted(seen: ReplicaReport) -> ReplicaReport:
        if seen.replica_uuid not in suspects or seen.error_code != NO_ERROR:
            return seen
        error = "it was found bad, and is to be inspected again"
        return replace(seen, error_code=KafkaStorageError.code, error=error)

    followers = tuple(map(counted, report.followers))
    return replace(report, leader=counted(report.leader), followers=followers)


def conclude(image: MetadataImage, reports: Sequence[PartitionReport]) -> ControllerResult[int]:
    """Decide what `reports` lead to. Answer: how many ISRs change.

    A partition's high watermark comes before its change, after which the report is not current. A
    replica that joins the ISR has all that is committed afterwards (I1).
    """
    records: list[Record] = []
    changes = 0
    for seen in reports:
        report = without_suspects(seen, image.suspects) if image.suspects else seen
        watermark = advance_high_watermark(image, report)
        if watermark is not None:
            records.append(watermark)
        raised = None if watermark is None else watermark.high_watermark
        change = raise_epoch(image, report) or alter_isr(image, report, high_watermark=raised)
        if change is not None:
            records.append(change)
            changes += 1
    return ControllerResult(records, changes)


_LAYOUT: Final = repr([PartitionReport.__annotations__, ReplicaReport.__annotations__]).encode()
"""A version whose reports have other fields, or of other types, finds no reports in such bytes."""


def _sealed(content: bytes) -> bytes:
    return blake2b(content + _LAYOUT, digest_size=16).digest() + content


def encode_reports(reports: Sequence[PartitionReport]) -> bytes:
    """Return `reports` as bytes: a digest, and JSON."""
    return _sealed(json.dumps([asdict(each) for each in reports]).encode())


def decode_queued(
    queued: Iterable[bytes], *, exclude: Collection[PartitionKey]
) -> list[PartitionReport]:
    """Return the reports in `queued`, one a partition and none of the partitions `exclude`.

    A decision on a partition makes every other report of that partition out of date.
    """
    reports: dict[PartitionKey, PartitionReport] = {}
    for encoded in queued:
        whole = encoded[16:] if _sealed(encoded[16:]) == encoded else b"[]"
        for fields in json.loads(whole):
            key = PartitionKey(*fields["key"])
            if key not in exclude:
                known = {
                    "key": key,
                    "leader": ReplicaReport(**fields["leader"]),
                    "followers": tuple(ReplicaReport(**each) for each in fields["followers"]),
                    "borders": tuple(map(tuple, fields["borders"])),
                }
                reports.setdefault(key, PartitionReport(**fields | known))
    return list(reports.values())
