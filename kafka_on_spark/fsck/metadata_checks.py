"""I6, I7, I8 to I11, I15 to I17, I23, I27, I31: the metadata log, replayed by commit.

I6: one leader a leader epoch, one owner a controller epoch. I7: epochs rise, and rise with each
other leader; nothing is committed under a controller epoch once a higher one was claimed. I8: the
high watermark never falls within an unclean generation. I9: log start <= high watermark <= the
leader's recorded log end, and no advance while the ISR is below its minimum. I10: commits continue
each other. I11: the runs of a producer have rising epochs; a request is asked once and answered
once at most. I15: records and snapshots can be read. I16: the log start rises. I17: ISR and leader
are replicas, and no two brokers share a root. I23: a high watermark moves with its chain digest.
I27: the offsets of compaction rise. I31: no time that counts is ahead of the clocks. (I30, groups
with members, is of decisions alone: the simulation of groups holds it.)
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kafka_on_spark.base.errors import CorruptLogError, KafkaOnSparkError
from kafka_on_spark.base.ids import Offset, PartitionKey, TopicId, TopicPartition
from kafka_on_spark.base.text import parse_json
from kafka_on_spark.fsck.findings import FindingList, Place
from kafka_on_spark.fsck.partition_timeline import (
    PartitionTimeline,
    Register,
    Row,
    changed,
    compaction_flaws,
    log_start_flaws,
    membership_flaws,
    register_of,
)
from kafka_on_spark.metadata.codec import decode
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import (
    BrokerRecord,
    ControllerRecord,
    ExpiredRecord,
    MetadataBatch,
    ProducerRecord,
    Record,
    RemovePartitionRecord,
    RemoveProducerRecord,
    RemoveTopicRecord,
    Stamp,
    TopicRecord,
)

Flaw = tuple[str, str, int]
"""An invariant, a sentence, and the place in the commit of the row that breaks it."""

_REQUEST: Final = "AdminRequestRecord"
_RESULT: Final = "AdminResultRecord"
_CONTROLLER: Final = "ControllerRecord"


class RequestReplay:
    """Replays the commits of the metadata log in order; holds the requests without a result."""

    def __init__(self) -> None:
        self._pending: dict[str, None] = {}
        self._epoch = -1
        self._owner: str | None = None

    @property
    def pending(self) -> list[str]:
        return list(self._pending)

    def take(self, rows: Sequence[Row]) -> Iterator[Flaw]:
        stamped = max(
            (place for place, row in enumerate(rows) if self._is_of_deposed_controller(row)),
            default=None,
        )
        if stamped is not None:
            sentence = (
                f"committed under controller epoch {rows[stamped]['controller_epoch']}, though"
                f" {self._epoch} was claimed before"
            )
            yield "I7", sentence, stamped
        for place, row in enumerate(rows):
            if row["record_type"] == _CONTROLLER:
                yield from self._claim(row, place)
            elif row["record_type"] in (_REQUEST, _RESULT):
                yield from self._request(row, place)

    def _is_of_deposed_controller(self, row: Row) -> bool:
        """Return whether a deposed controller committed a decision. A controller's own record is
        checked with the epochs that must rise."""
        epoch = row["controller_epoch"]
        is_decision = row["record_type"] != _CONTROLLER
        return is_decision and isinstance(epoch, int) and epoch < self._epoch

    def _claim(self, row: Row, place: int) -> Iterator[Flaw]:
        epoch, owner = row["controller_epoch"], row["controller_id"]
        if not isinstance(epoch, int):
            return  # reported as a record that lacks a value
        if epoch == self._epoch and owner != self._owner:
            sentence = f"controller epoch {epoch} has two owners, {self._owner} and {owner}"
            yield "I6", sentence, place
        if epoch > self._epoch:
            self._epoch, self._owner = epoch, owner

    def _request(self, row: Row, place: int) -> Iterator[Flaw]:
        text, is_request = row["request"], row["record_type"] == _REQUEST
        if not isinstance(text, str) or not (is_request or isinstance(row["result"], str)):
            yield "I15", f"a {row['record_type']} lacks a value", place
        elif is_request:
            yield from self._ask(text, place)
        else:
            yield from self._answer(text, row["result"], place)

    def _ask(self, text: str, place: int) -> Iterator[Flaw]:
        if not _has(text, "id", str):
            yield "I15", "a request is none: it has no id", place
        if text in self._pending:
            yield "I11", "a request is asked for that is pending already", place
        self._pending[text] = None

    def _answer(self, text: str, result: str, place: int) -> Iterator[Flaw]:
        if not _has(result, "code", int):
            yield "I15", "a result is none: it has no code", place
        if text not in self._pending:
            yield "I11", "a result answers no pending request: it was run before, or never", place
        self._pending.pop(text, None)


def _has(text: str, name: str, kind: type) -> bool:
    """Return whether a text is JSON of an object that has `name`, of that kind."""
    try:
        said: Any = parse_json(text)
    except ValueError:
        return False
    return isinstance(said, dict) and isinstance(said.get(name), kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRows:
    """One commit of the metadata log.

    Attributes:
        base_offset: Offset of its first record.
        rows: Its records as rows, in order.
    """

    base_offset: int
    rows: tuple[Row, ...]


def is_expired(batch: MetadataRows) -> bool:
    return batch.rows[0].get("record_type") == ExpiredRecord.__name__


class RunReplay:
    """Replays the runs of producers: their epochs rise, also over the times that an id has expired
    (I11). Audits of replicas ask which ids have expired and come back."""

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        self._expired: dict[str, list[int]] = {}

    def begin(self, record: ProducerRecord) -> str | None:
        """Take a run that begins or goes on; return what is wrong with it."""
        known = self._epochs.get(record.producer_id, -1)
        is_renewal = record.renewed_at_ms is not None and record.producer_epoch == known
        self._epochs[record.producer_id] = record.producer_epoch
        if record.producer_epoch > known or is_renewal:
            return None
        return (
            f"a run of producer {record.producer_id!r} took epoch {record.producer_epoch} after"
            f" {known}"
        )

    def expire(self, record: RemoveProducerRecord) -> None:
        self._expired.setdefault(record.producer_id, []).append(record.producer_epoch)

    def expired_epoch(self, producer_id: str) -> int:
        """Return the highest epoch with which an id has expired; -1: it never has."""
        return max(self._expired.get(producer_id, ()), default=-1)

    def came_back(self, known: Collection[str]) -> Mapping[str, Sequence[int]]:
        """Return with which epochs those ids have expired that are among the `known` ones now."""
        return {each: tuple(epochs) for each, epochs in self._expired.items() if each in known}


class MetadataReplay:
    """Replays the metadata log's commits in order; holds findings and partitions' timelines."""

    def __init__(self) -> None:
        self.findings = FindingList(Place())
        self.expired_end = 0
        self._clear()

    def _clear(self) -> None:
        self.image = MetadataImage()
        self.timelines: dict[PartitionKey, PartitionTimeline] = {}
        self.topic_names: dict[TopicId, str] = {}
        self.end_offset = 0
        self.requests = RequestReplay()
        self.runs = RunReplay()
        self._controller_epoch = -1
        self._broker_epochs: dict[int, int] = {}
        self._time_ms = 0  # of the newest commit
        self.is_begun = True
        self._gap_count = 0
        self._gaps: dict[PartitionKey, int] = {}  # gaps before the last record of each partition

    def register(self, key: PartitionKey) -> Register | None:
        timeline = self.timelines.get(key)
        return None if timeline is None or timeline.is_removed else timeline.register

    def damage(self, sentence: str, **where: int | str) -> None:
        self._gap_count += 1
        self.findings.add("I15", sentence, **where)

    def pass_over(self, batch: MetadataRows) -> None:
        """Take a commit whose records are gone, or that continues such commits: what comes later
        can be replayed only from a snapshot on."""
        self.end_offset = batch.base_offset + len(batch.rows)
        if is_expired(batch):
            self.expired_end, self.is_begun = self.end_offset, False

    def begin_at(self, snapshot: MetadataRows) -> None:
        """Begin with the records of a snapshot that ends where the commits do that were passed
        over."""
        self._clear()
        self.end_offset = snapshot.base_offset
        self.take(snapshot)

    def not_checked(self) -> list[str]:
        """Return what could not be replayed, in words."""
        if not self.expired_end:
            return []
        return [
            f"the metadata's history before offset {self.expired_end}, and up to the next snapshot:"
            " it is gone, as metadata.max.retention.ms says"
        ]

    def check_time(self, now_ms: int) -> None:
        """Check that no time that counts is ahead of the clock of the process that checks."""
        ahead_ms = max(self._time_ms, self.image.newest_ms()) - now_ms
        if ahead_ms > self.image.settings().integer("clock.ahead.max.ms"):
            sentence = (
                f"the newest time of the metadata is {ahead_ms // 1000} s ahead of this process's"
                " clock: if that is right, reset it (kafka-on-spark metadata --reset-time)"
            )
            self.findings.add("I31", sentence)

    def take(self, batch: MetadataRows) -> None:
        if batch.base_offset != self.end_offset:
            sentence = f"the log goes on at {batch.base_offset}, not at {self.end_offset}"
            # A part that can't be read has a finding of its own.
            if batch.base_offset < self.end_offset or not self._gap_count:
                self.findings.add("I10", sentence, metadata_offset=batch.base_offset)
            self._gap_count += batch.base_offset > self.end_offset
        self._check_requests(batch)
        time_us = batch.rows[0].get("time") if batch.rows else None
        self._time_ms = time_us // 1000 if isinstance(time_us, int) else self._time_ms
        touched: dict[PartitionKey, int] = {}
        records: list[Record] = []
        for place, row in enumerate(batch.rows):
            offset = batch.base_offset + place
            kind = row["record_type"]
            if kind not in _PARTITION_ROWS:
                records.extend(self._decoded(row, offset))
                continue
            # The names and settings that come before it in the commit hold for it.
            self._replay(records)
            records.clear()
            key = PartitionKey(row["topic_id"], row["partition"])
            try:
                if None in key:
                    raise ValueError(key)
                _PARTITION_ROWS[kind](self, key, row, offset)
            except (TypeError, ValueError):
                self._add("I15", f"a {kind} lacks a value", offset, key)
            touched[key] = offset
        self._replay(records)
        self.end_offset = batch.base_offset + len(batch.rows)
        for key, offset in touched.items():
            self._check_members(key, offset)

    def _check_requests(self, batch: MetadataRows) -> None:
        for invariant, sentence, place in self.requests.take(batch.rows):
            # A part that can't be read may have the request or its answer.
            if invariant != "I11" or not self._gap_count:
                self._add(invariant, sentence, batch.base_offset + place)

    def _add(
        self, invariant: str, sentence: str, offset: int, key: PartitionKey | None = None
    ) -> None:
        name = None
        if key is not None:
            topic = self.topic_names.get(key.topic_id, key.topic_id)
            name = TopicPartition(str(topic), key.partition)
        self.findings.add(invariant, sentence, metadata_offset=offset, partition=name)

    def _decoded(self, row: Row, offset: int) -> Sequence[Record]:
        try:
            record = decode(row)
            self._check_rise(record, offset)
        except (CorruptLogError, TypeError):
            self._add("I15", f"a {row['record_type']} lacks a value or is unknown", offset)
            return ()
        return (record,)

    def _check_rise(self, record: Record, offset: int) -> None:
        if isinstance(record, BrokerRecord):
            self._check_broker(record, offset)
        elif isinstance(record, ControllerRecord):
            known = self._controller_epoch
            if record.controller_epoch < known:
                sentence = f"controller epoch {record.controller_epoch} comes after {known}"
                self._add("I7", sentence, offset)
            self._controller_epoch = record.controller_epoch
        elif isinstance(record, ProducerRecord):
            flaw = self.runs.begin(record)
            if flaw is not None:
                self._add("I11", flaw, offset)
        elif isinstance(record, RemoveProducerRecord):
            self.runs.expire(record)

    def _check_broker(self, record: BrokerRecord, offset: int) -> None:
        known = self._broker_epochs.get(record.broker_id, -1)
        if record.broker_epoch <= known:
            sentence = (
                f"broker {record.broker_id} registered with epoch {record.broker_epoch} after"
                f" {known}"
            )
            self._add("I7", sentence, offset)
        self._broker_epochs[record.broker_id] = record.broker_epoch
        for other in self.image.brokers.values():
            if other.broker_id == record.broker_id:
                continue
            if other.root == record.root or other.directory_id == record.directory_id:
                sentence = (
                    f"brokers {other.broker_id} and {record.broker_id} are on one root,"
                    f" {record.root}"
                )
                self._add("I17", sentence, offset)

    def _replay(self, records: Sequence[Record]) -> None:
        """Replay the records that are not of one partition: names, settings, brokers."""
        if not records:
            return
        stamp = Stamp(time_ms=self._time_ms)
        batch = MetadataBatch(base_offset=Offset(0), stamp=stamp, records=tuple(records))
        self.image = replace(self.image, offset=Offset(0)).replay(batch)
        for record in records:
            if isinstance(record, TopicRecord):
                self.topic_names[record.topic_id] = record.topic
            elif isinstance(record, RemoveTopicRecord):
                for timeline in self.timelines.values():
                    timeline.is_removed |= timeline.key.topic_id == record.topic_id
            elif isinstance(record, RemovePartitionRecord) and record.key in self.timelines:
                self.timelines[record.key].is_removed = True

    def _check_members(self, key: PartitionKey, offset: int) -> None:
        register = self.register(key)
        if register is None:
            return
        for sentence in membership_flaws(register):
            self._add("I17", sentence, offset, key)
        unknown = set(register.replicas) - self.image.brokers.keys()
        if unknown:
            self._add("I17", f"replicas on {sorted(unknown)}, which is no broker", offset, key)
        if register.log_start_offset > register.high_watermark:
            sentence = (
                f"the log start {register.log_start_offset} is above the high watermark"
                f" {register.high_watermark}"
            )
            self._add("I16", sentence, offset, key)
            self._add("I9", sentence, offset, key)

    def _follows_gap(self, key: PartitionKey) -> bool:
        """Return, once a gap, whether a part that can't be read may have changed `key`."""
        is_unknown = self._gaps.get(key, self._gap_count) != self._gap_count
        self._gaps[key] = self._gap_count
        return is_unknown

    def _partition(self, key: PartitionKey, row: Row, offset: int) -> None:
        register = register_of(row)
        before = self.register(key)
        if before is not None and not self._follows_gap(key):
            if register.partition_epoch != before.partition_epoch + 1:
                sentence = (
                    f"partition epoch {register.partition_epoch} comes after"
                    f" {before.partition_epoch}"
                )
                self._add("I7", sentence, offset, key)
            self._check_step(key, before, register, offset)
        elif before is None:
            self._check_compaction(key, None, register, offset)
        self._gaps[key] = self._gap_count
        name = TopicPartition(self.topic_names.get(key.topic_id, str(row["topic"])), key.partition)
        timeline = self.timelines.setdefault(key, PartitionTimeline(key=key, name=name))
        timeline.take(register, offset)

    def _change(self, key: PartitionKey, row: Row, offset: int) -> None:
        before = self.register(key)
        is_known = not self._follows_gap(key)
        if before is None:
            if is_known and not self._gap_count:
                self._add("I7", "a change of a partition that is not there", offset, key)
            return
        after = changed(before, row)
        said = (int(row["leader_epoch"]), int(row["partition_epoch"]))
        if is_known and said != (after.leader_epoch, after.partition_epoch):
            sentence = (
                f"a change says that it leads to leader epoch {said[0]} and partition epoch"
                f" {said[1]}; it leads to {after.leader_epoch} and {after.partition_epoch}"
            )
            self._add("I7", sentence, offset, key)
        if is_known:
            self._check_step(key, before, after, offset)
        else:
            after = replace(after, leader_epoch=said[0], partition_epoch=said[1])
        self.timelines[key].take(after, offset)

    def _check_step(
        self, key: PartitionKey, before: Register, after: Register, offset: int
    ) -> None:
        if after.leader_epoch < before.leader_epoch:
            sentence = f"leader epoch {after.leader_epoch} comes after {before.leader_epoch}"
            self._add("I7", sentence, offset, key)
        elif after.leader_epoch == before.leader_epoch and after.leader != before.leader:
            sentence = (
                f"leader epoch {after.leader_epoch} has two leaders, {before.leader} and"
                f" {after.leader}"
            )
            self._add("I6", sentence, offset, key)
        if _is_completion(before, after) and after.leader_epoch == before.leader_epoch:
            sentence = "a reassignment was completed without a new leader epoch"
            self._add("I7", sentence, offset, key)
        if after.unclean_generation < before.unclean_generation:
            sentence = (
                f"unclean generation {after.unclean_generation} comes after"
                f" {before.unclean_generation}"
            )
            self._add("I8", sentence, offset, key)
        is_same_generation = after.unclean_generation == before.unclean_generation
        if is_same_generation and after.high_watermark < before.high_watermark:
            self._add("I8", _fell(before, after.high_watermark), offset, key)
        self._check_compaction(key, before, after, offset)

    def _check_compaction(
        self, key: PartitionKey, before: Register | None, after: Register, offset: int
    ) -> None:
        for sentence in compaction_flaws(before, after):
            self._add("I27", sentence, offset, key)

    def _high_watermark(self, key: PartitionKey, row: Row, offset: int) -> None:
        register = self.register(key)
        if register is None or self._gaps.get(key, self._gap_count) != self._gap_count:
            return
        seen = (row["leader_epoch"], row["partition_epoch"])
        if seen != (register.leader_epoch, register.partition_epoch):
            return  # replay ignores it, too: it was decided before the newest change
        mark, start = row["high_watermark"], row["log_start_offset"]
        if mark is not None and mark < register.high_watermark:
            self._add("I8", _fell(register, mark), offset, key)
        if mark is not None and mark > register.high_watermark:
            self._check_advance(key, register, row, offset)
            register = replace(
                register,
                high_watermark=mark,
                high_watermark_epoch=row["high_watermark_epoch"],
                high_watermark_chain=str(row["high_watermark_chain"]),
            )
        if start is not None:
            settings = None if self._gap_count else self.image.settings(key.topic_id)
            for sentence in log_start_flaws(register, start, settings):
                self._add("I16", sentence, offset, key)
            register = replace(register, log_start_offset=max(start, register.log_start_offset))
        self.timelines[key].advance(register)

    def _check_advance(self, key: PartitionKey, register: Register, row: Row, offset: int) -> None:
        mark, mark_epoch = row["high_watermark"], row["high_watermark_epoch"]
        try:
            setting = self.image.settings(key.topic_id).integer("min.insync.replicas")
        except KafkaOnSparkError:
            setting = 1
        minimum = min(setting, len(register.replicas))
        if len(register.isr) < minimum:
            sentence = (
                f"the high watermark moved to {mark} with {len(register.isr)} in-sync replicas,"
                f" of which {minimum} must be (min.insync.replicas)"
            )
            self._add("I9", sentence, offset, key)
        if mark > row["log_end_offset"]:
            sentence = (
                f"the high watermark {mark} is above the leader's log end {row['log_end_offset']}"
            )
            self._add("I9", sentence, offset, key)
        if row["high_watermark_chain"] is None:
            sentence = f"the high watermark moved to {mark} without the chain digest there"
            self._add("I23", sentence, offset, key)
        floor = register.high_watermark_epoch or 0
        if mark_epoch is None or not floor <= mark_epoch <= register.leader_epoch:
            sentence = (
                f"the record below the high watermark {mark} is said to be of leadership"
                f" {mark_epoch}, which is not from {floor} to {register.leader_epoch}"
            )
            self._add("I9", sentence, offset, key)


