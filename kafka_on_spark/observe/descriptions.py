"""What the metadata say of topics, brokers and replicas: as `kafka-topics --describe` has it, and
as a grid of partitions by brokers, in the same words for pictures and pages. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from kafka_on_spark.base.ids import (
    LOST,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionKey,
    TopicId,
    TopicPartition,
    time_of,
)
from kafka_on_spark.metadata.image import BrokerRegistration, MetadataImage, TopicImage
from kafka_on_spark.metadata.partition import Compaction, PartitionRegistration
from kafka_on_spark.metadata.records import BrokerState
from kafka_on_spark.metadata.reports import is_at_min_isr, is_under_min_isr, min_isr


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """A partition's log start, its high watermark, and its log end as last recorded."""

    log_start_offset: Offset
    high_watermark: Offset
    log_end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition, as `kafka-topics --describe` shows it.

    `stalled_on`: the fenced brokers that a move of it waits for; none if nothing waits.
    """

    partition: int
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    offsets: PartitionOffsets
    compaction: Compaction
    is_under_replicated: bool
    is_under_min_isr: bool
    stalled_on: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """One topic, its partitions in order; `configs` are the settings that it has of its own."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionDescription, ...]
    configs: Mapping[str, str]


def offsets_of(partition: PartitionRegistration) -> PartitionOffsets:
    return PartitionOffsets(
        log_start_offset=partition.log_start_offset,
        high_watermark=partition.high_watermark,
        log_end_offset=partition.known_log_end,
    )


def describe(image: MetadataImage, name: str) -> TopicDescription:
    """Return the description of a topic, or raise UnknownTopicOrPartitionError."""
    topic = image.topic(name)
    return TopicDescription(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            PartitionDescription(
                partition=number,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                replicas=partition.replicas,
                isr=tuple(sorted(partition.isr)),
                offsets=offsets_of(partition),
                compaction=partition.compaction,
                is_under_replicated=partition.is_under_replicated,
                is_under_min_isr=is_under_min_isr(image, topic.topic_id, partition),
                stalled_on=stalled_on(image, partition),
            )
            for number, partition in sorted(topic.partitions.items())
        ),
        configs=dict(topic.configs),
    )


def describe_brokers(image: MetadataImage) -> list[dict[str, Any]]:
    """Return a row for each broker, by id: what it leads, is the preferred leader of, has a replica
    of (created or not), and is in sync in. One pass over the partitions."""
    leaders: Counter[BrokerId] = Counter()
    preferred: Counter[BrokerId] = Counter()
    replicas: Counter[BrokerId] = Counter()
    in_sync: Counter[BrokerId] = Counter()
    lost: Counter[BrokerId] = Counter()
    for _, partition in image.partitions():
        if partition.leader is not None:
            leaders[partition.leader] += 1
        preferred[partition.replicas[0]] += 1
        replicas.update(partition.replicas)
        in_sync.update(partition.isr)
        lost.update(each for each in partition.replicas if partition.directory_of(each) == LOST)
    return [
        {
            "broker": broker_id,
            "state": broker.state.value,
            "rack": broker.rack,
            "root": broker.root,
            "broker_epoch": broker.broker_epoch,
            "directory_id": broker.directory_id,
            "leaders": leaders[broker_id],
            "preferred": preferred[broker_id],
            "replicas": replicas[broker_id],
            "in_sync": in_sync[broker_id],
            "lost": lost[broker_id],
            "writes": broker.refused and f"refused: {broker.refused}",
        }
        for broker_id, broker in sorted(image.brokers.items())
    ]


class Part(Enum):
    """A replica's part in its partition; the value is the word for people."""

    LEADER = "leader"
    IN_SYNC = "in sync"
    OUT_OF_SYNC = "out of sync"
    REASSIGNING = "reassigning"  # added or removed; a leader that is reassigned is shown as leader
    OFFLINE = "offline"  # its broker does not answer, or its disk was lost


