"""What creating, deleting and configuring topics leads to, and the brokers and racks of partitions.

Creating a topic of 10,000 partitions is one commit and no table: the first append creates tables.
New partitions are striped over racks and brokers, with balanced leaders, by Kafka's
StripedReplicaPlacer. The caller supplies the random numbers, so that the placement is a function of
its arguments.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from kafka_on_spark.base.config import SETTINGS, Settings, check_settings, check_together
from kafka_on_spark.base.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
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
    listed,
)
from kafka_on_spark.controller.election import change_record
from kafka_on_spark.groups.offsets import saved_offset
from kafka_on_spark.metadata.image import BrokerRegistration, ControllerResult, MetadataImage
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
from kafka_on_spark.metadata.reports import MIN_ISR

T = TypeVar("T")

NewUuid = Callable[[], str]
RandomBelow = Callable[[int], int]
"""Returns a whole number in [0, bound)."""

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
        counts = len(assignment), len(assignment[0])
        # Kafka takes no numbers with an assignment: ReplicationControlManager.createTopic.
        if partition_count not in (None, counts[0]) or replication_factor not in (None, counts[1]):
            raise InvalidRequestError(
                f"an assignment of {counts[0]} partitions with {counts[1]} replicas each was given,"
                f" and {partition_count} partitions with {replication_factor} replicas: leave the"
                " numbers out, or give the same"
            )
    else:
        settings = image.settings()
        if partition_count is None:
            partition_count = settings.integer("num.partitions")
        if replication_factor is None:
            replication_factor = settings.integer("default.replication.factor")
        _check_partition_count(partition_count)
        check_whole_number(replication_factor, "replication_factor", InvalidReplicationFactorError)
        stripes = Stripes(image.brokers.values(), random_below)
        assignment = stripes.place_all(partition_count, replication_factor)
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
        PartitionRecord(
            topic=name,
            topic_id=topic_id,
            partition=number,
            registration=new_partition(image, replicas, new_uuid),
            cause=cause,
        )
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
                start = each.registration.log_start_offset
                cause = f"topic {name} came: group {group!r} begins at its beginning"
                yield saved_offset(group, each.key, each.registration, start, cause)


def _check_partition_count(count: int) -> None:
    check_whole_number(count, "partitions", InvalidPartitionsError)
    if not 1 <= count <= PARTITIONS_MAX:
        raise InvalidPartitionsError(
            f"{count!r} partitions are not allowed: give from 1 to {PARTITIONS_MAX}"
        )


def check_collision(image: MetadataImage, name: str) -> None:
    """Check that no topic's name differs only by '.' and '_', which are one in Kafka's metrics.

    Source: org.apache.kafka.common.internals.Topic.hasCollision.
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
        stripes = Stripes(image.brokers.values(), random_below)
        assignment = stripes.place_all(to - count, factor)
    # Each unclean election is a record of the log: no generation is as high as the log's end.
    generation = int(image.offset) if topic.was_shrunk else 0
    records: list[Record] = [
        PartitionRecord(
            topic=name,
            topic_id=topic.topic_id,
            partition=number,
            registration=new_partition(image, replicas, new_uuid, generation),
            cause=cause,
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
    kept = {}
    for number in going:
        partition = topic.partitions[number]
        end = max(partition.high_watermark, partition.log_end_offset)
        if end > partition.log_start_offset:
            kept[number] = end - partition.log_start_offset
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


def new_partition(
    image: MetadataImage,
    replicas: tuple[BrokerId, ...],
    new_uuid: NewUuid,
    unclean_generation: int = 0,
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
    """Decide that a topic is deleted: at once for users; its tables are removed afterwards."""
    topic_id = image.topic(name).topic_id
    return ControllerResult([RemoveTopicRecord(topic_id=topic_id, cause=cause)], topic_id)


def alter_configs(
    image: MetadataImage, name: str, configs: Mapping[str, object | None], *, cause: str
) -> ControllerResult[None]:
    """Decide a topic's settings; None removes one, and the cluster's holds again."""
    topic = image.topic(name)
    records = _config_records(topic.topic_id, topic.configs, configs, cause)
    after = _settings_after(topic.configs, records)
    check_together(image.settings().over(after), f"topic {name!r}")
    forgotten = []
    if topic.configs.get(MIN_ISR) != after.get(MIN_ISR):
        forgotten = _forget_eligible(image, topic.topic_id, cause)
    return ControllerResult([*records, *forgotten], None)


def alter_cluster_configs(
    image: MetadataImage, configs: Mapping[str, object | None], *, cause: str
) -> ControllerResult[None]:
    """Decide the cluster's settings, for each topic without its own; None removes one."""
    records = _config_records(None, image.configs, configs, cause)
    configs_after = _settings_after(image.configs, records)
    after = Settings((configs_after,))
    check_together(after, "the cluster")
    forgotten: list[Record] = []
    for topic_id, topic in image.topics.items():
        check_together(after.over(topic.configs), f"topic {topic.name!r}")
        is_changed = image.configs.get(MIN_ISR) != configs_after.get(MIN_ISR)
        if is_changed and MIN_ISR not in topic.configs:
            forgotten += _forget_eligible(image, topic_id, cause)
    return ControllerResult([*records, *forgotten], None)


def _config_records(
    topic_id: TopicId | None,
    now: Mapping[str, str],
    configs: Mapping[str, object | None],
    cause: str,
) -> list[ConfigRecord]:
    """Return the records that change the settings `now` by `configs`; none for equal values."""
    check_mapping(configs, "configs", "settings and their values", InvalidConfigError)
    # A name to remove is checked like one to set, with the value that will hold again.
    given = {
        setting: SETTINGS[setting].default if value is None and setting in SETTINGS else value
        for setting, value in configs.items()
    }
    checked = check_settings(given, topic_only=topic_id is not None)
    return [
        ConfigRecord(topic_id=topic_id, config_name=setting, config_value=value, cause=cause)
        for setting, text in checked.items()
        if now.get(setting) != (value := None if configs[setting] is None else text)
    ]


def _settings_after(now: Mapping[str, str], records: Iterable[ConfigRecord]) -> dict[str, str]:
    changed = {each.config_name: each.config_value for each in records}
    return {name: value for name, value in {**now, **changed}.items() if value is not None}


def _forget_eligible(image: MetadataImage, topic_id: TopicId, cause: str) -> list[Record]:
    """Return the records that empty the ELRs: under another minimum the high watermark may move
    without their members (KIP-966)."""
    return [
        change_record(
            image,
            PartitionKey(topic_id, number),
            partition,
            PartitionChange(elr=frozenset()),
            cause,
        )
        for number, partition in image.topics[topic_id].partitions.items()
        if partition.elr
    ]


def check_assignment(
    image: MetadataImage,
    assignment: Mapping[int, Sequence[int]],
    numbers: range | None = None,
    *,
    replication_factor: int | None = None,
) -> list[tuple[BrokerId, ...]]:
    """Return the replicas that are assigned to partitions `numbers`, the preferred leader first.

    Brokers are known, each is named once, and all partitions have the same number of them:
    `replication_factor`, if it is given. No `numbers`: from 0 on, no gap. Source:
    ReplicationControlManager.validateManualPartitionAssignment.
    """
    error = InvalidReplicaAssignmentError
    check_mapping(assignment, "replica_assignment", "partitions and lists of broker ids", error)
    checked = {}
    for number, replicas in assignment.items():
        check_whole_number(number, "a partition of replica_assignment", error)
        checked[number] = checked_replicas(image, f"partition {number}", replicas)
    wanted = range(max(len(assignment), 1)) if numbers is None else numbers
    if sorted(checked) != list(wanted):
        raise InvalidReplicaAssignmentError(
            f"the assignment names partitions {sorted(assignment)}: name each from {wanted[0]}"
            f" {'on' if numbers is None else f'to {wanted[-1]}'}, no gap"
        )
    sizes = {len(replicas) for replicas in checked.values()}
    if len(sizes) != 1:
        raise InvalidReplicaAssignmentError(
            f"the assignment gives partitions {sorted(sizes)} replicas: give all the same number"
        )
    if replication_factor is not None and sizes != {replication_factor}:
        raise InvalidReplicaAssignmentError(
            f"the assignment gives partitions {sizes.pop()} replicas, and the topic's have"
            f" {replication_factor}: give as many"
        )
    for number, brokers in checked.items():
        if not any(map(image.is_eligible, brokers)):
            raise InvalidReplicaAssignmentError(
                f"partition {number} would be on fenced brokers only, {list(brokers)}: name"
                " at least one that is active"
            )
    return [checked[number] for number in wanted]


def checked_replicas(image: MetadataImage, name: object, replicas: object) -> tuple[BrokerId, ...]:
    """Return the brokers given for the partition `name`, checked: registered, each once."""
    error = InvalidReplicaAssignmentError
    brokers = listed(replicas, f"the brokers of {name}", "broker ids", error)
    for each in brokers:
        check_whole_number(each, f"a broker of {name}", error)
    if not brokers or len(set(brokers)) != len(brokers) or set(brokers) - image.brokers.keys():
        raise InvalidReplicaAssignmentError(
            f"{name} can't be on brokers {brokers}: name at least one registered broker, and each"
            f" once at most (registered: {sorted(image.brokers)})"
        )
    return tuple(map(BrokerId, brokers))


class BrokerRing:
    """Brokers given out one after the other; each epoch begins one broker further."""

    def __init__(self, brokers: Sequence[BrokerId], random_below: RandomBelow) -> None:
        self._brokers = list(brokers)
        self._random_below = random_below
        self._epoch = 0
        self._index = 0
        self._offset = random_below(len(brokers)) if brokers else 0

    def next(self, epoch: int) -> BrokerId | None:
        if not self._brokers:
            return None
        if self._epoch != epoch:
            self._epoch, self._index = epoch, 0
            self._offset = (self._offset + 1) % len(self._brokers)
        if self._index >= len(self._brokers):
            return None
        broker = self._brokers[(self._index + self._offset) % len(self._brokers)]
        self._index += 1
        return broker

    def shuffle(self) -> None:
        _shuffle(self._brokers, self._random_below)


class Stripes:
    """All racks of a cluster; each partition that is placed begins at the next one.

    Brokers that are fenced or draining are used where active ones do not suffice.
    """

    def __init__(self, brokers: Iterable[BrokerRegistration], random_below: RandomBelow) -> None:
        everyone = sorted(brokers, key=lambda each: each.broker_id)
        by_rack: dict[str, list[BrokerRegistration]] = {}
        for broker in everyone:
            by_rack.setdefault(broker.rack or "", []).append(broker)
        self._names = sorted(by_rack)
        # Of each rack the fenced brokers, which are used last, and the others.
        self._racks = {
            name: [
                BrokerRing(
                    [each.broker_id for each in by_rack[name] if each.is_eligible is is_eligible],
                    random_below,
                )
                for is_eligible in (False, True)
            ]
            for name in self._names
        }
        self.broker_count = len(everyone)
        self.unfenced_count = sum(each.is_eligible for each in everyone)
        self._random_below = random_below
        self._epoch = 0
        self._offset = random_below(len(self._names)) if self._names else 0

    def place_all(self, count: int, replication_factor: int) -> list[tuple[BrokerId, ...]]:
        return [self.place(replication_factor) for _ in range(count)]

    def place(self, replication_factor: int) -> tuple[BrokerId, ...]:
        """Return the replicas of the next partition; the first is on an active broker."""
        self._check(replication_factor)
        # With one active broker the epoch must rise: in one epoch it is given out once.
        if self._epoch == self.unfenced_count and self.unfenced_count > 1:
            self._shuffle()
            self._epoch = 0
        if self._offset == len(self._names):
            self._offset = 0
        first_rack, leader = self._leader()
        replicas = [leader, *self._followers(first_rack, replication_factor - 1)]
        self._epoch += 1
        self._offset += 1
        return tuple(replicas)

    def _check(self, replication_factor: int) -> None:
        if replication_factor < 1:
            raise InvalidReplicationFactorError(
                f"replication factor {replication_factor} is not allowed: it must be at least 1"
            )
        if replication_factor > self.broker_count:
            raise InvalidReplicationFactorError(
                f"replication factor {replication_factor} is larger than the number of brokers,"
                f" {self.broker_count}: register more brokers or ask for fewer replicas"
            )
        if not self.unfenced_count:
            raise InvalidReplicationFactorError(
                "all brokers are fenced or shutting down: bring one back first"
            )

    def _leader(self) -> tuple[int, BrokerId]:
        for step in range(len(self._names)):
            place = (self._offset + step) % len(self._names)
            broker = self._racks[self._names[place]][1].next(self._epoch)
            if broker is not None:
                return place, broker
        raise AssertionError("an active broker exists in some rack")

    def _followers(self, first_rack: int, count: int) -> list[BrokerId]:
        followers: list[BrokerId] = []
        place, skip = self._offset, first_rack
        while len(followers) < count:
            broker = None
            if place == skip:
                skip = -1  # the leader's rack is passed over once, then used like the others
            else:
                fenced, unfenced = self._racks[self._names[place]]
                broker = unfenced.next(self._epoch)
                broker = fenced.next(self._epoch) if broker is None else broker
            place = (place + 1) % len(self._names)
            if broker is not None:
                followers.append(broker)
        return followers

    def _shuffle(self) -> None:
        _shuffle(self._names, self._random_below)
        for rings in self._racks.values():  # in the order of their names, not the new one
            for ring in rings:
                ring.shuffle()


def _shuffle(values: list[T], random_below: RandomBelow) -> None:
    """Fisher-Yates from the end, as java.util.Collections.shuffle draws."""
    for place in range(len(values) - 1, 0, -1):
        other = random_below(place + 1)
        values[place], values[other] = values[other], values[place]
