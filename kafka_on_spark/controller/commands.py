"""The commands that people give: each has a name, and the decision that it stands for.

There is one registry for both ways of a command: the process that is given it decides it if nobody
controls the cluster; else it is a request in the log, which the controller decides. So a command is
a name and arguments, and the deciding process supplies uuids and random numbers.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from kafka_on_spark.base.ids import MemberId, PartitionKey
from kafka_on_spark.controller import (
    broker_changes,
    draining,
    preferred_leaders,
    reassignment,
    recovery,
    topics,
    unreadable_replicas,
)
from kafka_on_spark.controller.command_json import from_json, to_json
from kafka_on_spark.controller.log_start import delete_records_of_all
from kafka_on_spark.groups import groups
from kafka_on_spark.groups.membership import remove_members
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.reports import ReplicaInspection
from kafka_on_spark.metadata.result import ControllerResult, IdSource

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Command(Generic[T]):
    """A kind of command.

    Attributes:
        name: In requests. A name never gets another meaning, since requests outlive the process
            that wrote them; so do the names of the decision's arguments.
        decision: Called with the image, and the arguments by name.
        cause: Why, with arguments in braces, for a decision that takes it; "": it takes none.
        ids: Which of an `IdSource` the decision takes.
    """

    name: str
    decision: Callable[..., ControllerResult[T]]
    cause: str = ""
    ids: tuple[str, ...] = ()

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
        own = {name: getattr(id_source, name) for name in self.command.ids}
        if self.command.cause:
            own["cause"] = self.command.cause.format_map(given)
        return self.command.decision(image, **given, **own)


def _elect_unclean(
    image: MetadataImage, *, looks: Sequence[ReplicaInspection]
) -> ControllerResult[list[PartitionKey]]:
    """The requesting process has inspected the replicas. `looks` is the argument's name in
    requests."""
    return recovery.recover(image, looks, forced=frozenset(each.key for each in looks))


def _remove_group_members(
    image: MetadataImage, *, group: str, member_ids: Collection[MemberId] | None
) -> ControllerResult[list[MemberId]]:
    left = remove_members(image, group, member_ids)
    return groups.offsets_kept(image, group, left, image.time_ms)


_PLACES: Final = ("new_uuid", "random_below")

CREATE_TOPIC: Final = Command(
    "create_topic", topics.create_topic, "topic created by request", _PLACES
)
ADD_PARTITIONS: Final = Command(
    "add_partitions", topics.add_partitions, "partitions added by request", _PLACES
)
REMOVE_PARTITIONS: Final = Command(
    "remove_partitions", topics.remove_partitions, "partitions removed by request"
)
DELETE_TOPIC: Final = Command("delete_topic", topics.delete_topic, "topic deleted by request")
ALTER_TOPIC_CONFIGS: Final = Command(
    "alter_topic_configs", topics.alter_configs, "altered by request"
)
ALTER_CLUSTER_CONFIGS: Final = Command(
    "alter_cluster_configs", topics.alter_cluster_configs, "altered by request"
)
REGISTER_BROKER: Final = Command(
    "register_broker", broker_changes.register_broker, "broker {broker_id} registered by request"
)
DRAIN_BROKER: Final = Command(
    "drain_broker", draining.drain_broker, "broker {broker_id} drained by request"
)
CONTINUE_DRAINING: Final = Command("continue_draining", draining.continue_draining)
RESUME_BROKER: Final = Command(
    "resume_broker", draining.resume_broker, "broker {broker_id} resumed by request"
)
UNREGISTER_BROKER: Final = Command(
    "unregister_broker", draining.unregister_broker, "broker {broker_id} unregistered by request"
)
ELECT_PREFERRED: Final = Command(
    "elect_preferred", preferred_leaders.elect_preferred, "preferred leaders by request"
)
ELECT_UNCLEAN: Final = Command("elect_unclean", _elect_unclean)
LOSE_REPLICA: Final = Command(
    "lose_replica", unreadable_replicas.lose_replica, "called lost by request"
)
REASSIGN: Final = Command(
    "reassign", reassignment.start_reassignments, "reassigned by request", ("new_uuid",)
)
CANCEL_REASSIGNMENTS: Final = Command(
    "cancel_reassignments", reassignment.cancel_reassignments, "reassignment cancelled by request"
)
DELETE_RECORDS: Final = Command("delete_records", delete_records_of_all)
ALTER_GROUP_OFFSETS: Final = Command("alter_group_offsets", groups.alter_group_offsets)
DELETE_GROUP: Final = Command("delete_group", groups.delete_group)
REMOVE_GROUP_MEMBERS: Final = Command("remove_group_members", _remove_group_members)

COMMANDS: Final[Mapping[str, Command[Any]]] = {
    each.name: each for each in list(globals().values()) if isinstance(each, Command)
}
"""By the name that a request gives."""
