"""The history of upkeep: what was decided, by the metadata log, and what each replica has done, by
the commits of its table, as far back as they are kept."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final

from kafka_on_spark.audit.history import (
    FileEntry,
    TableCheckpoint,
    TableCommit,
    TableDamage,
    TableStep,
)
from kafka_on_spark.controller.commands.expiry import is_expiry
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import BrokerId, Offset, TopicId
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import (
    MetadataBatch,
    RemoveProducerRecord,
    TopicRecord,
)
from kafka_on_spark.notebook import Shown
from kafka_on_spark.ports.archives import ReplicaArchive
from kafka_on_spark.query.moments import time_of
from kafka_on_spark.service.describe.partition_history import HistoryEntry, partition_history

DONE: Final = {"merge": "merge", "compact": "compact", "advance_log_start": "log start"}
"""Operations of a replica's commits that are upkeep, and their names as kinds of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepEvent:
    """A decision of upkeep, or a commit by which a replica did some.

    Attributes:
        time: When it was committed, UTC.
        topic: The topic's name; empty: it concerns none.
        partition: The partition's number; None: it concerns none.
        broker_id: The replica; None: it is a decision.
        kind: "retention", "delete-records", "compaction", "producer expiry" and "offset expiry" are
            decisions; "log start", "merge" and "compact" were done.
        start_offset: Where what it is about begins: records that were deleted, or the files that
            were replaced; None: it is about no offsets.
        end_offset: Where that ends.
        files_before: Files that the commit took from the log.
        files_after: Files that it put in their place.
        bytes_before: Bytes of the former.
        bytes_after: Bytes of the latter.
        records_before: Records in the former.
        records_after: Records in the latter.
        cause: The reason of a decision, in words.
        by: Who committed the decision: the controller's id, or Spark's application id; None:
            another process, or it is no decision.
    """

    time: datetime
    topic: str
    partition: int | None
    broker_id: BrokerId | None
    kind: str
    start_offset: Offset | None = None
    end_offset: Offset | None = None
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0
    cause: str | None = None
    by: str | None = None

    def __str__(self) -> str:
        if self.broker_id is None:
            cause = self.cause or ""
            return cause if cause.startswith(self.kind) else f"{self.kind}: {cause}"
        said = f"{self.kind}: {_files(self.files_before, self.bytes_before)}"
        if self.files_after:
            said = f"{said} became {_files(self.files_after, self.bytes_after)}"
        else:
            said = f"{said} left the log"
        gone = self.records_before - self.records_after
        return f"{said}, {gone:,} record{'' if gone == 1 else 's'} fewer" if gone else said


