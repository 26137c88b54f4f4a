"""I6, I7, I9 to I11, I15, I17, I23, I31: the metadata log, replayed by commit.

What else must hold of partitions' registrations is in `fsck.registers`. (I30, groups with members,
is of decisions alone: the simulation of groups holds it.)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kafka_on_spark.base.errors import CorruptLogError, KafkaOnSparkError
from kafka_on_spark.base.ids import Offset, PartitionKey, TopicId, TopicPartition
from kafka_on_spark.base.text import parse_json
from kafka_on_spark.fsck.findings import FindingList, Place
from kafka_on_spark.fsck.registers import (
    Flaw,
    PartitionTimeline,
    Register,
    Row,
    changed,
    compaction_flaws,
    isr_flaws,
    log_start_flaws,
    register_of,
    state_flaws,
    step_flaws,
)
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
    decode,
)

_REQUEST: Final = "AdminRequestRecord"
_RESULT: Final = "AdminResultRecord"
_CONTROLLER: Final = "ControllerRecord"


class MetadataRows(NamedTuple):
    """One commit of the metadata log: where it begins, and its records as rows."""

    base_offset: int
    rows: tuple[Row, ...]

    @property
    def end_offset(self) -> int:
        return self.base_offset + len(self.rows)

    @property
    def is_expired(self) -> bool:
        return self.rows[0].get("record_type") == ExpiredRecord.__name__


class MetadataReplay:
    """Replays the metadata log's commits in order; holds findings and partitions' timelines.

    Attributes:
        expired_end: Up to where records are gone.
        is_begun: It goes on from the log's beginning or from a snapshot.
        expired_epochs: By producer id, with which epochs it has expired.
    """

    def __init__(self) -> None:
        self.findings = FindingList(Place())
        self.expired_end = 0
        self._clear()

    def _clear(self) -> None:
        self.image = MetadataImage()
        self.timelines: dict[PartitionKey, PartitionTimeline] = {}
        self.topic_names: dict[TopicId, str] = {}
        self.end_offset = 0
        self.pending: dict[str, None] = {}
        self.expired_epochs: dict[str, list[int]] = {}
        self._producer_epochs: dict[str, int] = {}
        self._controller: tuple[int, str] = (-1, "")
        self._broker_epochs: dict[int, int] = {}
        self._time_ms = 0  # of the newest commit
        self.is_begun = True
        self._has_gap = False  # a part could not be read

    def register(self, key: PartitionKey) -> Register | None:
        timeline = self.timelines.get(key)
        return None if timeline is None else timeline.register

    def came_back(self) -> Mapping[str, Sequence[int]]:
        """Return with which epochs those ids have expired that came back since."""
        known, expired = self.image.producers, self.expired_epochs
        return {each: tuple(epochs) for each, epochs in expired.items() if each in known}

    def damage(self, sentence: str, **where: int | str) -> None:
        self._has_gap = True
        self.findings.add("I15", sentence, **where)

    def pass_over(self, batch: MetadataRows) -> None:
        """Take a commit whose records are gone, or that continues such commits: what comes later
        can be replayed only from a snapshot on."""
        self.end_offset = batch.end_offset
        if batch.is_expired:
            self.expired_end, self.is_begun = self.end_offset, False

    def begin_at(self, snapshot: MetadataRows) -> None:
        """Begin with the records of a snapshot that ends where the commits do that were passed
        over."""
        self._clear()
        self.end_offset = snapshot.base_offset
        self.take(snapshot)

    def not_checked(self) -> list[str]:
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
        self._check_goes_on(batch.base_offset)
        self._check_controller(batch)
        time_us = batch.rows[0].get("time") if batch.rows else None
        self._time_ms = time_us // 1000 if isinstance(time_us, int) else self._time_ms
        touched: dict[PartitionKey, int] = {}
        records: list[Record] = []
        for offset, row in enumerate(batch.rows, batch.base_offset):
            kind = row["record_type"]
            if kind not in _PARTITION_ROWS:
                if kind in (_REQUEST, _RESULT):
                    self._request(row, offset)
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
        self.end_offset = batch.end_offset
        for key, offset in touched.items():
            self._check_state(key, offset)

    def _check_goes_on(self, base_offset: int) -> None:
        if base_offset == self.end_offset:
            return
        # A part that can't be read has a finding of its own.
        if base_offset < self.end_offset or not self._has_gap:
            sentence = f"the log goes on at {base_offset}, not at {self.end_offset}"
            self.findings.add("I10", sentence, metadata_offset=base_offset)
        self._has_gap |= base_offset > self.end_offset

    def _check_controller(self, batch: MetadataRows) -> None:
        """Check that no deposed controller committed a decision; its own: `_check_claim`."""
        known = self._controller[0]
        for place, row in reversed(list(enumerate(batch.rows))):
            epoch = row["controller_epoch"]
            is_decision = row["record_type"] != _CONTROLLER
            if is_decision and isinstance(epoch, int) and epoch < known:
                sentence = f"committed under controller epoch {epoch}, though {known} was claimed"
                self._add("I7", f"{sentence} before", batch.base_offset + place)
                return

    def _request(self, row: Row, offset: int) -> None:
        text, result, is_request = row["request"], row.get("result"), row["record_type"] == _REQUEST
        if not isinstance(text, str) or not (is_request or isinstance(result, str)):
            self._add("I15", f"a {row['record_type']} lacks a value", offset)
            return
        if is_request and not _has(text, "id", str):
            self._add("I15", "a request is none: it has no id", offset)
        if not is_request and not _has(result, "code", int):
            self._add("I15", "a result is none: it has no code", offset)
        # A part that can't be read may have the request or its answer.
        if is_request == (text in self.pending) and not self._has_gap:
            asked = "a request is asked for that is pending already"
            answered = "a result answers no pending request: it was run before, or never"
            self._add("I11", asked if is_request else answered, offset)
        if is_request:
            self.pending[text] = None
        else:
            self.pending.pop(text, None)

    def _add(
        self, invariant: str, sentence: str, offset: int, key: PartitionKey | None = None
    ) -> None:
        name = None
        if key is not None:
            topic = self.topic_names.get(key.topic_id, key.topic_id)
            name = TopicPartition(str(topic), key.partition)
        self.findings.add(invariant, sentence, metadata_offset=offset, partition=name)

    def _add_all(self, flaws: Iterable[Flaw], offset: int, key: PartitionKey) -> None:
        for invariant, sentence in flaws:
            self._add(invariant, sentence, offset, key)

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
            self._check_claim(record, offset)
        elif isinstance(record, ProducerRecord):
            self._check_run(record, offset)
        elif isinstance(record, RemoveProducerRecord):
            self.expired_epochs.setdefault(record.producer_id, []).append(record.producer_epoch)

    def _check_claim(self, record: ControllerRecord, offset: int) -> None:
        claimed, (epoch, owner) = record.controller_epoch, self._controller
        if claimed < epoch:
            self._add("I7", f"controller epoch {claimed} comes after {epoch}", offset)
        elif claimed == epoch and record.controller_id != owner:
            owners = f"{owner} and {record.controller_id}"
            self._add("I6", f"controller epoch {epoch} has two owners, {owners}", offset)
        elif claimed > epoch:
            self._controller = (claimed, record.controller_id)

    def _check_run(self, record: ProducerRecord, offset: int) -> None:
        producer_id, epoch = record.producer_id, record.producer_epoch
        known = self._producer_epochs.get(producer_id, -1)
        is_renewal = record.renewed_at_ms is not None and epoch == known
        if epoch <= known and not is_renewal:
            sentence = f"a run of producer {producer_id!r} took epoch {epoch} after {known}"
            self._add("I11", sentence, offset)
        self._producer_epochs[producer_id] = epoch

    def _check_broker(self, record: BrokerRecord, offset: int) -> None:
        broker_id, epoch = record.broker_id, record.broker_epoch
        known = self._broker_epochs.get(broker_id, -1)
        if epoch <= known:
            sentence = f"broker {broker_id} registered with epoch {epoch} after {known}"
            self._add("I7", sentence, offset)
        self._broker_epochs[broker_id] = epoch
        for other in self.image.brokers.values():
            is_same = other.root == record.root or other.directory_id == record.directory_id
            if other.broker_id != broker_id and is_same:
                brokers = f"brokers {other.broker_id} and {broker_id}"
                self._add("I17", f"{brokers} are on one root, {record.root}", offset)

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

    def _check_state(self, key: PartitionKey, offset: int) -> None:
        register = self.register(key)
        if register is None:
            return
        self._add_all(state_flaws(register), offset, key)
        unknown = set(register.replicas) - self.image.brokers.keys()
        if unknown:
            self._add("I17", f"replicas on {sorted(unknown)}, which is no broker", offset, key)

    def _check_step(
        self, key: PartitionKey, before: Register | None, after: Register, offset: int
    ) -> None:
        if before is not None:
            self._add_all(step_flaws(before, after), offset, key)
            if after.unclean_generation > before.unclean_generation:
                before = None
        flaws = compaction_flaws(before, after, after.high_watermark, may_lack=self._has_gap)
        self._add_all(flaws, offset, key)

    def _partition(self, key: PartitionKey, row: Row, offset: int) -> None:
        register, before = register_of(row), self.register(key)
        is_next = before is None or register.partition_epoch == before.partition_epoch + 1
        if is_next or not self._has_gap:
            if before is not None and not is_next:
                epochs = f"{register.partition_epoch} comes after {before.partition_epoch}"
                self._add("I7", f"partition epoch {epochs}", offset, key)
            self._check_step(key, before, register, offset)
        name = TopicPartition(self.topic_names.get(key.topic_id, str(row["topic"])), key.partition)
        self.timelines.setdefault(key, PartitionTimeline(key=key, name=name)).take(register)

    def _change(self, key: PartitionKey, row: Row, offset: int) -> None:
        before = self.register(key)
        if before is None:
            if not self._has_gap:
                self._add("I7", "a change of a partition that is not there", offset, key)
            return
        after = changed(before, row)
        said = (int(row["leader_epoch"]), int(row["partition_epoch"]))
        is_next = said == (after.leader_epoch, after.partition_epoch)
        if self._has_gap and not is_next:  # a change before it was in the gap
            after = replace(after, leader_epoch=said[0], partition_epoch=said[1])
        else:
            if not is_next:
                sentence = (
                    f"a change says that it leads to leader epoch {said[0]} and partition epoch"
                )
                known = f"{said[1]}; it leads to {after.leader_epoch} and {after.partition_epoch}"
                self._add("I7", f"{sentence} {known}", offset, key)
            self._check_step(key, before, after, offset)
        self.timelines[key].take(after)

    def _high_watermark(self, key: PartitionKey, row: Row, offset: int) -> None:
        before = after = self.register(key)
        if before is None or after is None:
            return
        seen = (row["leader_epoch"], row["partition_epoch"])
        if seen != (before.leader_epoch, before.partition_epoch):
            return  # replay ignores it, too: it was decided before the newest change
        mark, start = row["high_watermark"], row["log_start_offset"]
        if mark is not None and mark < before.high_watermark:
            self._add_all(step_flaws(before, replace(before, high_watermark=mark)), offset, key)
        if mark is not None and mark > before.high_watermark:
            self._check_advance(key, before, row, offset)
            after = replace(
                after,
                high_watermark=mark,
                high_watermark_epoch=row["high_watermark_epoch"],
                high_watermark_chain=str(row["high_watermark_chain"]),
            )
        if start is not None:
            settings = None if self._has_gap else self.image.settings(key.topic_id)
            self._add_all(log_start_flaws(before, start, settings), offset, key)
            after = replace(after, log_start_offset=max(start, before.log_start_offset))
        self.timelines[key].advance(after)

    def _check_advance(self, key: PartitionKey, before: Register, row: Row, offset: int) -> None:
        mark, mark_epoch = row["high_watermark"], row["high_watermark_epoch"]
        try:
            min_isr = self.image.settings(key.topic_id).integer("min.insync.replicas")
        except KafkaOnSparkError:
            min_isr = 1
        self._add_all(isr_flaws(before, mark, min_isr), offset, key)
        if mark > row["log_end_offset"]:
            end = f"the leader's log end {row['log_end_offset']}"
            self._add("I9", f"the high watermark {mark} is above {end}", offset, key)
        if row["high_watermark_chain"] is None:
            sentence = f"the high watermark moved to {mark} without the chain digest there"
            self._add("I23", sentence, offset, key)
        floor = before.high_watermark_epoch or 0
        if mark_epoch is None or not floor <= mark_epoch <= before.leader_epoch:
            below = f"the record below the high watermark {mark} is said to be of leadership"
            sentence = f"{below} {mark_epoch}, which is not from {floor} to {before.leader_epoch}"
            self._add("I9", sentence, offset, key)


_PARTITION_ROWS: Final[Mapping[str, Callable[[MetadataReplay, PartitionKey, Row, int], None]]] = {
    "PartitionRecord": MetadataReplay._partition,
    "PartitionChangeRecord": MetadataReplay._change,
    "HighWatermarkRecord": MetadataReplay._high_watermark,
}


def _has(text: str | None, name: str, kind: type) -> bool:
    """Return whether a text is JSON of an object that has `name`, of that kind."""
    try:
        said: Any = parse_json(text or "")
    except ValueError:
        return False
    return isinstance(said, dict) and isinstance(said.get(name), kind)


def snapshot_flaw(replay: MetadataReplay, rows: Sequence[Row]) -> str | None:
    """Return, in a sentence, how a snapshot's partitions or pending requests differ from those of
    the log up to its offset; None: they don't."""
    asked = [row["request"] for row in rows if row["record_type"] == _REQUEST]
    if asked != list(replay.pending):
        pending = len(replay.pending)
        return f"{len(asked)} requests wait in it, other than the {pending} that wait in the log"
    expected = {key: each.register for key, each in replay.timelines.items() if not each.is_removed}
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