@dataclass(frozen=True, slots=True)
class Cell:
    """One replica; `words` say all of it: "in sync, moving out"."""

    part: Part
    words: str
    is_leaving: bool = False
    is_coming: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """One partition: its replicas by broker, and its problems, the worst first."""

    name: TopicPartition
    cells: Mapping[BrokerId, Cell]
    leader: BrokerId | None
    high_watermark: Offset
    problems: tuple[str, ...]
    is_reassigning: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GridColumn:
    """One broker, and how many partitions it leads and has; without a state, an unregistered one
    that still has replicas."""

    broker_id: BrokerId
    rack: str | None
    state: BrokerState | None
    leaders: int
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The cluster, or some topics of it, after the last decision below one metadata offset: brokers
    in ascending order, partitions by topic and number."""

    cluster_id: str
    offset: Offset
    time: datetime
    columns: tuple[GridColumn, ...]
    rows: tuple[GridRow, ...]

    @property
    def counts(self) -> dict[str, int]:
        """The number of partitions, and of those with each problem, under the names to show."""
        return {
            "partitions": len(self.rows),
            "without leader": sum(row.leader is None for row in self.rows),
            "under min ISR": sum(_has(row, UNDER_MIN_ISR) for row in self.rows),
            "under-replicated": sum(_has(row, UNDER_REPLICATED) for row in self.rows),
            "reassigning": sum(row.is_reassigning for row in self.rows),
        }


NO_LEADER = "no leader"
UNDER_MIN_ISR = "under min ISR"
UNDER_REPLICATED = "under-replicated"


def _has(row: GridRow, problem: str) -> bool:
    return any(each.startswith(problem) for each in row.problems)


def grid_of(image: MetadataImage, topics: Iterable[str] | None = None) -> Grid:
    """Return the grid of all topics, or of `topics`; one that is not there raises
    UnknownTopicOrPartitionError."""
    chosen = image.topics.values() if topics is None else [image.topic(each) for each in topics]
    rows = [
        row_of(image, topic, number, partition)
        for topic in sorted(chosen, key=lambda each: each.name)
        for number, partition in sorted(topic.partitions.items())
    ]
    return grid_with(image, rows)


def grid_with(image: MetadataImage, rows: Sequence[GridRow]) -> Grid:
    return Grid(
        cluster_id=image.cluster_id or "",
        offset=image.offset,
        time=time_of(image.time_ms),
        columns=tuple(_columns(image, rows)),
        rows=tuple(rows),
    )


def _columns(image: MetadataImage, rows: Sequence[GridRow]) -> Iterable[GridColumn]:
    leaders = Counter(row.leader for row in rows)
    replicas = Counter(broker_id for row in rows for broker_id in row.cells)
    for broker_id in sorted({*image.brokers, *replicas}):
        broker = image.brokers.get(broker_id)
        yield GridColumn(
            broker_id=broker_id,
            rack=None if broker is None else broker.rack,
            state=None if broker is None else broker.state,
            leaders=leaders[broker_id],
            replicas=replicas[broker_id],
        )


def row_of(
    image: MetadataImage, topic: TopicImage, number: int, partition: PartitionRegistration
) -> GridRow:
    return GridRow(
        name=TopicPartition(topic.name, number),
        cells={
            broker_id: cell_of(partition, broker_id, image.brokers.get(broker_id))
            for broker_id in partition.replicas
        },
        leader=partition.leader,
        high_watermark=partition.high_watermark,
        problems=tuple(_problems(image, PartitionKey(topic.topic_id, number), partition)),
        is_reassigning=partition.is_reassigning,
    )


def cell_of(
    partition: PartitionRegistration, broker_id: BrokerId, broker: BrokerRegistration | None
) -> Cell:
    is_coming = broker_id in partition.adding_replicas
    is_leaving = broker_id in partition.removing_replicas
    is_in_sync = broker_id in partition.isr
    is_lost = partition.directory_of(broker_id) == LOST
    words = [Part.IN_SYNC.value if is_in_sync else Part.OUT_OF_SYNC.value]
    if partition.leader == broker_id:
        part, words = Part.LEADER, ["leader"]
    elif is_lost or broker is None or not broker.is_online:
        part = Part.OFFLINE
        words.insert(0, "disk lost" if is_lost else "broker does not answer")
    elif is_coming or is_leaving:
        part = Part.REASSIGNING
    else:
        part = Part.IN_SYNC if is_in_sync else Part.OUT_OF_SYNC
    if broker_id in partition.elr:
        words.append("may lead")
    words += ["moving in"] * is_coming + ["moving out"] * is_leaving
    return Cell(part, ", ".join(words), is_leaving=is_leaving, is_coming=is_coming)


def _problems(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration
) -> Iterable[str]:
    if partition.leader is None:
        yield NO_LEADER
    if is_under_min_isr(image, key.topic_id, partition):
        minimum = min_isr(image, key.topic_id, partition)
        yield f"{UNDER_MIN_ISR} ({len(partition.isr)} of {minimum})"
    if partition.is_under_replicated:
        wanted = len(partition.replicas) - len(partition.adding_replicas)
        yield f"{UNDER_REPLICATED} ({len(partition.isr)} of {wanted})"


class PartitionState(Enum):
    """One thing that may be wrong; several may be at once."""

    UNDER_REPLICATED = "under-replicated"  # fewer in sync than assigned
    UNDER_MIN_ISR = "under-min-isr"  # acks=all can't be kept
    AT_MIN_ISR = "at-min-isr"  # acks=all can't be kept once one more is lost
    UNAVAILABLE = "unavailable"  # no leader
    STALLED_MOVE = "stalled-move"  # it moves to a broker that is fenced


def states_of(
    image: MetadataImage, topic_id: TopicId, partition: PartitionRegistration
) -> frozenset[PartitionState]:
    """Return what is wrong with a partition; nothing if it is empty."""
    checks = {
        PartitionState.UNDER_REPLICATED: partition.is_under_replicated,
        PartitionState.UNDER_MIN_ISR: is_under_min_isr(image, topic_id, partition),
        PartitionState.AT_MIN_ISR: is_at_min_isr(image, topic_id, partition),
        PartitionState.UNAVAILABLE: not _is_online(image, partition.leader),
        PartitionState.STALLED_MOVE: bool(stalled_on(image, partition)),
    }
    return frozenset(state for state, holds in checks.items() if holds)


def stalled_on(image: MetadataImage, partition: PartitionRegistration) -> tuple[BrokerId, ...]:
    """Return the brokers that a move waits for and that are fenced: it goes on when they are back,
    or is cancelled."""
    if not partition.is_reassigning:
        return ()
    awaited = (each for each in partition.target_replicas if each not in partition.isr)
    return tuple(each for each in awaited if not _is_online(image, each))


def _is_online(image: MetadataImage, broker_id: BrokerId | None) -> bool:
    broker = None if broker_id is None else image.brokers.get(broker_id)
    return broker is not None and broker.is_online
