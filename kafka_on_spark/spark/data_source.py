"""``format("kafka_on_spark")``: reads for batches and streams; see `sink` for writes.

This module has its name, its schema and its options; `source` reads. Spark creates it again in
each planner worker, so it holds the options and nothing else. It imports the reader or the writer
when Spark asks for one: a reader does not wait for the import of writers.
"""

import gc
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
)
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

from kafka_on_spark.base.errors import InvalidRequestError, KafkaOnSparkError
from kafka_on_spark.spark.executors import SentToExecutors, freeze_gc
from kafka_on_spark.spark.versions import check_stream, check_versions

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


class KafkaOnSparkDataSource(SentToExecutors, DataSource):
    """The data source; Spark finds it by its name, and pickles it with its readers."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        check_versions()
        freeze_gc()
        self._given: dict[str, str] = dict(options)
        # One instance, created when a query's run begins, creates the writers of all its batches.
        self._run = uuid4().hex

    @classmethod
    def name(cls) -> str:
        return "kafka_on_spark"

    def schema(self) -> StructType:
        has_headers = self._given.get("includeheaders", "false").lower() == "true"
        return _SCHEMA_WITH_HEADERS if has_headers else _SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a batch's reader; bad options fail here, before any task."""
        from kafka_on_spark.consume.options import parse_source
        from kafka_on_spark.spark.source import BatchReader

        options = parse_source(self._given, is_stream=False)
        _check_schema(schema, self.schema())
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a stream's reader; one that says why there is none where it is refused."""
        gc.disable()  # a new process, and its query waits for this import
        try:
            from kafka_on_spark.consume.options import parse_source
            from kafka_on_spark.spark.source import StreamReader
        finally:
            gc.enable()
        try:
            check_stream("read", "4.2")  # the first that tells a source where its query stands
            options = parse_source(self._given, is_stream=True)
            _check_schema(schema, self.schema())
            return StreamReader(options)
        except KafkaOnSparkError as error:
            return _RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from kafka_on_spark.spark.sink import BatchWriter

        return BatchWriter(self._given, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> "DataSourceStreamWriter":
        """Return a stream's writer, a new one each batch."""
        check_stream("write", "4.1")  # the first that gives a stream's sink Arrow's batches
        from kafka_on_spark.spark.sink import StreamWriter

        return StreamWriter(self._given, schema, overwrite=overwrite, run=self._run)


class _RefusedStream(SentToExecutors, DataSourceStreamReader):
    """Raises why it was refused once Spark asks for offsets.

    Spark hides an error of `streamReader` itself behind one of its own: that its reader is unbound.
    """

    def __init__(self, error: KafkaOnSparkError) -> None:
        self._error = error

    def initialOffset(self) -> NoReturn:  # noqa: N802
        raise self._error

    def latestOffset(self, start: object = None, limit: object = None) -> NoReturn:  # noqa: N802
        raise self._error

    def read(self, partition: object) -> NoReturn:
        raise self._error


def _check_schema(given: StructType, ours: StructType) -> None:
    if given.simpleString() != ours.simpleString():
        raise InvalidRequestError(
            "Kafka source has a fixed schema and cannot be set with a custom one"
        )
