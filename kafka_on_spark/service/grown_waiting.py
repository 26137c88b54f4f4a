"""Asking a topic that has grown how an append is split, also while one of its leaders is away.

All of its partitions are asked, so all are waited for, as an append waits for those that it writes.
"""

from typing import Final

from kafka_on_spark.errors import (
    CommitError,
    KafkaOnSparkError,
    KafkaStorageError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    ReplicaLostError,
    RootAccessDeniedError,
)
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.service.append_watch import AppendWatch, Wait, WatchPorts
from kafka_on_spark.service.grown_topics import GrownTopics
from kafka_on_spark.service.stage_plan import ProducerRun

PAUSE_MS: Final = 200.0
_MAY_PASS: Final = (
    CommitError,
    KafkaStorageError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    ReplicaLostError,
)


def split_when_asked(
    grown: GrownTopics,
    topic: TopicImage,
    run: ProducerRun,
    ports: WatchPorts,
    *,
    may_decide: bool,
    timeout_ms: int,
) -> int:
    """Return by how many partitions an append of `run` is split; wait for replicas that are away.

    Raises: as `GrownTopics.split`, once the time is up.
    """
    watch = AppendWatch(ports, is_allowed=may_decide)
    deadline_ms = ports.clock.monotonic_ms() + timeout_ms
    waits: list[Wait] = []
    failure: KafkaOnSparkError | None = None
    while True:
        if failure is None or not any(watch.is_blocked(each.key) for each in waits):
            try:
                return grown.split(topic, run)
            except RootAccessDeniedError:
                raise
            except _MAY_PASS as error:
                failure, waits = error, _waits(ports.metadata.image, topic, error)
        if ports.clock.monotonic_ms() >= deadline_ms:
            raise failure
        watch.look(waits)
        ports.clock.sleep_ms(watch.pause_ms(PAUSE_MS))
        ports.metadata.catch_up()


def _waits(image: MetadataImage, topic: TopicImage, error: KafkaOnSparkError) -> list[Wait]:
    keys = [PartitionKey(topic.topic_id, number) for number in topic.partitions]
    found = [(key, image.partition(key)) for key in keys]
    return [
        Wait(key=key, partition=partition, error=str(error))
        for key, partition in found
        if partition is not None
    ]
