"""Reads of the metadata log: ``format("kafka_on_spark").option("metadata", "true")``.

Rows are records that are committed, in order, whichever voter leads or is away. The log is small:
one task reads all of a batch, a file at a time. The reader of a stream asks a majority how far the
log is committed; its tasks ask one voter that has that.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafka_on_spark.ids import Offset
from kafka_on_spark.query.offsets.metadata_offsets import (
    MetadataOffset,
    bounded_end,
    check_goes_on,
    ending_offset,
    starting_offset,
)
from kafka_on_spark.query.options.metadata_options import MetadataOptions
from kafka_on_spark.raft.log.raft_log import RaftLog
from kafka_on_spark.service.metadata.metadata_service import MetadataService
from kafka_on_spark.spark.format.source import warn_once
from kafka_on_spark.spark.run.executors import SentToExecutors
from kafka_on_spark.spark.run.opening import Awaits, metadata_log_of, open_metadata
from kafka_on_spark.storage.metadata.committed_rows import (
    ROW_SCHEMA,
    RowsOrder,
    decision_at,
    order_rows,
    read_rows,
)
from kafka_on_spark.storage.roots.root_lists import cluster_url
from kafka_on_spark.storage.roots.roots import StorageOptions

log = logging.getLogger(__name__)


def _spark_type(kind: pa.DataType) -> DataType:
    if pa.types.is_list(kind):
        return ArrayType(_spark_type(kind.value_type))
    if pa.types.is_timestamp(kind):
        return TimestampType()
    if pa.types.is_string(kind):
        return StringType()
    return LongType() if pa.types.is_int64(kind) else IntegerType()


METADATA_SCHEMA: Final = StructType(
    [StructField(field.name, _spark_type(field.type)) for field in ROW_SCHEMA]
)


class MetadataRows(InputPartition):
    """Rows of the metadata log: one task."""

    def __init__(self, order: RowsOrder) -> None:
        super().__init__(order.start)
        self.order = order


class _Reading:
    """What both readers share: options, and the executors' half."""

    def __init__(self, options: MetadataOptions) -> None:
        self.options = options
        self.storage = StorageOptions(options.storage)
        for warning in options.warnings:
            warn_once(warning)

    def open(self, awaits: Awaits) -> MetadataService:
        """Return the metadata of the cluster, caught up."""
        return open_metadata(cluster_url(self.options.cluster), self.storage, awaits=awaits)

    def tasks(self, metadata: MetadataService, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the task that reads the rows between two offsets; none, if there are none."""
        if start >= end:
            return []
        log.info("%d records of the metadata log are read, from %d on", end - start, start)
        return [MetadataRows(order_rows(metadata_log_of(metadata), start, end))]

    def rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows; if no task was planned, Spark asks once, with None."""
        if partition.value is None:
            return
        assert isinstance(partition, MetadataRows)
        yield from read_rows(partition.order, self.storage)


class MetadataBatchReader(SentToExecutors, DataSourceReader):
    """Reads what is committed as of now."""

    writes = False

    def __init__(self, options: MetadataOptions) -> None:
        self._reading = reading = _Reading(options)
        metadata = reading.open(Awaits.NOTHING)
        committed = metadata.image.offset
        start = starting_offset(options.starting, committed)
        end = ending_offset(options.ending, start, committed)
        self._tasks = reading.tasks(metadata, start, end)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the task, if there are rows."""
        return self._tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows, on an executor."""
        return self._reading.rows(partition)


class MetadataStreamReader(SentToExecutors, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is committed, batch by batch. Lives in one Python process per query run."""

    writes = False

    def __init__(self, options: MetadataOptions) -> None:
        self._options = options
        self._reading = _Reading(options)
        self._metadata: MetadataService | None = None
        self._initial: dict[str, Any] | None = None
        self._first_end: Offset | None = None
        self._available_now: Offset | None = None
        self._reported: MetadataOffset | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Executors get a copy: they open what they need.
        return {**self.__dict__, "_metadata": None}

    def _caught_up(self, awaits: Awaits = Awaits.CLUSTER) -> MetadataService:
        """Return the metadata, caught up; a stream waits for a quorum that is away, also at its
        start: a stream that has offsets has seen a cluster there."""
        if self._metadata is None:
            self._metadata = self._reading.open(awaits)
        else:
            self._metadata.catch_up_waiting()
        return self._metadata

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the option's bound; Trigger.Once asks for everything instead."""
        records_max = self._options.records_max
        return ReadAllAvailable() if records_max is None else ReadMaxRows(records_max)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query begins; Spark asks twice, so it is decided once. The first batch
        ends where the log does now, as that of a query of topics (`StreamReader`)."""
        if self._initial is None:
            metadata = self._caught_up(Awaits.ROOT)
            start = starting_offset(self._options.starting, metadata.image.offset)
            self._initial = _place(metadata, start).to_json()
            self._first_end = metadata.image.offset
        return self._initial

    def _held_end(self, since: MetadataOffset, committed: Offset) -> Offset:
        """Return where the first batch of a new query ends at most; `committed`: this is another
        batch."""
        first, self._first_end = self._first_end, None
        if first is None or self._initial is None:
            return committed
        return first if since == MetadataOffset.from_json(self._initial) else committed

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of an AvailableNow query: what is committed now."""
        self._available_now = self._caught_up(Awaits.ROOT).image.offset

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the next batch's end, or `start` itself if nothing was committed since."""
        metadata = self._caught_up()
        since = _checked(metadata, start)
        committed = metadata.image.offset
        self._reported = _place(metadata, committed)
        if self._available_now is not None:
            committed = min(committed, self._available_now)
        committed = min(committed, self._held_end(since, committed))
        if committed <= since.offset:
            return start
        is_limited = not isinstance(limit, ReadAllAvailable)
        end = bounded_end(
            since.offset,
            committed,
            self._options.records_max if is_limited else None,
            lambda offset: decision_at(
                metadata_log_of(metadata), offset, committed, self._reading.storage
            ),
        )
        return _place(metadata, end).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return how far the log is committed, before the bound, for the query's progress."""
        return None if self._reported is None else self._reported.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the task of a batch; after a restart Spark calls this first."""
        metadata = self._caught_up()
        first, last = _checked(metadata, start), _checked(metadata, end)
        return self._reading.tasks(metadata, first.offset, last.offset)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows, on an executor."""
        return self._reading.rows(partition)


def _log_of(metadata: MetadataService) -> RaftLog:
    view = metadata_log_of(metadata).confirmed
    assert view is not None, "it was read"
    return view.log


def _place(metadata: MetadataService, offset: Offset) -> MetadataOffset:
    return MetadataOffset.at(offset, metadata.image, _log_of(metadata))


def _checked(metadata: MetadataService, stored: dict[str, Any]) -> MetadataOffset:
    """Return a stored offset, if the query may go on from there.

    Raises: as `check_goes_on`, and as MetadataOffset.from_json.
    """
    offset = MetadataOffset.from_json(stored)
    check_goes_on(offset, metadata.image, _log_of(metadata))
    return offset
