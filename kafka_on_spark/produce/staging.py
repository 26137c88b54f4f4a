"""What the tasks of an append get, do and answer: records become files on roots of leader and ISR.

Their order is planned on an image, before anything is written: an append none of whose partitions
can have its acks is refused here. A task splits its own rows by partition without a shuffle,
digests, encodes and writes them, whole columns at a time: no record goes through Python by itself.
A task that runs twice leaves orphans and nothing else, because every file has a name of its own.
The rows that come back are in task order, which becomes the order of offsets.

Where rows name their topics, these are not known before the tasks run. Tasks and driver then plan
each topic on the same image, that of one metadata offset: so the driver finds what a task has
staged for a partition.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_on_spark.base.errors import (
    ERROR_BY_CODE,
    REFUSES_WRITES,
    CommitConflictError,
    InvalidRecordError,
    KafkaOnSparkError,
    KafkaStorageError,
    NotEnoughReplicasError,
    ProtocolError,
    RootAccessDeniedError,
    RootFullError,
)
from kafka_on_spark.base.ids import (
    BrokerId,
    LeaderEpoch,
    PartitionKey,
    ProducerEpoch,
    TopicId,
)
from kafka_on_spark.log.batch import Segment, WriterFence
from kafka_on_spark.log.hashing import (
    add_digests,
    partitions_of_keys,
    record_digests,
    sum_digests,
)
from kafka_on_spark.log.segments import (
    RECORD_SCHEMA,
    TIMESTAMP,
    Write,
    begin_puts,
    ended,
    new_segment,
)
from kafka_on_spark.log.state import ReplicaAddress, address_of
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.reports import is_under_min_isr, too_few_in_sync
from kafka_on_spark.produce.records import batches_of, input_batches, no_such_partition, too_large
from kafka_on_spark.store import arrow_compute as pc
from kafka_on_spark.store.local_files import SEGMENT_BYTES_MAX
from kafka_on_spark.store.roots import StorageOptions

log = logging.getLogger(__name__)

_Put = Callable[[Iterable[ReplicaAddress]], Mapping[BrokerId, Write]]
_Failures = Mapping[BrokerId, KafkaOnSparkError | None]

NULL_TOPIC = (
    "[KAFKA_NULL_TOPIC_IN_DATA] The Kafka message data sent to the producer contains a null topic."
    " Use the `topic` option for setting a default topic."
)


BUFFERED_BYTES_MAX: Final = 192 * 1024 * 1024
"""Bytes of records that a task holds before it writes them: with a few encoded segments and Arrow's
own copies, a worker stays well under 1 GiB."""

RECORDS_BYTES_MAX: Final = SEGMENT_BYTES_MAX // 4
"""Bytes of uncompressed records in one segment: a batch of Arrow's may have gigabytes."""