def _fell(before: Register, high_watermark: int) -> str:
    return (
        f"the high watermark fell from {before.high_watermark} to {high_watermark} within unclean"
        f" generation {before.unclean_generation}"
    )


def _is_completion(before: Register, after: Register) -> bool:
    """Return whether a reassignment that removes replicas completes here."""
    target = set(before.replicas) - set(before.removing_replicas)
    return bool(before.removing_replicas) and set(after.replicas) == target


_PARTITION_ROWS: Final[Mapping[str, Callable[[MetadataReplay, PartitionKey, Row, int], None]]] = {
    "PartitionRecord": MetadataReplay._partition,
    "PartitionChangeRecord": MetadataReplay._change,
    "HighWatermarkRecord": MetadataReplay._high_watermark,
}


def snapshot_flaw(replay: MetadataReplay, rows: Sequence[Row]) -> str | None:
    """Return, in a sentence, how a snapshot's partitions or pending requests differ from those of
    the log up to its offset; None: they don't."""
    asked = [row["request"] for row in rows if row["record_type"] == "AdminRequestRecord"]
    if asked != replay.requests.pending:
        pending = len(replay.requests.pending)
        return f"{len(asked)} requests wait in it, other than the {pending} that wait in the log"
    expected = {
        key: timeline.register
        for key, timeline in replay.timelines.items()
        if not timeline.is_removed
    }
    try:
        found = {
            PartitionKey(row["topic_id"], row["partition"]): register_of(row)
            for row in rows
            if row["record_type"] == "PartitionRecord"
        }
    except (TypeError, ValueError):
        return "a PartitionRecord in it lacks a value"
    for key in expected.keys() | found.keys():
        if expected.get(key) != found.get(key):
            topic = replay.topic_names.get(key.topic_id, key.topic_id)
            return f"partition {topic}-{key.partition} is not in it as in the log"
    return None
