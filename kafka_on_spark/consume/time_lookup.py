"""Looks up offsets for times in replicas, in threads of this process."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.consume.query_batch import TimeLookup, TimeQuestion
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.store.daemon_threads import DaemonThreads
from kafka_on_spark.store.storage_options import StorageOptions

LOOK_UP_THREADS: Final = 8


def time_lookup(
    now: MetadataImage, then: MetadataImage, options: StorageOptions, client_rack: str | None
) -> TimeLookup:
    """Return a lookup of records committed `then` that asks the replicas of `now`."""

    def answer(questions: Sequence[TimeQuestion]) -> list[Offset | None]:
        # In the function: the process that plans a stream needs no replicas.
        from kafka_on_spark.log.offset_lookup import look_up_offset
        from kafka_on_spark.log.reading import read_timestamps

        def one(question: TimeQuestion) -> Offset | None:
            found = look_up_offset(
                now,
                then,
                question.key,
                question.timestamp_ms * 1000,
                replicas=Worker(options).replicas,
                read_timestamps=partial(read_timestamps, options=options),
                client_rack=client_rack,
            )
            return None if found is None else found.offset

        with DaemonThreads(LOOK_UP_THREADS, "times") as threads:
            return list(threads.map(one, questions))

    return answer
