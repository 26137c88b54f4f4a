"""Records → staged: a task writes its records as segments to the roots of leader and ISR.

It splits its own rows by partition without a shuffle, digests, encodes and writes them, whole
columns at a time: no record goes through Python by itself. A task that runs twice leaves orphans
and nothing else, because every file has a name of its own.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_on_spark.errors import (
    REFUSES_WRITES,
    InvalidRecordError,
    KafkaOnSparkError,
    KafkaStorageError,
    MessageTooLargeError,
    ProtocolError,
    RootAccessDeniedError,
    RootFullError,
)
from kafka_on_spark.ids import BrokerId
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.service.append.plan.stage_plan import PartitionTarget, StagedSegment, StageOrder
from kafka_on_spark.storage import arrow_compute as pc
from kafka_on_spark.storage.calls.daemon_threads import DaemonThreads
from kafka_on_spark.storage.calls.file_limits import SEGMENT_BYTES_MAX
from kafka_on_spark.storage.hashing import (
    add_digests,
    partitions_of_keys,
    record_digests,
    sum_digests,
)
from kafka_on_spark.storage.replicas.replica_folders import flush_folder
from kafka_on_spark.storage.replicas.segments import (
    RECORD_SCHEMA,
    TIMESTAMP,
    new_segment,
    put_segment,
)
from kafka_on_spark.storage.roots.roots import StorageOptions

log = logging.getLogger(__name__)

BUFFERED_BYTES_MAX: Final = 192 * 1024 * 1024
"""Bytes of records that a task holds before it writes them: with a few encoded segments and Arrow's
own copies, a worker stays well under 1 GiB."""

RECORDS_BYTES_MAX: Final = SEGMENT_BYTES_MAX // 4
"""Bytes of uncompressed records in one segment: a batch of Arrow's may have gigabytes."""

YEAR_1_US: Final = -62_135_596_800_000_000
YEAR_10000_US: Final = 253_402_300_800_000_000
"""The range of timestamps that a table's statistics can have."""

INPUT_SCHEMA: Final = pa.schema([*RECORD_SCHEMA, pa.field("partition", pa.int32())])
"""Records to append: `timestamp` null means now, `partition` null means by key."""


def stage_records(
    order: StageOrder,
    batches: Iterable[pa.RecordBatch],
    options: StorageOptions,
    *,
    task_number: int = 0,
) -> list[StagedSegment]:
    """Write a task's records (INPUT_SCHEMA) as segments; a refusal is one row with its code."""
    stager = Stager(order, options)
    # Keyless records go to another partition with each append, and to the same one when a task
    # runs again.
    sticky = first_sticky(order, task_number)
    try:
        for number, batch in enumerate(batches):
            if batch.num_rows:
                stager.add(batch, sticky + number)
        staged = stager.finish()
    except ProtocolError as error:
        return [refusal_of(error)]
    log.debug("task %d has staged %d segments", task_number, len(staged))
    return staged


def first_sticky(order: StageOrder, task_number: int) -> int:
    """Return which partition a task's first keyless records go to (modulo their number)."""
    return task_number + order.now_us // 1000


def refusal_of(error: ProtocolError) -> StagedSegment:
    """Return a refusal as a task's row."""
    return StagedSegment(partition=-1, segment=None, error_code=error.code, error=error.message)


