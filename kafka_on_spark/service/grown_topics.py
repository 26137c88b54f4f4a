"""Appends of producers to topics that were given more partitions (DESIGN §5).

A retry is known by its producer and sequence, partition by partition. On a topic that has grown
since the first try, the retry would be split otherwise: its records would stand twice, in two
partitions. So it is split as the first try was; and before anybody says that there was none,
every partition is fenced, so that no late commit of an older try can come after the answer.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor

from kafka_on_spark.errors import NotLeaderOrFollowerError, OutOfOrderSequenceError
from kafka_on_spark.ids import PartitionKey, TopicId
from kafka_on_spark.log.operations import fence_producer
from kafka_on_spark.log.producer_state import known_producer, split_of
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports import ReplicaLog, ReplicaStore
from kafka_on_spark.service.addresses import address_of
from kafka_on_spark.service.metadata_service import MetadataService
from kafka_on_spark.service.replicas import begin_leadership, commit_decided
from kafka_on_spark.service.stage_plan import ProducerRun

MakeReplicas = Callable[[Iterable[PartitionKey]], object]


class GrownTopics:
    """Says how appends are split, and remembers where this process's runs are fenced."""

    def __init__(
        self,
        metadata: MetadataService,
        replicas: ReplicaStore,
        *,
        make_replicas: MakeReplicas,
        threads: Executor,
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._make_replicas = make_replicas
        self._threads = threads
        self._fenced: set[tuple[TopicId, int, str, int]] = set()

    def split(self, topic: TopicImage, run: ProducerRun) -> int:
        """Return by how many partitions an append of `run` is split.

        Raises:
            NotLeaderOrFollowerError: A partition has no leader to ask.
            OutOfOrderSequenceError: The sequence is not a new one, and stands nowhere.
            ProducerFencedError: A newer run of the producer has begun.
            And what tables raise.
        """
        count = len(topic.partitions)
        if not topic.is_grown:
            return count
        place = (topic.topic_id, count, run.producer_id, int(run.producer_epoch))
        is_fenced = place in self._fenced
        if not is_fenced:
            self._make_replicas([PartitionKey(topic.topic_id, n) for n in topic.partitions])
        image = self._metadata.image
        keys = [PartitionKey(topic.topic_id, number) for number in sorted(topic.partitions)]
        looks = self._threads.map(lambda key: self._look(image, key, run, is_fenced), keys)
        found = _split(run, list(looks))
        self._fenced.add(place)
        return count if found is None else found

    def _look(
        self, image: MetadataImage, key: PartitionKey, run: ProducerRun, is_fenced: bool
    ) -> ReplicaState:
        """Return the leader's log, fenced for older tries."""
        replica, partition = self._leader(image, key)
        begin_leadership(replica, partition)
        if is_fenced:
            return replica.load()
        return commit_decided(
            replica,
            lambda state: fence_producer(
                state,
                run.producer_id,
                run.producer_epoch,
                leader_epoch=partition.leader_epoch,
            ),
        )

    def _leader(
        self, image: MetadataImage, key: PartitionKey
    ) -> tuple[ReplicaLog, PartitionRegistration]:
        partition = image.partition(key)
        if partition is None or partition.leader is None or not partition.is_made(partition.leader):
            raise NotLeaderOrFollowerError(
                f"partition {key.partition} has no leader, and may have a first try of this"
                " append: bring its brokers back, and append again"
            )
        address = address_of(image, key, partition, partition.leader)
        return self._replicas.open(address), partition


def _split(run: ProducerRun, logs: Sequence[ReplicaState]) -> int | None:
    """Return how the append was split that stands in one of `logs`; None: it is a new one."""
    for log in logs:
        found = split_of(log, run.producer_id, run.sequence)
        if found is not None:
            return found
    last = max(known_producer(log, run.producer_id).sequence for log in logs)
    if run.sequence <= last:
        raise OutOfOrderSequenceError(
            f"producer {run.producer_id!r} sent sequence {run.sequence} after {last}: it stands"
            " nowhere, or retention has taken it, and the topic has more partitions since; give"
            " each append the next number"
        )
    return None
