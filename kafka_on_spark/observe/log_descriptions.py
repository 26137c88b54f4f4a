"""The logs of replicas as people ask for them: what their files are, and how far they are
compacted. A task, one replica each; changes nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import LOST, BrokerId, Offset, PartitionKey
from kafka_on_spark.controller.compaction import is_compacted
from kafka_on_spark.controller.compaction_passes import leader_dirt
from kafka_on_spark.controller.upkeep_plan import plan_upkeep
from kafka_on_spark.log.merged_segment import MergedSegment
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.log.upkeep_work import UpkeepOrder, UpkeepPorts
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import Compaction, PartitionRegistration
from kafka_on_spark.observe.sizes import IS_LOST


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedPart:
    """How far a replica is compacted, in the words of Kafka's log cleaner.

    Attributes:
        cleaner_offset: Where the last round ended that the replica has finished: Kafka's checkpoint
            of the cleaner.
        target_offset: How far it is on the way to.
        tombstones_below: Below it tombstones may be gone.
        first_dirty_offset: Where what no decision compacts begins.
        first_uncleanable_offset: Where what may be compacted now ends.
        clean_bytes: Bytes before the dirty range.
        dirty_bytes: Bytes of the dirty range, between these two offsets.
        cleanable_ratio: Dirty bytes by all bytes below `first_uncleanable_offset`; compared with
            min.cleanable.dirty.ratio.
    """

    cleaner_offset: Offset
    target_offset: Offset
    tombstones_below: Offset
    first_dirty_offset: Offset
    first_uncleanable_offset: Offset
    clean_bytes: int
    dirty_bytes: int
    cleanable_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDescription:
    """One replica's log, by its table.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        broker_id: The broker that has the replica.
        is_leader: It leads.
        is_in_sync: It is in the ISR.
        log_start_offset: Of its log: of what was decided it may have applied a part.
        log_end_offset: Of its log.
        plain_segments: Files of one append each.
        plain_bytes: Bytes of these.
        merged_segments: Files of many appends, merged or compacted.
        merged_bytes: Bytes of these.
        record_count: Records in all of them.
        earliest_append_ms: When the oldest batch was appended, ms since 1970 UTC (of a merged
            segment, its newest batch); None: the log is empty.
        compacted: How far it is compacted; None: its topic is not, and never was.
        is_made: The replica was made: nothing may have been appended yet.
        error: Why the log could not be read; None: it was, or was not made.
    """

    topic: str
    partition: int
    broker_id: BrokerId
    is_leader: bool = False
    is_in_sync: bool = False
    log_start_offset: Offset = Offset(0)
    log_end_offset: Offset = Offset(0)
    plain_segments: int = 0
    plain_bytes: int = 0
    merged_segments: int = 0
    merged_bytes: int = 0
    record_count: int = 0
    earliest_append_ms: int | None = None
    compacted: CompactedPart | None = None
    is_made: bool = True
    error: str | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the segments in its log."""
        return self.plain_bytes + self.merged_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLogs:
    """One partition: what is decided of its logs, and each replica's log. `Cluster.history` has
    when and why it was decided.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        log_start_offset: The first offset that is kept.
        high_watermark: Where what is committed ends.
        compaction: How far its logs are to be compacted.
        replicas: The logs of its replicas, by broker.
    """

    topic: str
    partition: int
    log_start_offset: Offset
    high_watermark: Offset
    compaction: Compaction
    replicas: tuple[LogDescription, ...]


RunDescriptions = Callable[[Sequence[UpkeepOrder]], list[LogDescription]]
"""Describes replicas' logs, one for each order, in order."""


def describe_logs(
    image: MetadataImage, keys: Iterable[PartitionKey], run_descriptions: RunDescriptions
) -> list[LogDescription]:
    """Return the log of each replica of partitions, by partition and broker; one that can't be
    looked at has an error in place of figures."""
    keys = list(keys)
    orders = plan_upkeep(image, keys, is_dry_run=True)
    found = run_descriptions(orders) if orders else []
    seen = {(each.key, each.address.broker_id) for each in orders}
    missing = [
        _missing(image, key, partition, broker_id)
        for key in keys
        if (partition := image.partition(key)) is not None
        for broker_id in partition.replicas
        if (key, broker_id) not in seen
    ]
    return sorted((*found, *missing), key=lambda each: (each.topic, each.partition, each.broker_id))