YEAR_1_US: Final = -62_135_596_800_000_000
YEAR_10000_US: Final = 253_402_300_800_000_000
"""The range of timestamps that a table's statistics can have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTarget:
    """Where one partition's segments go.

    Attributes:
        leader_epoch: For the files' names.
        replicas: The leader first, then the members of the ISR that get a copy at once; without a
            leader, the whole ISR.
        others: The rest of the ISR, written to if none of `replicas` can be reached, so that the
            next leader has the records; empty for acks=0, which waits for no error.
    """

    leader_epoch: LeaderEpoch
    replicas: tuple[ReplicaAddress, ...]
    others: tuple[ReplicaAddress, ...] = ()
    has_leader: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOrder:
    """One append's order to all its tasks.

    Attributes:
        targets: By partition number.
        has_producer: Segments get a payload digest, and keyless records are split by their
            values, so that a retry is split in the same way.
        now_us: Timestamp of records without one.
        record_bytes_max: Source: max.message.bytes.
        segment_bytes_max: Uncompressed records a segment. Source: segment.bytes.
        was_resized: The topic has another number of partitions than at its creation: a retry is
            split as its first try was.
    """

    targets: tuple[PartitionTarget, ...]
    has_producer: bool
    now_us: int
    record_bytes_max: int
    segment_bytes_max: int
    was_resized: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedSegment:
    """One row back: a staged segment, or a refusal.

    Attributes:
        partition: -1 with a refusal of all records.
        segment: The file; None with a refusal.
        payload_digest: Of its records; of files that are written at once the first has that of all.
        holders: Brokers whose roots have it.
    """

    partition: int
    segment: Segment | None
    payload_digest: int = 0
    has_keyless: bool = False
    holders: tuple[BrokerId, ...] = ()
    refusal: ProtocolError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRun:
    """A producer, the epoch of its run, and the number of one append.

    Attributes:
        producer_epoch: The epoch; a run of this process has taken it, or the caller has chosen it.
        is_next: The run is this process's own, and the number is above all that it has begun.
        is_only: No other run had the id since it was new, or came back.
    """

    producer_id: str
    producer_epoch: ProducerEpoch
    sequence: int
    is_next: bool = False
    is_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendPlan:
    """An append that was planned: what its tasks need, and what is needed after them.

    Attributes:
        topic_id: The topic's id; a topic created later under the same name has another.
        acks: "all", "1" or "0".
        expected_offsets: Log ends by partition, for a conditional append.
        timeout_ms: Source: delivery.timeout.ms.
        may_decide: The append may control where nobody does: auto.controller is not off.
        is_by_partition: Each partition's records are an append of their own, whose tries bring the
            same; those of other partitions may expire in between. Else all of them are one append.
    """

    topic_id: TopicId
    topic: str
    order: StageOrder
    acks: str
    producer: ProducerRun | None
    writer: WriterFence | None = None
    expected_offsets: Mapping[int, int] = field(default_factory=dict)
    timeout_ms: int
    may_decide: bool = True
    is_by_partition: bool = False


def plan_stage(
    image: MetadataImage,
    topic: TopicImage,
    *,
    acks: str,
    has_producer: bool,
    now_ms: int,
    needs_min_isr: bool = True,
) -> StageOrder:
    """Return the order for one append's tasks.

    `needs_min_isr`: an append none of whose partitions can have acks=all now is refused; else that
    is left to its commit.
    """
    settings, partitions = image.settings(topic.topic_id), sorted(topic.partitions.items())
    if (
        acks == "all"
        and needs_min_isr
        and all(is_under_min_isr(image, topic.topic_id, partition) for _, partition in partitions)
    ):
        number, partition = partitions[0]
        key = PartitionKey(topic.topic_id, number)
        raise NotEnoughReplicasError(too_few_in_sync(image, key, partition))
    return StageOrder(
        targets=tuple(
            _target(image, PartitionKey(topic.topic_id, number), partition, acks)
            for number, partition in partitions
        ),
        has_producer=has_producer,
        now_us=now_ms * 1000,
        record_bytes_max=settings.integer("max.message.bytes"),
        segment_bytes_max=settings.integer("segment.bytes"),
        was_resized=topic.was_resized,
    )


def _target(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration, acks: str
) -> PartitionTarget:
    leader = partition.leader
    led_by = [] if leader is None else [leader]
    addresses = []
    for broker_id in [*led_by, *sorted(partition.isr.difference(led_by))]:
        # Where a replica will be created, or was lost and may be taken back, its files may come
        # before its table.
        directory = partition.directory_of(broker_id)
        if not partition.is_created(broker_id):
            directory = image.brokers[broker_id].directory_id
        found = address_of(image, key, partition, broker_id, directory_id=directory)
        addresses.append(found)
    count = len(addresses) if acks == "all" or leader is None else 1
    return PartitionTarget(
        leader_epoch=partition.leader_epoch,
        replicas=tuple(addresses[:count]),
        others=() if acks == "0" else tuple(addresses[count:]),
        has_leader=leader is not None,
    )


def is_unreached(rows: Iterable[StagedSegment]) -> bool:
    """Return whether tasks refused, all because no root could be reached.

    That is no fault of the records, so acks=0, which waits for no errors, reports nothing.
    """
    refusals = [row.refusal for row in rows if row.refusal is not None]
    return bool(refusals) and all(isinstance(each, KafkaStorageError) for each in refusals)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedTopic:
    """What one task has staged for one topic.

    Attributes:
        topic: Its name; empty with a refusal of all records, which is the only row then.
        partition_count: Into how many partitions its records were split.
    """

    topic: str
    partition_count: int
    rows: tuple[StagedSegment, ...]


def encode_topic(staged: StagedTopic) -> str:
    """Return one answer as JSON: executors send data, never code. A refusal is code and text."""
    return json.dumps(asdict(staged), default=lambda error: [error.code, error.message])


def decode_topic(text: str) -> StagedTopic:
    """Return what `encode_topic` wrote."""
    fields = json.loads(text)
    rows = tuple(
        StagedSegment(
            **{
                **row,
                "segment": None if row["segment"] is None else Segment(**row["segment"]),
                "holders": tuple(row["holders"]),
                "refusal": row["refusal"] and _error_of(*row["refusal"]),
            }
        )
        for row in fields["rows"]
    )
    return StagedTopic(**{**fields, "rows": rows})


def _error_of(code: int, message: str) -> ProtocolError:
    kind: type[ProtocolError] = ERROR_BY_CODE.get(code, KafkaStorageError)
    return kind(message)


def by_topic(answers: Iterable[StagedTopic]) -> dict[str, StagedTopic]:
    """Return what all tasks, in task order, have staged for each topic."""
    merged: dict[str, StagedTopic] = {}
    for answer in answers:
        for row in answer.rows:
            if row.refusal is not None:
                raise row.refusal
        before = merged.get(answer.topic, replace(answer, rows=()))
        if before.partition_count != answer.partition_count:
            raise split_differently(answer.topic)
        merged[answer.topic] = replace(before, rows=(*before.rows, *answer.rows))
    return merged


def split_differently(topic: str) -> CommitConflictError:
    """Return the error for an append that was not split as in its first try, or not alike by all of
    its tasks."""
    return CommitConflictError(
        f"topic {topic!r} was given partitions, or lost some, and this append was not staged as its"
        " first try was, or not alike by all tasks; nothing of it is appended now: run it again"
    )


def stage_records(
    order: StageOrder,
    batches: Iterable[pa.RecordBatch],
    options: StorageOptions,
    *,
    task_number: int = 0,
    is_patient: bool = True,
) -> list[StagedSegment]:
    """Write a task's records (INPUT_SCHEMA) as segments. A refusal is a row with its code: the only
    one, if it is of all records. `is_patient`: as of `ended`."""
    stager = Stager(order, options, is_patient=is_patient)
    try:
        for number, batch in enumerate(batches):
            if batch.num_rows:
                stager.add(batch, task_number + number)
        staged = stager.finish()
    except ProtocolError as error:
        return [StagedSegment(partition=-1, segment=None, refusal=error)]
    log.debug("task %d has staged %d segments", task_number, len(staged))
    return staged


def staging_of(records: object) -> Callable[..., list[StagedSegment]]:
    """Return what stages the records that a caller gives (`batches_of`), once for each order."""
    is_once = isinstance(records, Iterable) and not hasattr(records, "__len__")
    given: object = list(records) if is_once else records  # type: ignore[call-overload]

    def stage(order: StageOrder, options: StorageOptions) -> list[StagedSegment]:
        return stage_records(order, batches_of(given), options)

    return stage


def stage_topics(
    order_of: Callable[[str], StageOrder],
    batches: Iterable[pa.RecordBatch],
    options: StorageOptions,
    *,
    task_number: int = 0,
) -> list[StagedTopic]:
    """Write a task's rows as segments of the topics that they name.

    `order_of` returns a topic's order, and is called once a topic. `batches` have the column
    `topic` and others of an append. A refusal of all is one answer without a topic.
    """
    orders: dict[str, StageOrder] = {}
    stagers: dict[str, Stager] = {}
    try:
        for number, batch in enumerate(batches):
            for name, rows in _by_topic(batch):
                if name not in stagers:
                    orders[name] = order_of(name)
                    stagers[name] = Stager(orders[name], options)
                stagers[name].add(rows, task_number + number)
                if sum(each.buffered_bytes for each in stagers.values()) >= BUFFERED_BYTES_MAX:
                    for each in stagers.values():
                        each.write()
        return [
            StagedTopic(
                topic=name,
                partition_count=len(orders[name].targets),
                rows=tuple(stager.finish()),
            )
            for name, stager in stagers.items()
        ]
    except ProtocolError as error:
        refused = StagedSegment(partition=-1, segment=None, refusal=error)
        return [StagedTopic(topic="", partition_count=0, rows=(refused,))]


def _by_topic(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of each topic, in their order, as INPUT_SCHEMA."""
    if not batch.num_rows:
        return
    names = batch.column("topic")
    if names.null_count:
        raise InvalidRecordError(NULL_TOPIC)
    encoded = names.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    [records] = input_batches([batch])
    if len(encoded.dictionary) == 1:
        yield encoded.dictionary[0].as_py(), records
        return
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        yield name, records.take(pa.array(np.flatnonzero(codes == code)))


