"""Records → staged, for rows that name their topics: a task stages them topic by topic.

Apart from the staging of one topic, which knows no topic names.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from kafka_on_spark.base.errors import InvalidRecordError, ProtocolError
from kafka_on_spark.produce.multi_topic import NULL_TOPIC, StagedTopic
from kafka_on_spark.produce.records import input_batches
from kafka_on_spark.produce.stage_plan import StageOrder
from kafka_on_spark.produce.staging import (
    BUFFERED_BYTES_MAX,
    Stager,
    first_sticky,
    refusal_of,
)
from kafka_on_spark.store.roots import StorageOptions

TOPIC = "topic"


def stage_topics(
    order_of: Callable[[str], StageOrder],
    batches: Iterable[pa.RecordBatch],
    options: StorageOptions,
    *,
    task_number: int = 0,
) -> list[StagedTopic]:
    """Write a task's rows as segments of the topics that they name.

    `order_of` returns a topic's order, and is called once a topic. `batches` have the column
    `topic` and others of an append. A refusal is one answer without a topic.
    """
    orders: dict[str, StageOrder] = {}
    stagers: dict[str, Stager] = {}
    try:
        for number, batch in enumerate(batches):
            for name, rows in by_name(batch):
                if name not in stagers:
                    orders[name] = order_of(name)
                    stagers[name] = Stager(orders[name], options)
                stagers[name].add(rows, first_sticky(orders[name], task_number) + number)
                if sum(each.buffered_bytes for each in stagers.values()) >= BUFFERED_BYTES_MAX:
                    for each in stagers.values():
                        each.write_all()
        return [
            StagedTopic(
                topic=name,
                partition_count=len(orders[name].targets),
                rows=tuple(stager.finish()),
            )
            for name, stager in stagers.items()
        ]
    except ProtocolError as error:
        return [StagedTopic(topic="", partition_count=0, rows=(refusal_of(error),))]


def by_name(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of each topic, in their order, as INPUT_SCHEMA.

    Raises:
        InvalidRecordError: A row names no topic.
    """
    if not batch.num_rows:
        return
    names = batch.column(TOPIC)
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
