"""Writes of ``format("kafka_on_spark")``: executors stage segments, the driver commits them.

Exactly once. A stream's query id and batch number are producer and sequence; Spark runs a batch
again after a crash, and the second commit finds the first. An abort deletes nothing, because
Spark calls it with the same messages after a commit whose outcome is unknown.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.service.append_results import AppendPlan
from kafka_on_spark.service.columns import check_columns
from kafka_on_spark.service.source_options import SinkOptions, parse_sink
from kafka_on_spark.service.stage_plan import decode_staged, encode_staged
from kafka_on_spark.spark.executors import SentToExecutors
from kafka_on_spark.spark.frames import kind_of
from kafka_on_spark.spark.services import Services
from kafka_on_spark.storage.records import input_batches
from kafka_on_spark.storage.roots import StorageOptions, normalize
from kafka_on_spark.storage.staging import stage_records

_QUERY_ID = "sql.streaming.queryId"


@dataclass
class Staged(WriterCommitMessage):
    """A task's rows, as JSON, and which query's they are."""

    task: int
    rows: list[str]
    query_id: str | None


def _check(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool, is_stream: bool
) -> SinkOptions:
    if overwrite:
        mode = "output mode complete" if is_stream else "save mode overwrite"
        raise InvalidRequestError(
            f"{mode} is not allowed: a log is only appended to; use mode append"
        )
    kinds = {field.name: kind_of(field.dataType) for field in schema.fields}
    options = parse_sink(given, is_stream=is_stream, has_topic="topic" in kinds)
    check_columns(kinds, has_topic=True)
    return options


def _open(options: SinkOptions) -> Services:
    return Services.open(normalize(options.cluster), StorageOptions(options.storage), None)


def _stage(plan: AppendPlan, options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Staged:
    context = TaskContext.get()
    assert context is not None
    task = context.partitionId()
    rows = stage_records(
        plan.order, input_batches(batches), StorageOptions(options.storage), task_number=task
    )
    query_id = context.getLocalProperty(_QUERY_ID)
    return Staged(task, [encode_staged(row) for row in rows], query_id)


def _commit(services: Services, plan: AppendPlan, messages: list[Staged]) -> None:
    ordered = sorted(messages, key=lambda message: message.task)
    rows = [decode_staged(row) for message in ordered for row in message.rows]
    if rows:
        services.appends.commit(plan, rows)


class BatchWriter(SentToExecutors, DataSourceArrowWriter):
    """Appends one DataFrame."""

    def __init__(self, given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        self._options = _check(given, schema, overwrite=overwrite, is_stream=False)
        services = _open(self._options)
        self._plan = services.appends.plan(
            self._options.topic,
            acks=self._options.acks,
            producer_id=self._options.producer_id,
            sequence=self._options.sequence,
        )
        services.close()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage a task's rows, on an executor."""
        return _stage(self._plan, self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what the tasks have staged, on the driver's host."""
        services = _open(self._options)
        try:
            _commit(services, self._plan, [each for each in messages if isinstance(each, Staged)])
        finally:
            services.close()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave everything as it is: files that no commit names harm nobody."""


class StreamWriter(SentToExecutors, DataSourceStreamArrowWriter):
    """Appends a query's batches, each once."""

    def __init__(self, given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        self._options = _check(given, schema, overwrite=overwrite, is_stream=True)
        services = _open(self._options)
        plan = services.appends.plan(self._options.topic, acks=self._options.acks)
        services.close()
        self._plan = replace(plan, order=replace(plan.order, has_producer=True))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage a task's rows, on an executor."""
        return _stage(self._plan, self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit a batch under its number; a batch that was committed before is found."""
        staged = [each for each in messages if isinstance(each, Staged) and each.rows]
        if not staged:
            return  # a batch without records, perhaps without a task
        query_id = next((each.query_id for each in staged if each.query_id), None)
        if query_id is None:
            raise InvalidRequestError(
                "a stream's batch came without its query id: set checkpointLocation"
            )
        services = _open(self._options)
        try:
            producer = services.producers.begin(f"spark-{query_id}", None, batchId)
            _commit(services, replace(self._plan, producer=producer), staged)
        finally:
            services.close()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Leave everything as it is: files that no commit names harm nobody."""