class Stager:
    """Records of one task, by partition, until they are written."""

    def __init__(self, order: StageOrder, options: StorageOptions) -> None:
        self._order = order
        self._options = options
        self._buffered: dict[int, list[pa.RecordBatch]] = {}
        self._digests: dict[int, int] = {}
        self._bytes: dict[int, int] = {}
        self._staged: list[StagedSegment] = []
        self._folders: dict[ReplicaAddress, None] = {}
        self._failed: dict[tuple[int, BrokerId], KafkaOnSparkError] = {}

    def add(self, batch: pa.RecordBatch, sticky: int) -> None:
        """Take a batch, whose keyless records go to partition `sticky` (modulo their number)."""
        check_sizes(batch, self._order.record_bytes_max)
        _check_headers(batch.column("headers"))
        numbers = self._partitions(batch, sticky)
        digests = record_digests(batch) if self._order.has_producer else None
        records = self._with_timestamps(batch).select(RECORD_SCHEMA.names)
        for number, part, part_digests in _split(records, numbers, digests):
            self._buffered.setdefault(number, []).append(part)
            self._bytes[number] = self._bytes.get(number, 0) + part.nbytes
            if part_digests is not None:
                digest = add_digests(self._digests.get(number, 0), sum_digests(part_digests))
                self._digests[number] = digest
        self._write_full()

    def _with_timestamps(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        column = batch.column("timestamp")
        _check_years(column)
        if column.null_count == 0:
            return batch
        now = pa.scalar(self._order.now_us, pa.int64()).cast(TIMESTAMP)
        place = batch.schema.get_field_index("timestamp")
        return batch.set_column(place, "timestamp", pc.fill_null(column, now))

    def _partitions(self, batch: pa.RecordBatch, sticky: int) -> npt.NDArray[np.int32]:
        """Return each record's partition: as given, else by key, else the sticky one."""
        count = len(self._order.targets)
        given, keys = batch.column("partition"), batch.column("key")
        if given.null_count == 0:
            all_given: npt.NDArray[np.int32] = given.to_numpy(zero_copy_only=False)
            _check_range(all_given, count)
            return all_given
        numbers = np.full(batch.num_rows, self._with_leader(sticky), np.int32)
        if self._order.has_producer and keys.null_count:
            values = pc.fill_null(batch.column("value"), b"")
            numbers = partitions_of_keys(values, count)
        if keys.null_count < batch.num_rows:
            by_key = partitions_of_keys(pc.fill_null(keys, b""), count)
            numbers = np.where(_is_valid(keys), by_key, numbers)
        if given.null_count < batch.num_rows:
            chosen = pc.fill_null(given, 0).to_numpy(zero_copy_only=False)
            numbers = np.where(_is_valid(given), chosen, numbers)
            _check_range(numbers, count)
        return numbers.astype(np.int32)

    def _with_leader(self, sticky: int) -> int:
        """Return the first partition with a leader, from `sticky` on."""
        count = len(self._order.targets)
        for step in range(count):
            number = (sticky + step) % count
            if self._order.targets[number].has_leader:
                return number
        return sticky % count

    def _write_full(self) -> None:
        full = [
            number
            for number, size in self._bytes.items()
            if size >= min(self._order.segment_bytes_max, BUFFERED_BYTES_MAX)
        ]
        if self.buffered_bytes >= BUFFERED_BYTES_MAX:
            full = list(self._bytes)
        self._write(full)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of records that are not written yet."""
        return sum(self._bytes.values())

    def write_all(self, *, is_last: bool = False) -> None:
        """Write all records that are held; `is_last`: no more will come."""
        self._write(list(self._bytes), is_last=is_last)

    def finish(self) -> list[StagedSegment]:
        """Write the rest; return all that was staged, durable.

        A replica that a segment could not be put to, or whose folder can't be flushed, does not
        count as a holder of the partition's segments.
        """
        self.write_all(is_last=True)
        failures = self._failed | {
            (address.key.partition, address.broker_id): failure
            for address, failure in zip(
                self._folders, _folder_threads().map(_flush, self._folders), strict=True
            )
            if failure is not None
        }
        return [_with_durable_holders(each, failures) for each in self._staged]

    def _write(self, numbers: Sequence[int], *, is_last: bool = False) -> None:
        """Encode one partition after the other, while threads write those before.

        A partition's last put flushes its folders, which makes the names of all its segments
        durable.
        """
        under_way: list[tuple[StagedSegment, Future[Any], bool]] = []
        for number in sorted(numbers):
            table = pa.Table.from_batches(self._buffered.pop(number))
            self._bytes.pop(number)
            target = self._order.targets[number]
            parts = _of_readable_size(table)
            is_whole = is_last and len(parts) == 1
            for part in parts:
                segment, content = new_segment(part, target.leader_epoch)
                staged = StagedSegment(
                    partition=number,
                    segment=segment,
                    payload_digest=self._digests.pop(number, 0),
                    has_keyless=part.column("key").null_count > 0,
                )
                put = _folder_threads().submit(
                    _put, target, segment, content, self._options, flushes_folder=is_whole
                )
                under_way.append((staged, put, is_whole))
        for staged, put, has_flushed_folders in under_way:
            failures = put.result()
            target = self._order.targets[staged.partition]
            for each in (*target.replicas, *target.others):
                failure = failures.get(each.broker_id)
                if failure is not None:  # perhaps of a flush, which is not trusted to succeed later
                    self._failed[staged.partition, each.broker_id] = failure
                if failures.get(each.broker_id, 1) is None:
                    if has_flushed_folders:
                        self._folders.pop(each, None)
                    else:
                        self._folders[each] = None
            self._staged.append(_with_holders(staged, failures))


def _of_readable_size(table: pa.Table) -> list[pa.Table]:
    """Return records in parts that are small enough for each reader of segments."""
    if table.nbytes <= RECORDS_BYTES_MAX or table.num_rows < 2:
        return [table]
    half = table.num_rows // 2
    return [*_of_readable_size(table.slice(0, half)), *_of_readable_size(table.slice(half))]


def _put(
    target: PartitionTarget,
    segment: Segment,
    content: Any,
    options: StorageOptions,
    *,
    flushes_folder: bool,
) -> dict[int, KafkaOnSparkError | None]:
    """Write a segment to the target's replicas; to its `others` if none of these is reached."""
    put = partial(
        put_segment,
        segment=segment,
        content=content,
        options=options,
        flushes_folder=flushes_folder,
    )
    failures = put(target.replicas)
    if all(failure is not None for failure in failures.values()):
        failures |= put(target.others)
    return failures


def _with_holders(
    staged: StagedSegment, failures: dict[int, KafkaOnSparkError | None]
) -> StagedSegment:
    holders = tuple(BrokerId(each) for each, failure in failures.items() if failure is None)
    if not holders:
        raise _reached_no_root(staged.partition, failures)
    return replace(staged, holders=holders)


def _reached_no_root(
    partition: int, failures: Mapping[int, KafkaOnSparkError | None]
) -> KafkaStorageError:
    reasons = "; ".join(f"broker {each}: {failure}" for each, failure in failures.items())
    said = f"the records of partition {partition} reached no root ({reasons})"
    if all(isinstance(each, RootAccessDeniedError) for each in failures.values()):
        return RootAccessDeniedError(
            f"{said}: append as a user who may write there, or with other credentials"
        )
    if all(isinstance(each, REFUSES_WRITES) for each in failures.values()):
        return RootFullError(f"{said}: make room there or mount it writable, and append again")
    return KafkaStorageError(f"{said}: bring a broker's disk back, and append again")


def _flush(address: ReplicaAddress) -> KafkaOnSparkError | None:
    try:
        flush_folder(address)
    except KafkaOnSparkError as error:
        return error
    return None


def _with_durable_holders(
    staged: StagedSegment, failures: Mapping[tuple[int, BrokerId], KafkaOnSparkError]
) -> StagedSegment:
    durable = tuple(each for each in staged.holders if (staged.partition, each) not in failures)
    if not durable:
        found: dict[int, KafkaOnSparkError | None] = {
            each: failures[staged.partition, each] for each in staged.holders
        }
        raise _reached_no_root(staged.partition, found)
    return replace(staged, holders=durable)


@lru_cache(maxsize=1)
def _folder_threads() -> DaemonThreads:
    """Return this process's threads for segments; each waits for single puts only."""
    return DaemonThreads(4, "stage")


def _is_valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return valid


def _check_range(numbers: npt.NDArray[Any], partition_count: int) -> None:
    outside = numbers[(numbers < 0) | (numbers >= partition_count)]
    if len(outside):
        raise InvalidRecordError(
            f"invalid partition given with record: {outside[0]} is not in the range"
            f" [0, {partition_count}); leave `partition` null to have it chosen by key"
        )


def _check_years(timestamps: pa.Array) -> None:
    if timestamps.null_count == len(timestamps):
        return
    span = pc.min_max(timestamps.cast(pa.int64()))
    if span["min"].as_py() < YEAR_1_US or span["max"].as_py() >= YEAR_10000_US:
        raise InvalidRecordError(
            "a record's timestamp is not in the years 1 to 9999: give one of these, or leave"
            " `timestamp` null"
        )


def _check_headers(headers: pa.Array) -> None:
    """Check that each header has a name. Source: RecordHeader, which refuses a null key."""
    if headers.null_count == len(headers):
        return
    each = headers.flatten()
    if each.null_count or pc.struct_field(each, [0]).null_count:
        raise InvalidRecordError(
            "a record has a header that is null, or whose name is null: give each header a name, or"
            " leave it out"
        )


def check_sizes(batch: pa.RecordBatch, record_bytes_max: int) -> None:
    """Check that no record is larger than `record_bytes_max`, counting key, value, headers.

    Raises:
        MessageTooLargeError: One is.
    """
    columns = [batch.column("key"), batch.column("value")]
    if batch.nbytes <= record_bytes_max:
        return  # then no single record is larger either
    sizes = sum(
        pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        for column in columns
    )
    sizes = sizes + _header_sizes(batch.column("headers"))
    largest = int(np.max(sizes))
    if largest > record_bytes_max:
        raise MessageTooLargeError(
            f"a record has {largest} bytes, more than max.message.bytes={record_bytes_max}:"
            " make it smaller, or raise the topic's setting"
        )


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


def _split(
    records: pa.RecordBatch, numbers: npt.NDArray[np.int32], digests: npt.NDArray[Any] | None
) -> Iterator[tuple[int, pa.RecordBatch, npt.NDArray[Any] | None]]:
    """Yield the records of each partition, in their order: a stable sort by partition number."""
    first = int(numbers[0])
    if (numbers == first).all():
        yield first, records, digests
        return
    # numpy sorts 16-bit numbers by radix, several times faster than 32-bit ones.
    is_narrow = int(numbers.max()) <= np.iinfo(np.int16).max
    order = np.argsort(numbers.astype(np.int16) if is_narrow else numbers, kind="stable")
    ordered = numbers[order]
    records = records.take(pa.array(order))
    digests = None if digests is None else digests[order]
    edges = np.flatnonzero(np.diff(ordered)) + 1
    bounds = [0, *edges.tolist(), len(ordered)]
    for start, end in pairwise(bounds):
        part = None if digests is None else digests[start:end]
        yield int(ordered[start]), records.slice(start, end - start), part
