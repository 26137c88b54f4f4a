"""The commands that people give: each has a name, and the decision that it stands for.

There is one registry for both ways of a command: the process that is given it decides it if nobody
controls the cluster; else it is a request in the log, which the controller decides. So a command is
a name and arguments, and the deciding process supplies uuids and random numbers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from kafka_on_spark.controller.brokers import broker_changes, draining
from kafka_on_spark.controller.commands import groups
from kafka_on_spark.controller.commands.command_json import from_json, to_json
from kafka_on_spark.controller.commands.id_source import IdSource
from kafka_on_spark.controller.groups.membership import remove_members
from kafka_on_spark.controller.moves import preferred_leaders, reassignment
from kafka_on_spark.controller.partitions import recovery
from kafka_on_spark.controller.partitions.log_start import delete_records_of_all
from kafka_on_spark.controller.partitions.reports import ReplicaInspection
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.controller.topics import topics
from kafka_on_spark.controller.verdicts import unreadable_replicas
from kafka_on_spark.ids import (
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    MemberId,
    Offset,
    PartitionKey,
    TopicId,
)
from kafka_on_spark.metadata.image import MetadataImage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Command(Generic[T]):
    """A kind of command.

    Attributes:
        name: In requests. A name never gets another meaning, since requests outlive the process
            that wrote them.
        decision: Called with the image, the source of ids, and the arguments by name.
    """

    name: str
    decision: Callable[..., ControllerResult[T]]

    def order(self, **arguments: object) -> "CommandOrder[T]":
        """Return the command with arguments, as a request carries it.

        Raises:
            InvalidRequestError: A request can't carry an argument.
        """
        return CommandOrder(self, {name: to_json(value) for name, value in arguments.items()})


@dataclass(frozen=True, slots=True)
class CommandOrder(Generic[T]):
    """A command to decide.

    Attributes:
        command: The command.
        arguments: Its arguments by name, as JSON holds them.
    """

    command: Command[T]
    arguments: Mapping[str, Any]

    def decide(self, image: MetadataImage, id_source: IdSource) -> ControllerResult[T]:
        """Return what the command leads to on `image`.

        Raises:
            ProtocolError: It is refused; the subclass says why.
        """
        given = {name: from_json(value) for name, value in self.arguments.items()}
        return self.command.decision(image, id_source, **given)


def _create_topic(
    image: MetadataImage,
    id_source: IdSource,
    *,
    name: str,
    partition_count: int | None,
    replication_factor: int | None,
    replica_assignment: Mapping[int, Sequence[int]] | None,
    configs: Mapping[str, object],
) -> ControllerResult[TopicId]:
    return topics.create_topic(
        image,
        name,
        partition_count=partition_count,
        replication_factor=replication_factor,
        replica_assignment=replica_assignment,
        configs=configs,
        new_uuid=id_source.new_uuid,
        random_below=id_source.random_below,
        cause="topic created by request",
    )


def _add_partitions(
    image: MetadataImage,
    id_source: IdSource,
    *,
    name: str,
    to: int,
    replica_assignment: Mapping[int, Sequence[int]] | None = None,
) -> ControllerResult[int]:
    return topics.add_partitions(
        image,
        name,
        to=to,
        replica_assignment=replica_assignment,
        new_uuid=id_source.new_uuid,
        random_below=id_source.random_below,
        cause="partitions added by request",
    )


def _remove_partitions(
    image: MetadataImage, id_source: IdSource, *, name: str, to: int, records: str
) -> ControllerResult[int]:
    cause = "partitions removed by request"
    return topics.remove_partitions(image, name, to=to, records=records, cause=cause)


def _delete_topic(
    image: MetadataImage, id_source: IdSource, *, name: str
) -> ControllerResult[TopicId]:
    return topics.delete_topic(image, name, cause="topic deleted by request")


def _alter_topic_configs(
    image: MetadataImage, id_source: IdSource, *, name: str, configs: Mapping[str, object | None]
) -> ControllerResult[None]:
    return topics.alter_configs(image, name, configs, cause="altered by request")


def _alter_cluster_configs(
    image: MetadataImage, id_source: IdSource, *, configs: Mapping[str, object | None]
) -> ControllerResult[None]:
    return topics.alter_cluster_configs(image, configs, cause="altered by request")


def _register_broker(
    image: MetadataImage,
    id_source: IdSource,
    *,
    broker_id: int,
    root: str,
    rack: str | None,
    directory_id: str,
) -> ControllerResult[BrokerEpoch]:
    return broker_changes.register_broker(
        image,
        BrokerId(broker_id),
        root,
        rack=rack,
        directory_id=DirectoryId(directory_id),
        cause=f"broker {broker_id} registered by request",
    )


def _drain_broker(
    image: MetadataImage, id_source: IdSource, *, broker_id: int
) -> ControllerResult[list[PartitionKey]]:
    cause = f"broker {broker_id} drained by request"
    return draining.drain_broker(image, BrokerId(broker_id), cause)


def _continue_draining(
    image: MetadataImage, id_source: IdSource
) -> ControllerResult[list[PartitionKey]]:
    return draining.continue_draining(image)


def _resume_broker(
    image: MetadataImage, id_source: IdSource, *, broker_id: int
) -> ControllerResult[None]:
    cause = f"broker {broker_id} resumed by request"
    return draining.resume_broker(image, BrokerId(broker_id), cause)


def _unregister_broker(
    image: MetadataImage, id_source: IdSource, *, broker_id: int
) -> ControllerResult[None]:
    cause = f"broker {broker_id} unregistered by request"
    return draining.unregister_broker(image, BrokerId(broker_id), cause)


def _elect_preferred(
    image: MetadataImage, id_source: IdSource, *, keys: Iterable[PartitionKey] | None
) -> ControllerResult[list[PartitionKey]]:
    return preferred_leaders.elect_preferred(image, "preferred leaders by request", keys)


def _elect_unclean(
    image: MetadataImage, id_source: IdSource, *, looks: Sequence[ReplicaInspection]
) -> ControllerResult[list[PartitionKey]]:
    """The requesting process has inspected the replicas. `looks` is the argument's name in
    requests."""
    return recovery.recover(image, looks, forced=frozenset(each.key for each in looks))


def _lose_replica(
    image: MetadataImage, id_source: IdSource, *, key: PartitionKey, broker_id: int
) -> ControllerResult[None]:
    return unreadable_replicas.lose_replica(
        image, key, BrokerId(broker_id), "called lost by request"
    )


def _reassign(
    image: MetadataImage,
    id_source: IdSource,
    *,
    targets: Mapping[PartitionKey, Sequence[int]],
    throttle_bytes_per_s: int | None,
) -> ControllerResult[list[PartitionKey]]:
    return reassignment.start_reassignments(
        image,
        targets,
        new_uuid=id_source.new_uuid,
        cause="reassigned by request",
        throttle_bytes_per_s=throttle_bytes_per_s,
    )


def _cancel_reassignments(
    image: MetadataImage, id_source: IdSource, *, keys: Iterable[PartitionKey]
) -> ControllerResult[list[PartitionKey]]:
    cause = "reassignment cancelled by request"
    return reassignment.cancel_reassignments(image, keys, cause=cause)


def _delete_records(
    image: MetadataImage, id_source: IdSource, *, offsets: Mapping[PartitionKey, Offset | None]
) -> ControllerResult[dict[PartitionKey, Offset]]:
    return delete_records_of_all(image, offsets)


def _alter_group_offsets(
    image: MetadataImage, id_source: IdSource, *, group: str, offsets: Mapping[PartitionKey, int]
) -> ControllerResult[dict[PartitionKey, Offset]]:
    return groups.alter_group_offsets(image, group, offsets)


def _delete_group(
    image: MetadataImage, id_source: IdSource, *, group: str, keys: Iterable[PartitionKey] | None
) -> ControllerResult[list[PartitionKey]]:
    return groups.delete_group(image, group, keys)


def _remove_group_members(
    image: MetadataImage, id_source: IdSource, *, group: str, member_ids: Iterable[str] | None
) -> ControllerResult[list[MemberId]]:
    wanted = None if member_ids is None else [MemberId(each) for each in member_ids]
    return groups.offsets_kept(image, group, remove_members(image, group, wanted), image.time_ms)


CREATE_TOPIC: Final = Command("create_topic", _create_topic)
ADD_PARTITIONS: Final = Command("add_partitions", _add_partitions)
REMOVE_PARTITIONS: Final = Command("remove_partitions", _remove_partitions)
DELETE_TOPIC: Final = Command("delete_topic", _delete_topic)
ALTER_TOPIC_CONFIGS: Final = Command("alter_topic_configs", _alter_topic_configs)
ALTER_CLUSTER_CONFIGS: Final = Command("alter_cluster_configs", _alter_cluster_configs)
REGISTER_BROKER: Final = Command("register_broker", _register_broker)
DRAIN_BROKER: Final = Command("drain_broker", _drain_broker)
CONTINUE_DRAINING: Final = Command("continue_draining", _continue_draining)
RESUME_BROKER: Final = Command("resume_broker", _resume_broker)
UNREGISTER_BROKER: Final = Command("unregister_broker", _unregister_broker)
ELECT_PREFERRED: Final = Command("elect_preferred", _elect_preferred)
ELECT_UNCLEAN: Final = Command("elect_unclean", _elect_unclean)
LOSE_REPLICA: Final = Command("lose_replica", _lose_replica)
REASSIGN: Final = Command("reassign", _reassign)
CANCEL_REASSIGNMENTS: Final = Command("cancel_reassignments", _cancel_reassignments)
DELETE_RECORDS: Final = Command("delete_records", _delete_records)
ALTER_GROUP_OFFSETS: Final = Command("alter_group_offsets", _alter_group_offsets)
DELETE_GROUP: Final = Command("delete_group", _delete_group)
REMOVE_GROUP_MEMBERS: Final = Command("remove_group_members", _remove_group_members)

COMMANDS: Final[Mapping[str, Command[Any]]] = {
    command.name: command
    for command in (
        CREATE_TOPIC,
        ADD_PARTITIONS,
        REMOVE_PARTITIONS,
        DELETE_TOPIC,
        ALTER_TOPIC_CONFIGS,
        ALTER_CLUSTER_CONFIGS,
        REGISTER_BROKER,
        DRAIN_BROKER,
        CONTINUE_DRAINING,
        RESUME_BROKER,
        UNREGISTER_BROKER,
        ELECT_PREFERRED,
        ELECT_UNCLEAN,
        LOSE_REPLICA,
        REASSIGN,
        CANCEL_REASSIGNMENTS,
        DELETE_RECORDS,
        ALTER_GROUP_OFFSETS,
        DELETE_GROUP,
        REMOVE_GROUP_MEMBERS,
    )
}
"""By the name that a request gives."""
