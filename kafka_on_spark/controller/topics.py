"""What creating, deleting and configuring topics leads to, and their number of partitions.

Creating a topic of 10,000 partitions is one commit and no table: the first append creates tables.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kafka_on_spark.base.config import SETTINGS, Settings, check_settings, check_together
from kafka_on_spark.base.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    PolicyViolationError,
    TopicAlreadyExistsError,
)
from kafka_on_spark.base.ids import (
    INTERNAL_TOPICS,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    PartitionKey,
    ReplicaUuid,
    TopicId,
    check_mapping,
    check_topic_name,
    check_whole_number,
)
from kafka_on_spark.controller.partition_change import change_record
from kafka_on_spark.controller.placement import (
    RandomBelow,
    check_agrees,
    check_assignment,
    place_partitions,
)
from kafka_on_spark.groups.offsets import beginning
from kafka_on_spark.metadata.high_watermark import MIN_ISR
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import (
    ConfigRecord,
    OffsetCommitRecord,
    PartitionRecord,
    Record,
    RemovePartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kafka_on_spark.metadata.result import ControllerResult

NewUuid = Callable[[], str]
PARTITIONS_MAX = 1_000_000
RECORD_TREATMENTS = ("refuse", "drop")


def create_topic(
    image: MetadataImage,
    name: str,
    *,
    partition_count: int | None,
    replication_factor: int | None,
    replica_assignment: Mapping[int, Sequence[int]] | None,
    configs: Mapping[str, object],
    new_uuid: NewUuid,
    random_below: RandomBelow,
    cause: str,
) -> ControllerResult[TopicId]:
    """Decide a new topic: its partitions striped over the brokers, or as assigned.

    Numbers that are None are those of num.partitions and default.replication.factor. Groups whose
    members have subscribed to the name stand at the beginning.

    Raises:
        InvalidTopicError, TopicAlreadyExistsError, InvalidPartitionsError,
        InvalidReplicationFactorError, InvalidReplicaAssignmentError, InvalidConfigError.
        InvalidRequestError: An assignment was given, and numbers that are not its own.
    """
    check_topic_name(name)
    if name in INTERNAL_TOPICS:
        raise InvalidTopicError(
            f"topic {name!r} is internal to Kafka and can't be created: choose another name"
        )
    if name in image.topic_ids:
        raise TopicAlreadyExistsError(
            f"topic {name!r} exists already: choose another name, or delete it first"
        )
    check_collision(image, name)
    checked = check_settings(configs, topic_only=True)
    check_together(image.settings().over(checked), f"topic {name!r}")
    if replica_assignment is not None:
        assignment = check_assignment(image, replica_assignment)
        check_agrees(assignment, partition_count, replication_factor)
    else:
        settings = image.settings()
        if partition_count is None:
            partition_count = settings.integer("num.partitions")
        if replication_factor is None:
            replication_factor = settings.integer("default.replication.factor")
        _check_partition_count(partition_count)
        check_whole_number(replication_factor, "replication_factor", InvalidReplicationFactorError)
        assignment = place_partitions(
            image.brokers.values(),
            partition_count=partition_count,
            replication_factor=replication_factor,
            random_below=random_below,
        )
    topic_id = TopicId(new_uuid())
    records: list[Record] = [
        TopicRecord(
            topic=name, topic_id=topic_id, first_partition_count=len(assignment), cause=cause
        )
    ]
    records.extend(
        ConfigRecord(topic_id=topic_id, config_name=setting, config_value=value, cause=cause)
        for setting, value in checked.items()
    )
    partitions = [
        _partition_record(image, name, topic_id, number, replicas, new_uuid, cause)
        for number, replicas in enumerate(assignment)
    ]
    records += partitions
    records += _beginnings(image, name, partitions)
    return ControllerResult(records, topic_id)


def _beginnings(
    image: MetadataImage, name: str, partitions: Sequence[PartitionRecord]
) -> Iterator[OffsetCommitRecord]:
    """Yield where groups stand whose members wait for a topic of that name: it was deleted."""
    for group, known in sorted(image.consumer_groups.items()):
        if any(name in each.subscribed_topics for each in known.members.values()):
            for each in partitions:
                yield beginning(group, name, each.key, each.registration)


def _check_partition_count(count: int) -> None:
    check_whole_number(count, "partitions", InvalidPartitionsError)
    if not 1 <= count <= PARTITIONS_MAX:
        raise InvalidPartitionsError(
            f"{count!r} partitions are not allowed: give from 1 to {PARTITIONS_MAX}"
        )


def check_collision(image: MetadataImage, name: str) -> None:
    """Check that no topic's name differs only by '.' and '_', which are one in Kafka's metrics.

    Source: org.apache.kafka.common.internals.Topic.hasCollision.

    Raises:
        InvalidTopicError: One has.
    """
    shown = name.replace(".", "_")
    for other in image.topic_ids:
        if other.replace(".", "_") == shown:
            raise InvalidTopicError(
                f"topic name {name!r} is not allowed beside topic {other!r}, of which only '.' and"
                " '_' tell it apart: choose another name"
            )


def add_partitions(
    image: MetadataImage,
    name: str,
    *,
    to: int,
    replica_assignment: Mapping[int, Sequence[int]] | None = None,
    new_uuid: NewUuid,
    random_below: RandomBelow,
    cause: str,
) -> ControllerResult[int]:
    """Decide that a topic has `to` partitions; answer: how many are new.

    The new partitions have as many replicas as the first one, striped like a new topic's, or on
    the brokers that are assigned to each. Records in the topic stay where they are, so later
    records of a key may go to another partition. Where partitions were removed before, the new ones
    begin in an unclean generation that none of their numbers had: offsets and moments that somebody
    knows of a removed one are not theirs. Source: ReplicationControlManager.createPartitions.

    Raises:
        UnknownTopicOrPartitionError, InvalidPartitionsError, InvalidReplicationFactorError,
        InvalidReplicaAssignmentError.
    """
    topic = image.topic(name)
    count = len(topic.partitions)
    check_whole_number(to, "to", InvalidPartitionsError)
    if not count < to <= PARTITIONS_MAX:
        raise InvalidPartitionsError(
            f"topic {name!r} has {count} partitions and can't be given {to!r}: give more than it"
            f" has, up to {PARTITIONS_MAX}; remove_partitions takes some away"
        )
    factor = len(topic.partitions[0].replicas)
    if replica_assignment is not None:
        assignment = check_assignment(
            image, replica_assignment, range(count, to), replication_factor=factor
        )
    else:
        assignment = place_partitions(
            image.brokers.values(),
            partition_count=to - count,
            replication_factor=factor,
            random_below=random_below,
        )
    # Each unclean election is a record of the log: no generation is as high as the log's end.
    generation = int(image.offset) if topic.was_shrunk else 0
    records: list[Record] = [
        _partition_record(
            image, name, topic.topic_id, number, replicas, new_uuid, cause, generation
        )
        for number, replicas in enumerate(assignment, count)
    ]
    return ControllerResult(records, to - count)


def remove_partitions(
    image: MetadataImage, name: str, *, to: int, records: str, cause: str
) -> ControllerResult[int]:
    """Decide that a topic keeps its first `to` partitions only; answer: how many are removed.

    Kafka can't do this. `records` says how to treat the records of the removed partitions: "refuse"
    if there are any, or "drop" them. The last partitions are removed first in the log, so that
    their numbers never have a gap.

    Raises:
        UnknownTopicOrPartitionError: There is no such topic.
        InvalidPartitionsError: It has not more than `to`, or `to` is below 1.
        InvalidRequestError: `records` is neither word.
        PolicyViolationError: A partition to remove has records, which are not to be dropped.
    """
    topic = image.topic(name)
    count = len(topic.partitions)
    if records not in RECORD_TREATMENTS:
        raise InvalidRequestError(
            f"can't treat the records of removed partitions by {records!r}: 'refuse' unless the"
            " partitions are empty, or 'drop' the records"
        )
    check_whole_number(to, "to", InvalidPartitionsError)
    if not 1 <= to < count:
        raise InvalidPartitionsError(
            f"topic {name!r} has {count} partitions and can't be left {to!r}: give fewer than it"
            " has, and at least 1"
        )
    going = range(count - 1, to - 1, -1)
    kept = {number: size for number in going if (size := _record_count(topic.partitions[number]))}
    if kept and records == "refuse":
        most = max(kept)
        raise PolicyViolationError(
            f"partition {most} of topic {name!r} has {kept[most]} records, and"
            f" {len(kept)} of {len(going)} partitions to remove are not empty: delete their"
            " records first, or say that they are to be dropped"
        )
    gone = [
        RemovePartitionRecord(topic=name, topic_id=topic.topic_id, partition=number, cause=cause)
        for number in going
    ]
    return ControllerResult(gone, len(gone))


def _record_count(partition: PartitionRegistration) -> int:
    """Return how many offsets a partition has, by the log end that is registered."""
    end = max(partition.high_watermark, partition.log_end_offset)
    return end - partition.log_start_offset


def _partition_record(
    image: MetadataImage,
    name: str,
    topic_id: TopicId,
    number: int,
    replicas: tuple[BrokerId, ...],
    new_uuid: NewUuid,
    cause: str,
    unclean_generation: int = 0,
) -> PartitionRecord:
    return PartitionRecord(
        topic=name,
        topic_id=topic_id,
        partition=number,
        registration=new_partition(image, replicas, new_uuid, unclean_generation),
        cause=cause,
    )


def new_partition(
    image: MetadataImage,
    replicas: tuple[BrokerId, ...],
    new_uuid: NewUuid,
    unclean_generation: int,
) -> PartitionRegistration:
    """Return a new partition: all active replicas in sync, the first of them leading."""
    active = [each for each in replicas if image.is_eligible(each)]
    return PartitionRegistration(
        replicas=replicas,
        replica_uuids=tuple(ReplicaUuid(new_uuid()) for _ in replicas),
        directories=(None,) * len(replicas),
        isr=frozenset(active),
        leader=active[0],
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        unclean_generation=unclean_generation,
    )


def delete_topic(image: MetadataImage, name: str, *, cause: str) -> ControllerResult[TopicId]:
    """Decide that a topic is deleted: at once for users; its tables are removed afterwards.

    Raises:
        UnknownTopicOrPartitionError: There is no such topic.
    """
    topic_id = image.topic(name).topic_id
    return ControllerResult([RemoveTopicRecord(topic_id=topic_id, cause=cause)], topic_id)


def alter_configs(
    image: MetadataImage, name: str, configs: Mapping[str, object | None], *, cause: str
) -> ControllerResult[None]:
    """Decide a topic's settings; None removes one, and the cluster's holds again.

    Raises:
        UnknownTopicOrPartitionError, InvalidConfigError.
    """
    topic = image.topic(name)
    records = _config_records(topic.topic_id, topic.configs, configs, cause)
    after = image.settings().over(_settings_after(topic.configs, records))
    check_together(after, f"topic {name!r}")
    if _are_about_min_isr(records):
        records.extend(_forget_eligible(image, topic.topic_id, cause))
    return ControllerResult(records, None)


def alter_cluster_configs(
    image: MetadataImage, configs: Mapping[str, object | None], *, cause: str
) -> ControllerResult[None]:
    """Decide the cluster's settings, which hold for every topic without its own; None removes one.

    Raises:
        InvalidConfigError: A setting is unknown, its value is not allowed, or it contradicts
            another one, of the cluster or of a topic.
    """
    records = _config_records(None, image.configs, configs, cause)
    after = Settings((_settings_after(image.configs, records),))
    check_together(after, "the cluster")
    for topic in image.topics.values():
        check_together(after.over(topic.configs), f"topic {topic.name!r}")
    if _are_about_min_isr(records):
        for topic_id, topic in image.topics.items():
            if MIN_ISR not in topic.configs:
                records.extend(_forget_eligible(image, topic_id, cause))
    return ControllerResult(records, None)


def _config_records(
    topic_id: TopicId | None,
    now: Mapping[str, str],
    configs: Mapping[str, object | None],
    cause: str,
) -> list[Record]:
    """Return the records that change the settings `now` by `configs`; none for equal values."""
    check_mapping(configs, "configs", "settings and their values", InvalidConfigError)
    # A name to remove is checked like one to set, with the value that will hold again.
    given = {
        setting: SETTINGS[setting].default if value is None and setting in SETTINGS else value
        for setting, value in configs.items()
    }
    checked = check_settings(given, topic_only=topic_id is not None)
    wanted = {
        setting: None if configs[setting] is None else text for setting, text in checked.items()
    }
    return [
        ConfigRecord(topic_id=topic_id, config_name=setting, config_value=value, cause=cause)
        for setting, value in wanted.items()
        if now.get(setting) != value
    ]


def _settings_after(now: Mapping[str, str], records: Iterable[Record]) -> dict[str, str]:
    """Return the settings `now` as `records` change them."""
    changed = {
        each.config_name: each.config_value for each in records if isinstance(each, ConfigRecord)
    }
    return {name: value for name, value in {**now, **changed}.items() if value is not None}


def _are_about_min_isr(records: Iterable[Record]) -> bool:
    return any(isinstance(each, ConfigRecord) and each.config_name == MIN_ISR for each in records)


def _forget_eligible(image: MetadataImage, topic_id: TopicId, cause: str) -> Iterator[Record]:
    """Yield the records that empty the ELRs: under another minimum the high watermark may move
    without their members (KIP-966)."""
    for number, partition in image.topics[topic_id].partitions.items():
        if partition.elr:
            key = PartitionKey(topic_id, number)
            change = PartitionChange(elr=frozenset())
            yield change_record(image, key, partition, change, cause)
