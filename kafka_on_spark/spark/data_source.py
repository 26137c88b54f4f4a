"""``format("kafka_on_spark")``: reads for batches and streams; see `sink` for writes.

Thin over `service/source_options` and `service/stream_offsets`. Readers are made in planner
workers and pickled to executors, so they hold values only and open what they need.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafka_on_spark.errors import InvalidRequestError, UnknownTopicOrPartitionError
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.metadata_service import MetadataService
from kafka_on_spark.service.reading import ReadOrder
from kafka_on_spark.service.source_options import SourceOptions, parse_source
from kafka_on_spark.service.stream_offsets import (
    StreamOffset,
    checked,
    latest,
    plan,
    readable_topics,
    resolve,
)
from kafka_on_spark.spark.services import open_metadata
from kafka_on_spark.spark.sink import BatchWriter, StreamWriter
from kafka_on_spark.spark.tasks import replica_store
from kafka_on_spark.storage.reader import read_rows
from kafka_on_spark.storage.roots import StorageOptions, normalize

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter

_SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_SCHEMA_WITH_HEADERS = StructType([*_SCHEMA.fields, StructField("headers", ArrayType(_HEADER))])


class KafkaOnSparkDataSource(DataSource):
    """The data source; Spark finds it by its name."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._given: dict[str, str] = dict(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "kafka_on_spark"

    def schema(self) -> StructType:
        """Return the fixed schema of Spark's Kafka source."""
        has_headers = self._given.get("includeheaders", "false").lower() == "true"
        return _SCHEMA_WITH_HEADERS if has_headers else _SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a batch's reader; bad options fail here, before any task."""
        options = parse_source(self._given, is_stream=False)
        _check_schema(schema, self.schema())
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a stream's reader."""
        options = parse_source(self._given, is_stream=True)
        _check_schema(schema, self.schema())
        return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a batch's writer."""
        return BatchWriter(self._given, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> "DataSourceStreamWriter":
        """Return a stream's writer, a new one each batch."""
        return StreamWriter(self._given, schema, overwrite=overwrite)


def _check_schema(given: StructType, ours: StructType) -> None:
    if given.simpleString() != ours.simpleString():
        raise InvalidRequestError(
            "Kafka source has a fixed schema and cannot be set with a custom one"
        )


class PartitionRange(InputPartition):
    """A range of one partition: one task."""

    def __init__(self, order: ReadOrder) -> None:
        super().__init__(order.name.partition)
        self.order = order


class _Reading:
    """What both readers share: options, the image, and the executors' half."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._storage = StorageOptions(options.storage)

    def open_metadata(self) -> MetadataService:
        """Return the metadata of the cluster, caught up."""
        return open_metadata(normalize(self._options.cluster), self._storage)

    def ranges(
        self, image: MetadataImage, start: StreamOffset, end: StreamOffset
    ) -> list[PartitionRange]:
        """Return the tasks between two positions; only partitions with records become one."""
        orders = plan(
            image,
            start,
            end,
            is_data_loss_failed=self._options.is_data_loss_failed,
            client_rack=self._options.client_rack,
        )
        return [PartitionRange(order) for order in orders]

    def rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return a task's rows; where no task was planned, Spark asks for those of None."""
        if partition.value is None:
            return iter(())
        assert isinstance(partition, PartitionRange)
        return read_rows(
            partition.order,
            replica_store(self._storage),
            self._storage,
            has_headers=self._options.has_headers,
        )


class BatchReader(DataSourceReader):
    """Reads one consistent cut."""

    def __init__(self, options: SourceOptions) -> None:
        self._reading = _Reading(options)
        image = self._reading.open_metadata().image
        start = resolve(image, options.topics, options.starting, "startingOffsets")
        end = resolve(image, options.topics, options.ending, "endingOffsets")
        _check_order(image, start, end)
        self._ranges = self._reading.ranges(image, start, end)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks."""
        return self._ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows, on an executor."""
        return self._reading.rows(partition)


def _check_order(image: MetadataImage, start: StreamOffset, end: StreamOffset) -> None:
    for name, partitions in end.positions.items():
        for number, last in partitions.items():
            first = start.positions[name][number]
            if first > last:
                raise InvalidRequestError(
                    f"RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET: {name}-{number} would be"
                    f" read from {first} to {last}; its high watermark is"
                    f" {image.topic(name).partitions[number].high_watermark}"
                )


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is committed, batch by batch. Lives in one Python process per query run."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._reading = _Reading(options)
        self._metadata: MetadataService | None = None
        self._initial: dict[str, Any] | None = None
        self._available_now: StreamOffset | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Executors get a copy: they open what they need.
        return {**self.__dict__, "_metadata": None}

    def _image(self) -> MetadataImage:
        if self._metadata is None:
            self._metadata = self._reading.open_metadata()
            return self._metadata.image
        return self._metadata.catch_up()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query begins; asked twice, so decided once."""
        if self._initial is None:
            options = self._options
            offset = resolve(self._image(), options.topics, options.starting, "startingOffsets")
            self._initial = offset.to_json()
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of an AvailableNow query: what is committed now."""
        image = self._image()
        topics = readable_topics(
            image,
            self._options.topics,
            is_data_loss_failed=self._options.is_data_loss_failed,
        )
        self._available_now = resolve(image, topics, "latest", "endingOffsets")

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the committed ends, or `start` itself if nothing of the query has moved."""
        image = self._image()
        is_failed = self._options.is_data_loss_failed
        since = StreamOffset.from_json(start)
        if self._available_now is None:
            offset = latest(image, since, self._options.topics, is_data_loss_failed=is_failed)
            return start if offset is None else offset.to_json()
        read_to = checked(image, since, is_data_loss_failed=is_failed).to_json()
        end = self._available_now.to_json()
        return start if _positions(end) == _positions(read_to) else end

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the committed ends for the query's progress."""
        if self._metadata is None:
            return None
        try:
            image = self._metadata.image
            return resolve(image, self._options.topics, "latest", "endingOffsets").to_json()
        except UnknownTopicOrPartitionError:
            return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch; after a restart this is asked first."""
        return self._reading.ranges(
            self._image(), StreamOffset.from_json(start), StreamOffset.from_json(end)
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows, on an executor."""
        return self._reading.rows(partition)


def _positions(offset: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in offset.items() if not name.startswith("$")}
