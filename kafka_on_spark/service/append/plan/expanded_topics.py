"""How a producer's append is split on a topic that was given more partitions.

A retry is known by its producer and sequence, partition by partition. If the topic was expanded
since the first try, the retry would be split in another way: its records would stand twice, in two
partitions. So the retry is split as the first try was: each batch says how, so that a first try
which was staged before the topic grew stays as it is. Before an append counts as a first try,
every partition is fenced, so that no late commit of an older try can come after the answer. Every
replica that may lead next has also adopted that leadership, so that none brings an older try back:
a record that the leader lacks is not committed, but may be once its holder is elected.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Final

from kafka_on_spark.controller.commands.expiry import registered_producers
from kafka_on_spark.errors import (
    CorruptLogError,
    KafkaStorageError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceError,
    ReplicaLostError,
)
from kafka_on_spark.ids import PartitionKey, TopicId
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.producer_state import fence_producer, known_producer, split_of
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.ports.replicas import ReplicaStore, SegmentStore
from kafka_on_spark.service.append.plan.stage_plan import ProducerRun, StageOrder
from kafka_on_spark.service.metadata.metadata_roles import MetadataReader
from kafka_on_spark.service.replica.replica_operations import begin_leadership, commit_decided
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder, fetch

FENCES_MAX: Final = 10_000
"""Fenced runs that a process remembers. A process that lives for months meets any number."""

CreateReplicas = Callable[[Iterable[PartitionKey]], object]


@dataclass(frozen=True, slots=True)
class _LeaderLog:
    """A partition's leader, and its log as it was read."""

    key: PartitionKey
    partition: PartitionRegistration
    leader: ReplicaAddress
    log: ReplicaState


class ExpandedTopics:
    """Tells how appends are split, and remembers where this process's runs are fenced."""

    def __init__(
        self,
        metadata: MetadataReader,
        replicas: ReplicaStore,
        segments: SegmentStore,
        clock: Clock,
        *,
        create_replicas: CreateReplicas,
        threads: Executor,
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._segments = segments
        self._clock = clock
        self._create_replicas = create_replicas
        self._threads = threads
        self._fenced: set[tuple[TopicId, int, str, int]] = set()

    def split(self, topic: TopicImage, run: ProducerRun, staged_count: int | None = None) -> int:
        """Return into how many partitions an append of `run` is split: as its first try was.

        If it is the first one, into all partitions, or into the `staged_count` that its tasks have
        split it into already. A fence holds for further tries that are split alike; after one that
        was split otherwise the next try of the run is fenced anew.

        Raises:
            NotLeaderOrFollowerError: A partition has no leader to ask.
            NotEnoughReplicasError: A replica that may lead next can't be asked.
            OutOfOrderSequenceError: The sequence is not a new one, and stands nowhere.
            ProducerFencedError: A newer run of the producer has begun.
            And what tables raise.
        """
        count = len(topic.partitions)
        if not topic.is_expanded:
            return count
        fence = (topic.topic_id, count, run.producer_id, int(run.producer_epoch))
        is_split_alike = staged_count in (None, count)
        if not is_split_alike:
            self._fenced.discard(fence)
        is_fenced = fence in self._fenced
        if not is_fenced:
            self._create_replicas([PartitionKey(topic.topic_id, n) for n in topic.partitions])
        image = self._metadata.image
        keys = [PartitionKey(topic.topic_id, number) for number in sorted(topic.partitions)]
        logs = list(self._threads.map(lambda key: self._read(image, key, run, is_fenced), keys))
        found = _split(run, [each.log for each in logs])
        if found is not None:
            return found
        if not is_fenced:
            list(self._threads.map(lambda each: self._fence_successors(image, each), logs))
            if is_split_alike:
                if len(self._fenced) >= FENCES_MAX:
                    self._fenced.clear()  # each run that goes on is fenced once more
                self._fenced.add(fence)
        return count if staged_count is None else min(staged_count, count)

    def _read(
        self, image: MetadataImage, key: PartitionKey, run: ProducerRun, is_fenced: bool
    ) -> _LeaderLog:
        """Return the leader's log, fenced for older tries."""
        leader, partition = _leader(image, key)
        replica = self._replicas.open(leader)
        begin_leadership(replica, partition)
        if is_fenced:
            return _LeaderLog(key, partition, leader, replica.load())
        log = commit_decided(
            replica,
            lambda state: fence_producer(
                state,
                run.producer_id,
                run.producer_epoch,
                leader_epoch=partition.leader_epoch,
                registered=registered_producers(image),
            ),
        )
        return _LeaderLog(key, partition, leader, log)

    def _fence_successors(self, image: MetadataImage, read: _LeaderLog) -> None:
        """Have each replica that may lead next adopt this leadership, which cuts off what its
        leader lacks.

        A replica outside ISR and ELR adopts a leadership before it joins the ISR again. One case is
        left open: all of these are lost, and a replica from outside is elected because it proves
        to have all committed records.
        """
        partition = read.partition
        for broker_id in sorted((partition.isr | partition.elr) - {read.leader.broker_id}):
            if not partition.is_created(broker_id):
                continue
            order = FetchOrder(
                key=read.key,
                partition=partition,
                leader=read.leader,
                follower=address_of(image, read.key, partition, broker_id),
                fetch_bytes_max=0,
                copy_bytes_max=0,
                registered=registered_producers(image),
            )
            report = fetch(order, self._replicas, self._segments, self._clock, read.log).report
            seen = report.replica(broker_id)
            if seen is None or not seen.counts_in(partition.leader_epoch):
                raise NotEnoughReplicasError(
                    f"partition {read.key.partition}: the replica on broker {broker_id} can't be"
                    " asked, and may have a first try of this append: bring the broker back or"
                    " let the controller fence it, and append again"
                )


def split_as_before(
    order: StageOrder, replicas: ReplicaStore, producer_id: str, sequence: int
) -> StageOrder:
    """Return `order` for as many partitions as a try that stands in a log was split into.

    A task reads this without a fence. The driver asks again, behind a fence, and compares.
    """
    for target in order.targets:
        if not target.has_leader:
            continue
        try:
            log = replicas.open(target.replicas[0]).load()
        except (CorruptLogError, KafkaStorageError, ReplicaLostError):
            continue  # not created yet, or away: the driver will ask again
        count = split_of(log, producer_id, sequence)
        if count is not None:
            return replace(order, targets=order.targets[:count])
    return order


def _leader(
    image: MetadataImage, key: PartitionKey
) -> tuple[ReplicaAddress, PartitionRegistration]:
    partition = image.partition(key)
    if partition is None or partition.leader is None or not partition.is_created(partition.leader):
        raise NotLeaderOrFollowerError(
            f"partition {key.partition} has no leader, and may have a first try of this"
            " append: bring its brokers back, and append again"
        )
    return address_of(image, key, partition, partition.leader), partition


def _split(run: ProducerRun, logs: Sequence[ReplicaState]) -> int | None:
    """Return how the run's append was split if it stands in one of `logs`; None: it is new."""
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