class Stager:
    """Records of one task, by partition, until they are written. A partition whose records reach no
    root is refused alone. `is_patient`: as of `ended`.

    Attributes:
        buffered_bytes: Of records that are not written yet.
    """

    def __init__(
        self, order: StageOrder, options: StorageOptions, *, is_patient: bool = True
    ) -> None:
        self._order = order
        self._options = options
        self._is_patient = is_patient
        self._refused: dict[int, KafkaStorageError] = {}
        self._buffered: dict[int, list[pa.RecordBatch]] = {}
        self._digests: dict[int, int] = {}
        self._bytes: dict[int, int] = {}
        self.buffered_bytes = 0
        self._staged: list[StagedSegment] = []
        self._failed: dict[tuple[int, BrokerId], KafkaOnSparkError] = {}

    def add(self, batch: pa.RecordBatch, place: int) -> None:
        """Take the batch at a place in all tasks' rows. Keyless records go elsewhere with
        each batch and each append, and to the same one when a task runs again."""
        check_records(batch, self._order.record_bytes_max)
        numbers = self._partitions(batch, place + self._order.now_us // 1000)
        digests = record_digests(batch) if self._order.has_producer else None
        records, full = self._with_timestamps(batch).select(RECORD_SCHEMA.names), []
        for number, part, part_digests in _sorted_by_partition(records, numbers, digests):
            self._buffered.setdefault(number, []).append(part)
            self._bytes[number] = self._bytes.get(number, 0) + part.nbytes
            self.buffered_bytes += part.nbytes
            if self._bytes[number] >= self._order.segment_bytes_max:
                full.append(number)
            if part_digests is not None:
                digest = add_digests(self._digests.get(number, 0), sum_digests(part_digests))
                self._digests[number] = digest
        if self.buffered_bytes >= BUFFERED_BYTES_MAX:
            self.write()
        elif full:
            self.write(full)

    def _with_timestamps(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        column = batch.column("timestamp")
        if column.null_count < len(column):
            span = pc.min_max(column.cast(pa.int64()))
            if span["min"].as_py() < YEAR_1_US or span["max"].as_py() >= YEAR_10000_US:
                raise InvalidRecordError(
                    "a record's timestamp is not in the years 1 to 9999: give one of these, or"
                    " leave `timestamp` null"
                )
        if column.null_count == 0:
            return batch
        now = pa.scalar(self._order.now_us, pa.int64()).cast(TIMESTAMP)
        place = batch.schema.get_field_index("timestamp")
        return batch.set_column(place, "timestamp", pc.fill_null(column, now))

    def _partitions(self, batch: pa.RecordBatch, sticky: int) -> npt.NDArray[np.int32]:
        """Return each record's partition. Those that neither key nor caller chooses share the first
        one with a leader from `sticky` on; a producer's go by their values."""
        targets = self._order.targets
        count = len(targets)
        given, keys = batch.column("partition"), batch.column("key")
        numbers: npt.NDArray[np.int32] = np.zeros(batch.num_rows, np.int32)
        if count > 1 and keys.null_count and given.null_count:
            if self._order.has_producer:
                numbers = partitions_of_keys(pc.fill_null(batch.column("value"), b""), count)
            else:
                from_sticky = ((sticky + step) % count for step in range(count))
                led = (number for number in from_sticky if targets[number].has_leader)
                numbers += np.int32(next(led, sticky % count))
        numbers = choose_partitions(given, keys, count, numbers)
        for number in (int(numbers.min()), int(numbers.max())):
            if not 0 <= number < count:
                raise no_such_partition(number, count)
        return numbers

    def write(self, numbers: Iterable[int] | None = None) -> None:
        """Write the records that are held, of some partitions or of all. One partition is encoded
        after the other, while those before are written.

        What reaches none of a target's `replicas` is written to its `others`.
        """
        begun: list[tuple[StagedSegment, _Put]] = []
        writes = []
        targets = self._order.targets
        for number in sorted(self._bytes if numbers is None else numbers):
            table = pa.Table.from_batches(self._buffered.pop(number))
            self.buffered_bytes -= self._bytes.pop(number)
            if number in self._refused:
                continue
            for part in _of_readable_size(table):
                segment, content = new_segment(part, targets[number].leader_epoch)
                staged = StagedSegment(
                    partition=number,
                    segment=segment,
                    payload_digest=self._digests.pop(number, 0),
                    has_keyless=part.column("key").null_count > 0,
                )
                put: _Put = partial(
                    begin_puts, segment=segment, content=content, options=self._options
                )
                writes.append(put(targets[number].replicas))
                begun.append((staged, put))
        found = ended(writes, is_patient=self._is_patient)
        again = [place for place, failures in enumerate(found) if None not in failures.values()]
        others = []
        for place in again:
            staged, put = begun[place]
            others.append(put(targets[staged.partition].others))
        for place, of_others in zip(again, ended(others, is_patient=self._is_patient), strict=True):
            found[place] |= of_others
        for (staged, _), failures in zip(begun, found, strict=True):
            self._take(staged, failures)

    def _take(self, staged: StagedSegment, failures: _Failures) -> None:
        number, holders = staged.partition, []
        for broker_id, failure in failures.items():
            if failure is None:
                holders.append(broker_id)
            else:  # perhaps of a flush, which is not trusted to succeed later
                self._failed[number, broker_id] = failure
        self._staged.append(replace(staged, holders=tuple(holders)))
        if not holders:
            self._refused.setdefault(number, _reached_no_root(number, failures))

    def finish(self) -> list[StagedSegment]:
        """Write the rest; return all that was staged, durable, and the refusals.

        A replica that a segment could not be put to does not count as a holder of the partition's
        segments.
        """
        self.write()
        durable = []
        for each in self._staged:
            number = each.partition
            holders = tuple(of for of in each.holders if (number, of) not in self._failed)
            if not holders and number not in self._refused:
                failures = {of: self._failed[number, of] for of in each.holders}
                self._refused[number] = _reached_no_root(number, failures)
            durable.append(replace(each, holders=holders))
        refusals = [
            StagedSegment(partition=number, segment=None, refusal=error)
            for number, error in self._refused.items()
        ]
        return [*(each for each in durable if each.partition not in self._refused), *refusals]


def _of_readable_size(table: pa.Table) -> list[pa.Table]:
    """Return records in parts that are small enough for each reader of segments."""
    if table.nbytes <= RECORDS_BYTES_MAX or table.num_rows < 2:
        return [table]
    half = table.num_rows // 2
    return [*_of_readable_size(table.slice(0, half)), *_of_readable_size(table.slice(half))]


def _reached_no_root(partition: int, failures: _Failures) -> KafkaStorageError:
    reasons = "; ".join(f"broker {each}: {failure}" for each, failure in failures.items())
    said = f"the records of partition {partition} reached no root ({reasons})"
    if all(isinstance(each, RootAccessDeniedError) for each in failures.values()):
        return RootAccessDeniedError(
            f"{said}: append as a user who may write there, or with other credentials"
        )
    if all(isinstance(each, REFUSES_WRITES) for each in failures.values()):
        return RootFullError(f"{said}: append again then")
    return KafkaStorageError(f"{said}: bring a broker's disk back, and append again")


def choose_partitions(
    given: pa.Array, keys: pa.Array, partition_count: int, others: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """Return each record's partition: as given, else by its key as Kafka's default partitioner
    chooses it, else that of `others`."""
    numbers = others
    if keys.null_count < len(keys) and given.null_count:
        by_key: npt.NDArray[np.int32] | int = 0
        if partition_count > 1:
            by_key = partitions_of_keys(pc.fill_null(keys, b""), partition_count)
        numbers = np.where(pc.is_valid(keys).to_numpy(zero_copy_only=False), by_key, numbers)
    if given.null_count < len(given):
        chosen = pc.fill_null(given, 0).to_numpy(zero_copy_only=False)
        numbers = np.where(pc.is_valid(given).to_numpy(zero_copy_only=False), chosen, numbers)
    return numbers.astype(np.int32)


def check_records(batch: pa.RecordBatch, record_bytes_max: int) -> None:
    """Check that each header has a name, and that no record is larger than `record_bytes_max`,
    counting key, value, headers. Source: RecordHeader, which refuses a null key."""
    headers = batch.column("headers")
    if headers.null_count < len(headers):
        each = headers.flatten()
        if each.null_count or pc.struct_field(each, [0]).null_count:
            raise InvalidRecordError(
                "a record has a header that is null, or whose name is null: give each header a"
                " name, or leave it out"
            )
    if batch.nbytes <= record_bytes_max:
        return  # then no single record is larger either
    sizes = _header_sizes(headers)
    for name in ("key", "value"):
        sizes += pc.fill_null(pc.binary_length(batch.column(name)), 0).to_numpy(
            zero_copy_only=False
        )
    if (largest := int(np.max(sizes))) > record_bytes_max:
        raise too_large(largest, record_bytes_max)


def _header_sizes(headers: pa.Array) -> npt.NDArray[np.int64]:
    flat = headers.flatten()
    sizes = np.zeros(len(headers), np.int64)
    if len(flat) == 0:
        return sizes
    lengths = [pc.binary_length(pc.struct_field(flat, [part]).cast(pa.binary())) for part in (0, 1)]
    each = sum(
        pc.fill_null(length, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        for length in lengths
    )
    parents = pc.list_parent_indices(headers).to_numpy()
    np.add.at(sizes, parents, each)
    return sizes


def _sorted_by_partition(
    records: pa.RecordBatch, numbers: npt.NDArray[np.int32], digests: npt.NDArray[Any] | None
) -> Iterator[tuple[int, pa.RecordBatch, npt.NDArray[Any] | None]]:
    """Yield the records of each partition, in their order: a stable sort by partition number, in
    which a producer's records are already."""
    if (np.diff(numbers) < 0).any():
        # numpy sorts 16-bit numbers by radix, several times faster than 32-bit ones.
        is_narrow = int(numbers.max()) <= np.iinfo(np.int16).max
        order = np.argsort(numbers.astype(np.int16) if is_narrow else numbers, kind="stable")
        numbers, records = numbers[order], records.take(pa.array(order))
        digests = None if digests is None else digests[order]
    edges = np.flatnonzero(np.diff(numbers)) + 1
    for start, end in pairwise([0, *edges.tolist(), len(numbers)]):
        part = None if digests is None else digests[start:end]
        yield int(numbers[start]), records.slice(start, end - start), part
