"""Stages the rows of a DataFrame in its own tasks, without a shuffle."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.produce.records import (
    HEADERS_KIND,
    IGNORED,
    check_columns,
    input_batches,
)
from kafka_on_spark.produce.staging import (
    StagedSegment,
    StagedTopic,
    StageOrder,
    decode_topic,
    encode_topic,
    stage_records,
)
from kafka_on_spark.spark.executors import ExecutorTask, clear_errors
from kafka_on_spark.store.roots import StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_CASTS: Final = {
    "key": "binary",
    "value": "binary",
    "headers": HEADERS_KIND,
    "timestamp": "timestamp",
    "partition": "int",
}
_ROW_DDL: Final = "task int, staged string"
_ROW_SCHEMA: Final = pa.schema([("task", pa.int32()), ("staged", pa.string())])


def staging_of_frame(frame: Any) -> Callable[..., list[StagedSegment]]:
    """Return what stages the rows of a DataFrame, whose columns are an append's, in its tasks;
    raise InvalidRequestError for one of Spark Connect, or if columns are not those."""
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        raise InvalidRequestError(
            "a Spark Connect DataFrame can't be appended (it has no mapPartitions): use a classic"
            " SparkSession, or collect it to an Arrow table first"
        )
    columns = [(field.name, kind_of(field.dataType)) for field in frame.schema.fields]
    check_columns(columns, has_topic=True)
    return partial(_stage_frame, frame)


def kind_of(data_type: "DataType") -> str:
    text = data_type.simpleString()
    return "string" if text.startswith(("varchar", "char")) else text


def _stage_frame(
    frame: "DataFrame", order: StageOrder, options: StorageOptions
) -> list[StagedSegment]:
    """Have a DataFrame's rows staged by its tasks; return the rows in task order.

    One job, collected once: every action on the result would run the tasks again.
    """
    kept = [name for name in frame.columns if name not in (*IGNORED, "topic")]
    columns = frame.select([frame[f"`{name}`"].cast(_CASTS[name]).alias(name) for name in kept])
    task = ExecutorTask(partial(_stage_task, order=order, options=options))
    with clear_errors():
        rows = columns.mapInArrow(task, _ROW_DDL).collect()
    ordered = sorted(rows, key=lambda row: row.task)
    return [each for row in ordered for each in decode_topic(row.staged).rows]


def _stage_task(
    batches: Iterator[pa.RecordBatch], *, order: StageOrder, options: StorageOptions
) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    context = TaskContext.get()
    task = context.partitionId() if context is not None else 0
    rows = stage_records(order, input_batches(batches), options, task_number=task)
    if rows:
        count = len(order.targets)
        staged = encode_topic(StagedTopic(topic="", partition_count=count, rows=tuple(rows)))
        yield pa.RecordBatch.from_pylist([{"task": task, "staged": staged}], schema=_ROW_SCHEMA)
