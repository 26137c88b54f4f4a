"""Waits until every partition of an expanded topic can tell how an append was split.

All partitions of the topic are asked, so all are waited for.
"""

from typing import Final

from kafka_on_spark.errors import (
    CommitError,
    KafkaOnSparkError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    ReplicaLostError,
    RootAccessDeniedError,
)
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.service.append.plan.expanded_topics import ExpandedTopics
from kafka_on_spark.service.append.plan.stage_plan import ProducerRun
from kafka_on_spark.service.append.waiting.append_watch import (
    METADATA_AWAY,
    AppendWatch,
    Wait,
    WatchPorts,
)
from kafka_on_spark.service.metadata.metadata_outage import ROOTS_AWAY

PAUSE_MS: Final = 200.0
# After these the topic is asked again. NotEnoughReplicasError: a replica that may lead next can't
# be reached; it may be back, or out of the ISR, at the next try.
_TRY_AGAIN: Final = (
    *ROOTS_AWAY,
    CommitError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    ReplicaLostError,
)


def wait_for_split(
    expanded: ExpandedTopics,
    topic: TopicImage,
    run: ProducerRun,
    ports: WatchPorts,
    *,
    may_decide: bool,
    timeout_ms: int,
    staged_count: int | None = None,
) -> int:
    """Return into how many partitions an append of `run` is split; wait for absent replicas.

    `staged_count`: as in `ExpandedTopics.split`.

    Raises: as `ExpandedTopics.split`, once the time is up.
    """
    watch = AppendWatch(ports, is_allowed=may_decide)
    deadline_ms = ports.clock.monotonic_ms() + timeout_ms
    waits: list[Wait] = []
    failure: KafkaOnSparkError | None = None
    while True:
        if failure is None or not any(watch.is_blocked(each.key) for each in waits):
            try:
                return expanded.split(topic, run, staged_count)
            except RootAccessDeniedError:
                raise
            except _TRY_AGAIN as error:
                failure, waits = error, _waits(ports.metadata.image, topic, error)
        if ports.clock.monotonic_ms() >= deadline_ms:
            raise failure
        watch.update(waits)
        ports.clock.sleep_ms(watch.pause_ms(PAUSE_MS))
        try:
            ports.metadata.catch_up()
        except RootAccessDeniedError:
            raise  # waiting gives no permission
        except METADATA_AWAY as error:
            failure = error


def _waits(image: MetadataImage, topic: TopicImage, error: KafkaOnSparkError) -> list[Wait]:
    keys = [PartitionKey(topic.topic_id, number) for number in topic.partitions]
    found = [(key, image.partition(key)) for key in keys]
    return [
        Wait(key=key, partition=partition, error=str(error))
        for key, partition in found
        if partition is not None
    ]