def by_partition(
    image: MetadataImage, keys: Iterable[PartitionKey], logs: Iterable[LogDescription]
) -> list[PartitionLogs]:
    """Return partitions with their replicas' `logs`, by name."""
    of_name: dict[tuple[str, int], list[LogDescription]] = {}
    for log in logs:
        of_name.setdefault((log.topic, log.partition), []).append(log)
    return [
        PartitionLogs(
            topic=name.topic,
            partition=name.partition,
            log_start_offset=partition.log_start_offset,
            high_watermark=partition.high_watermark,
            compaction=partition.compaction,
            replicas=tuple(of_name.get(name, ())),
        )
        for name, key in sorted((image.name_of(key), key) for key in keys)
        if (partition := image.partition(key)) is not None
    ]


def _missing(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration, broker_id: BrokerId
) -> LogDescription:
    directory_id, error = partition.directory_of(broker_id), None
    if directory_id == LOST:
        error = IS_LOST
    elif directory_id is not None and broker_id in image.brokers:
        refused = image.brokers[broker_id].refused
        why = "does not answer" if refused is None else f"is {refused}"
        error = f"broker {broker_id} is fenced: its root {why}"
    elif directory_id is not None:
        error = f"broker {broker_id} is not registered"
    name = image.name_of(key)
    return LogDescription(
        topic=name.topic,
        partition=name.partition,
        broker_id=broker_id,
        is_leader=broker_id == partition.leader,
        is_in_sync=broker_id in partition.isr,
        is_made=directory_id is not None,
        error=error,
    )


def begun_description(order: UpkeepOrder, error: str | None = None) -> LogDescription:
    """Return what is known of a replica's log without its table, and why that can't be read."""
    broker_id = order.address.broker_id
    return LogDescription(
        topic=order.address.topic,
        partition=order.key.partition,
        broker_id=broker_id,
        is_leader=order.is_of_leader,
        is_in_sync=broker_id in order.partition.isr,
        error=error,
    )


def describe_log(order: UpkeepOrder, ports: UpkeepPorts) -> LogDescription:
    """Return one replica's log."""
    try:
        state = ports.replicas.open(order.address).load()
    except KafkaOnSparkError as error:
        return begun_description(order, error.message)
    compacted = _compacted_part(order, state, ports.clock.now_ms())
    return _of_state(replace(begun_description(order), compacted=compacted), state)


def _of_state(description: LogDescription, state: ReplicaState) -> LogDescription:
    merged = [each for each in state.batches if isinstance(each, MergedSegment)]
    plain = [each for each in state.batches if not isinstance(each, MergedSegment)]
    first = state.batches[0] if state.batches else None
    return replace(
        description,
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        plain_segments=sum(len(each.segments) for each in plain),
        plain_bytes=sum(each.size_bytes for each in plain),
        merged_segments=len(merged),
        merged_bytes=sum(each.size_bytes for each in merged),
        record_count=sum(each.record_count for each in state.batches),
        earliest_append_ms=None if first is None else first.appended_at_ms,
    )


def _compacted_part(order: UpkeepOrder, state: ReplicaState, now_ms: int) -> CompactedPart | None:
    settings, progress = order.settings, state.compaction
    if not is_compacted(settings) and not progress.compacted_below:
        return None
    lag_ms = settings.integer("min.compaction.lag.ms")
    dirt = leader_dirt(state, order.partition, min_lag_ms=lag_ms, now_ms=now_ms)
    return CompactedPart(
        cleaner_offset=progress.finished_below,
        target_offset=progress.compacted_below,
        tombstones_below=progress.tombstones_below,
        first_dirty_offset=dirt.first_dirty,
        first_uncleanable_offset=dirt.cleanable_below,
        clean_bytes=dirt.clean_bytes,
        dirty_bytes=dirt.dirty_bytes,
        cleanable_ratio=dirt.ratio,
    )
