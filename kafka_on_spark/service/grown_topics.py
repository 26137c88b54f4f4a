"""Appends of producers to topics that were given more partitions (DESIGN §5).

A retry is known by its producer and sequence, partition by partition. On a topic that has grown
since the first try, the retry would be split otherwise: its records would stand twice, in two
partitions. So it is split as the first try was; and before anybody says that there was none,
every partition is fenced, so that no late commit of an older try can come after the answer, and
every replica that may lead next has followed there, so that none brings an older try back (a
record that its leader lacks is not committed, and yet may be if its holder is elected).
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from kafka_on_spark.errors import (
    CorruptLogError,
    KafkaStorageError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceError,
    ReplicaLostError,
)
from kafka_on_spark.ids import PartitionKey, TopicId
from kafka_on_spark.log.operations import fence_producer
from kafka_on_spark.log.producer_state import known_producer, split_of
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports import Clock, ReplicaAddress, ReplicaStore, SegmentStore
from kafka_on_spark.service.addresses import address_of
from kafka_on_spark.service.metadata_service import MetadataService
from kafka_on_spark.service.replicas import begin_leadership, commit_decided
from kafka_on_spark.service.replication import FetchOrder, fetch
from kafka_on_spark.service.stage_plan import ProducerRun, StageOrder

MakeReplicas = Callable[[Iterable[PartitionKey]], object]


@dataclass(frozen=True, slots=True)
class _Look:
    """A partition's leader, and its log as it was seen."""

    key: PartitionKey
    partition: PartitionRegistration
    leader: ReplicaAddress
    log: ReplicaState


class GrownTopics:
    """Says how appends are split, and remembers where this process's runs are fenced."""

    def __init__(
        self,
        metadata: MetadataService,
        replicas: ReplicaStore,
        segments: SegmentStore,
        clock: Clock,
        *,
        make_replicas: MakeReplicas,
        threads: Executor,
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._segments = segments
        self._clock = clock
        self._make_replicas = make_replicas
        self._threads = threads
        self._fenced: set[tuple[TopicId, int, str, int]] = set()

    def split(self, topic: TopicImage, run: ProducerRun) -> int:
        """Return by how many partitions an append of `run` is split.

        Raises:
            NotLeaderOrFollowerError: A partition has no leader to ask.
            NotEnoughReplicasError: A replica that may lead next can't be asked.
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
        looks = list(self._threads.map(lambda key: self._look(image, key, run, is_fenced), keys))
        found = _split(run, [look.log for look in looks])
        if found is not None:
            return found
        if not is_fenced:
            list(self._threads.map(lambda look: self._bury(image, look), looks))
            self._fenced.add(place)
        return count

    def _look(
        self, image: MetadataImage, key: PartitionKey, run: ProducerRun, is_fenced: bool
    ) -> _Look:
        """Return the leader's log, fenced for older tries."""
        leader, partition = _leader(image, key)
        replica = self._replicas.open(leader)
        begin_leadership(replica, partition)
        if is_fenced:
            return _Look(key, partition, leader, replica.load())
        log = commit_decided(
            replica,
            lambda state: fence_producer(
                state,
                run.producer_id,
                run.producer_epoch,
                leader_epoch=partition.leader_epoch,
            ),
        )
        return _Look(key, partition, leader, log)

    def _bury(self, image: MetadataImage, look: _Look) -> None:
        """Let whoever may lead next adopt this leadership: what its leader lacks is cut off.

        Whoever is out of the ISR adopts a leadership on its way back. A leader of no ISR, that
        proved itself from outside while all of these are lost, is the case that is left.
        """
        partition = look.partition
        for broker_id in sorted((partition.isr | partition.elr) - {look.leader.broker_id}):
            if not partition.is_made(broker_id):
                continue
            order = FetchOrder(
                key=look.key,
                partition=partition,
                leader=look.leader,
                follower=address_of(image, look.key, partition, broker_id),
                fetch_bytes_max=0,
                copy_bytes_max=0,
            )
            report = fetch(order, self._replicas, self._segments, self._clock, look.log).report
            seen = report.replica(broker_id)
            if seen is None or not seen.counts_in(partition.leader_epoch):
                raise NotEnoughReplicasError(
                    f"partition {look.key.partition}: the replica on broker {broker_id} can't be"
                    " asked, and may have a first try of this append: bring the broker back or"
                    " let the controller fence it, and append again"
                )


def split_as_before(
    order: StageOrder, replicas: ReplicaStore, producer_id: str, sequence: int
) -> StageOrder:
    """Return `order` for as many partitions as the append was split by that stands in a log.

    What a task can see without fencing anybody. The committer asks again, fenced, and compares.
    """
    for target in order.targets:
        if not target.has_leader:
            continue
        try:
            log = replicas.open(target.replicas[0]).load()
        except (CorruptLogError, KafkaStorageError, ReplicaLostError):
            continue  # not made yet, or away: the committer will say
        count = split_of(log, producer_id, sequence)
        if count is not None:
            return replace(order, targets=order.targets[:count])
    return order


def _leader(
    image: MetadataImage, key: PartitionKey
) -> tuple[ReplicaAddress, PartitionRegistration]:
    partition = image.partition(key)
    if partition is None or partition.leader is None or not partition.is_made(partition.leader):
        raise NotLeaderOrFollowerError(
            f"partition {key.partition} has no leader, and may have a first try of this"
            " append: bring its brokers back, and append again"
        )
    return address_of(image, key, partition, partition.leader), partition


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