def _files(count: int, size_bytes: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'} ({size_bytes:,} bytes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepHistory(Shown):
    """What is known of upkeep.

    Attributes:
        events: Oldest first.
        unread: Replicas whose tables could not be read, in words, and why.
        incomplete: Replicas whose first commits were cleaned away, in words: what they did before
            is not known.
    """

    events: tuple[UpkeepEvent, ...] = ()
    unread: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEvents:
    """What one replica's table tells.

    Attributes:
        events: Oldest first.
        error: Why the table, or a part of it, could not be read; None: it was.
        is_complete: All of its commits are still there.
    """

    events: tuple[UpkeepEvent, ...] = ()
    error: str | None = None
    is_complete: bool = True


ReadEvents = Callable[[Sequence[ReplicaAddress]], Iterable[ReplicaEvents]]
"""Reads what replicas' tables tell, one for each address, in order."""


def upkeep_history(
    image: MetadataImage,
    decided: Iterable[UpkeepEvent],
    addresses: Sequence[ReplicaAddress],
    read_events: ReadEvents,
    *,
    is_past: bool = False,
) -> UpkeepHistory:
    """Return the history of upkeep.

    `decided`: the decisions up to `image`. `addresses`: the replicas whose tables are read.
    `is_past`: `image` is of a past moment, and nothing later than its last decision is told.
    """
    found = dict(zip(addresses, read_events(addresses), strict=True))
    until = time_of(image.time_ms)
    done = (
        event
        for each in found.values()
        for event in each.events
        if not is_past or event.time <= until
    )
    names = {each: f"{image.name_of(each.key)} on broker {each.broker_id}" for each in addresses}
    return UpkeepHistory(
        events=tuple(sorted(chain(decided, done), key=lambda event: event.time)),
        unread=tuple(f"{names[a]}: {each.error}" for a, each in found.items() if each.error),
        incomplete=tuple(names[a] for a, each in found.items() if not each.is_complete),
    )


def decisions(
    batches: Sequence[MetadataBatch], topic_ids: frozenset[TopicId] | None = None
) -> list[UpkeepEvent]:
    """Return the decisions of upkeep in the metadata log, of some topics or of all, oldest first.

    Producer ids are of no topic, so their expiry is told of all topics only.
    """
    names = _topic_names(batches)
    only = {names[each] for each in topic_ids or () if each in names}
    one = next(iter(topic_ids)) if topic_ids is not None and len(topic_ids) == 1 else None
    entries = partition_history(batches, one)
    found = decisions_among(each for each in entries if not only or each.topic in only)
    expired = _expired(batches, topic_ids, names)
    return sorted(chain(expired, found), key=lambda event: event.time)


def decisions_among(entries: Iterable[HistoryEntry]) -> Iterator[UpkeepEvent]:
    """Yield the decisions of upkeep among changes of partitions, which begin with their first."""
    before: dict[tuple[str, int], HistoryEntry] = {}
    for entry in entries:
        name = (entry.topic, entry.partition)
        was, before[name] = before.get(name), entry
        if entry.is_deletion or entry.is_compaction:
            yield _decision(entry, was)


def _topic_names(batches: Iterable[MetadataBatch]) -> dict[TopicId, str]:
    records = (record for batch in batches for record in batch.records)
    return {each.topic_id: each.topic for each in records if isinstance(each, TopicRecord)}


def _expired(
    batches: Iterable[MetadataBatch],
    topic_ids: frozenset[TopicId] | None,
    names: Mapping[TopicId, str],
) -> Iterator[UpkeepEvent]:
    """Yield what expired: producer ids, and groups' offsets."""
    for batch in batches:
        for record in batch.records:
            topic_id: TopicId | None = None
            if isinstance(record, RemoveProducerRecord):
                kind, partition = "producer expiry", None
            elif is_expiry(record):
                kind, topic_id, partition = "offset expiry", record.topic_id, record.partition
            else:
                continue
            if topic_ids is None or topic_id in topic_ids:
                yield UpkeepEvent(
                    time=time_of(batch.stamp.time_ms),
                    topic="" if topic_id is None else names.get(topic_id, ""),
                    partition=partition,
                    broker_id=None,
                    kind=kind,
                    cause=record.cause,
                    by=batch.stamp.controller_id or batch.stamp.application_id,
                )


def _decision(entry: HistoryEntry, was: HistoryEntry | None) -> UpkeepEvent:
    if entry.is_compaction:
        start, end = (was.compaction if was else None), entry.compaction
        kind = "compaction"
        offsets = (Offset(0) if start is None else start.compacted_below, end.compacted_below)
    else:
        kind = "retention" if (entry.cause or "").startswith("retention") else "delete-records"
        offsets = (was.log_start_offset if was else Offset(0), entry.log_start_offset)
    return UpkeepEvent(
        time=entry.time,
        topic=entry.topic,
        partition=entry.partition,
        broker_id=None,
        kind=kind,
        start_offset=offsets[0],
        end_offset=offsets[1],
        cause=entry.cause,
        by=entry.by,
    )


def replica_events(address: ReplicaAddress, archive: ReplicaArchive) -> ReplicaEvents:
    """Return what one replica's table tells of its upkeep; a table that can't be read, in words."""
    events: list[UpkeepEvent] = []
    files: dict[str, FileEntry] = {}
    error: str | None = None
    first: int | None = None
    try:
        for step in archive.steps(address, is_deep=False):
            first = step.version if first is None else first
            if isinstance(step, TableDamage):
                error = error or (None if step.is_checkpoint else step.sentence)
            else:
                events += _take(address, step, files)
    except KafkaOnSparkError as caught:
        error = caught.message
    return ReplicaEvents(events=tuple(events), error=error, is_complete=not first)


def _take(
    address: ReplicaAddress, step: TableStep, files: dict[str, FileEntry]
) -> Iterator[UpkeepEvent]:
    """Yield the upkeep that a step of a table's history is, and have `files` be those after it."""
    if isinstance(step, TableCheckpoint):
        files.clear()
        files.update((each.path, each) for each in step.files)
    if not isinstance(step, TableCommit):
        return
    removed = [files.pop(path) for path in step.removes if path in files]
    files.update((each.path, each) for each in step.adds)
    kind = DONE.get(step.operation or "")
    if kind is None or step.time_ms is None or not (removed or step.adds):
        return
    yield UpkeepEvent(
        time=time_of(step.time_ms),
        topic=address.topic,
        partition=address.key.partition,
        broker_id=address.broker_id,
        kind=kind,
        start_offset=_offset(removed[0], "base_offset") if removed else None,
        end_offset=_offset(removed[-1], "end_offset") if removed else None,
        files_before=len(removed),
        files_after=len(step.adds),
        bytes_before=sum(each.size_bytes for each in removed),
        bytes_after=sum(each.size_bytes for each in step.adds),
        records_before=sum(each.record_count or 0 for each in removed),
        records_after=sum(each.record_count or 0 for each in step.adds),
    )


def _offset(file: FileEntry, column: str) -> Offset | None:
    text = file.values.get(column)
    return Offset(int(text)) if text is not None and text.isdecimal() else None
