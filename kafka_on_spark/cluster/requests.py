"""Requests that one command decides: topics, settings, records, leaders, reassignments, groups.

Checks the arguments, has the command run, and puts the answer into topics' names. A live cluster
and a dry run differ in `RunCommand` alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from kafka_on_spark.controller.commands import commands
from kafka_on_spark.controller.commands.commands import Command
from kafka_on_spark.controller.moves.reassignment import list_reassignments
from kafka_on_spark.controller.moves.reassignment_plan import (
    ReassignmentPlan,
    partitions_of,
    plan_reassignment,
)
from kafka_on_spark.errors import InvalidRequestError, InvalidRootError, KafkaStorageError
from kafka_on_spark.ids import (
    Offset,
    PartitionKey,
    TopicId,
    TopicPartition,
    check_mapping,
    check_whole_number,
    listed,
)
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.partition_names import key_of, keys_of
from kafka_on_spark.service.describe.sizes import MoveProgress
from kafka_on_spark.spark.wiring.services import Services
from kafka_on_spark.storage.identity.root_identity import check_is_obeyed, read_identity

T = TypeVar("T")

ALL_COMMITTED: Final = -1
"""Stands for the high watermark. Source: DeleteRecordsRequest.HIGH_WATERMARK."""


class RunCommand(Protocol):
    """Has a command decided, and for a live cluster committed."""

    def __call__(self, command: Command[T], **arguments: object) -> T:
        """Return the response of the command."""
        ...


def names_of(image: MetadataImage, keys: Iterable[PartitionKey]) -> list[TopicPartition]:
    """Return partitions as people name them; one that was deleted since has no name."""
    return [image.name_of(key) for key in keys if image.partition(key) is not None]


class Requests:
    """Runs commands. `Cluster` documents each method under the same name."""

    def __init__(self, services: Services, run: RunCommand) -> None:
        self._services = services
        self._run = run

    def _image(self) -> MetadataImage:
        return self._services.metadata.catch_up()

    def _names(self, keys: Iterable[PartitionKey]) -> list[TopicPartition]:
        return names_of(self._services.metadata.image, keys)

    # Topics and settings

    def create_topic(
        self,
        name: str,
        partitions: int | None,
        replication_factor: int | None,
        replica_assignment: Mapping[int, Sequence[int]] | None,
        configs: Mapping[str, object] | None,
    ) -> TopicId:
        return self._run(
            commands.CREATE_TOPIC,
            name=name,
            partition_count=partitions,
            replication_factor=replication_factor,
            replica_assignment=replica_assignment,
            configs=configs or {},
        )

    def add_partitions(
        self, name: str, to: int, replica_assignment: Mapping[int, Sequence[int]] | None
    ) -> int:
        return self._run(
            commands.ADD_PARTITIONS, name=name, to=to, replica_assignment=replica_assignment
        )

    def remove_partitions(self, name: str, to: int, records: str) -> int:
        return self._run(commands.REMOVE_PARTITIONS, name=name, to=to, records=records)

    def delete_topic(self, name: str) -> None:
        self._run(commands.DELETE_TOPIC, name=name)

    def alter_topic_configs(self, name: str, configs: Mapping[str, object | None]) -> None:
        self._run(commands.ALTER_TOPIC_CONFIGS, name=name, configs=configs)

    def alter_cluster_configs(self, configs: Mapping[str, object | None]) -> None:
        self._run(commands.ALTER_CLUSTER_CONFIGS, configs=configs)

    def delete_records(
        self, offsets: Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, Offset]:
        check_mapping(offsets, "offsets", "partitions and offsets")
        image = self._image()
        wanted: dict[PartitionKey, Offset | None] = {}
        for name, offset in offsets.items():
            key = key_of(image, name)
            check_whole_number(offset, f"the offset below which records of {name} are deleted")
            wanted[key] = None if offset == ALL_COMMITTED else Offset(offset)
        self._check_obeyed(image, wanted)
        starts = self._run(commands.DELETE_RECORDS, offsets=wanted)
        self._services.advance_log_starts(starts)
        names = zip(offsets, starts.values(), strict=True)
        return {TopicPartition(*name): start for name, start in names}

    def _check_obeyed(self, image: MetadataImage, keys: Iterable[PartitionKey]) -> None:
        """Check that the brokers in sync obey this cluster, as far as they answer: what a copy of
        it decides, they never apply.

        Raises:
            RootAccessDeniedError: One obeys other metadata roots.
        """
        partitions = [partition for key in keys if (partition := image.partition(key))]
        for broker_id in sorted({each for partition in partitions for each in partition.isr}):
            broker = image.brokers[broker_id]
            found = None
            with suppress(KafkaStorageError, InvalidRootError):
                if broker.is_online:
                    found = read_identity(broker.root, self._services.options)
            if found is not None:
                check_is_obeyed(found, broker.root, image.registered_voters)

    # Leaders and replicas

    def elect_leaders(
        self, kind: str, partitions: Iterable[tuple[str, int]] | None
    ) -> list[TopicPartition]:
        if kind not in ("preferred", "unclean"):
            raise InvalidRequestError(f"can't hold a {kind!r} election: 'preferred' or 'unclean'")
        image = self._image()
        keys = None if partitions is None else keys_of(image, partitions)
        if kind == "preferred":
            moved = self._run(commands.ELECT_PREFERRED, keys=keys)
        else:
            inspections = self._services.inspect_leaderless(keys)
            moved = self._run(commands.ELECT_UNCLEAN, looks=inspections)
        return self._names(moved)

    def lose_replica(self, topic: str, partition: int, broker_id: int) -> None:
        [key] = keys_of(self._image(), [(topic, partition)])
        check_whole_number(broker_id, "broker_id")
        self._run(commands.LOSE_REPLICA, key=key, broker_id=broker_id)

    def resume_broker(self, broker_id: int) -> None:
        check_whole_number(broker_id, "a broker id")
        self._run(commands.RESUME_BROKER, broker_id=broker_id)

    # Reassignments

    def plan_reassignment(
        self,
        topics: str | Iterable[str] | None,
        brokers: Iterable[int] | None,
        throttle_bytes_per_s: int | None,
    ) -> ReassignmentPlan:
        image = self._image()
        if topics is not None and not isinstance(topics, str):
            topics = listed(topics, "topics", "topic names")
        keys = partitions_of(image, topics if not isinstance(topics, str) else [topics])
        if brokers is not None:
            brokers = listed(brokers, "brokers", "broker ids")
        # Bad brokers are refused before any replica is measured.
        plan_reassignment(image, [], brokers=brokers, sizes={})
        return plan_reassignment(
            image,
            keys,
            brokers=brokers,
            sizes=self._services.partition_sizes(keys),
            throttle_bytes_per_s=throttle_bytes_per_s,
        )

    def reassign(
        self,
        targets: Mapping[tuple[str, int], Sequence[int]],
        throttle_bytes_per_s: int | None,
    ) -> list[TopicPartition]:
        image = self._image()
        check_mapping(targets, "targets", "partitions and lists of broker ids")
        wanted = {key_of(image, name): target for name, target in targets.items()}
        started = self._run(
            commands.REASSIGN, targets=wanted, throttle_bytes_per_s=throttle_bytes_per_s
        )
        return self._names(started)

    def cancel_reassignment(
        self, partitions: Iterable[tuple[str, int]] | None
    ) -> list[TopicPartition]:
        image = self._image()
        if partitions is None:
            keys = [each.key for each in list_reassignments(image)]
        else:
            keys = keys_of(image, partitions)
        cancelled = self._run(commands.CANCEL_REASSIGNMENTS, keys=keys)
        return self._names(cancelled)

    def reassignment_progress(self) -> list[MoveProgress]:
        return self._services.move_progress()

    # Consumer groups

    def alter_group_offsets(
        self, group: str, offsets: Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, Offset]:
        check_mapping(offsets, "offsets", "partitions and offsets")
        image = self._image()
        for offset in offsets.values():
            check_whole_number(offset, "a group's offset")
        wanted = {key_of(image, name): offset for name, offset in offsets.items()}
        self._run(commands.ALTER_GROUP_OFFSETS, group=group, offsets=wanted)
        return {TopicPartition(*name): Offset(offset) for name, offset in offsets.items()}

    def delete_group(
        self, group: str, partitions: Iterable[tuple[str, int]] | None
    ) -> list[TopicPartition]:
        image = self._image()
        keys = None if partitions is None else keys_of(image, partitions)
        left = self._run(commands.DELETE_GROUP, group=group, keys=keys)
        return self._names(left)

    def remove_group_members(self, group: str, members: Iterable[str] | None) -> list[str]:
        wanted = None if members is None else list(listed(members, "members", "members' ids"))
        removed = self._run(commands.REMOVE_GROUP_MEMBERS, group=group, member_ids=wanted)
        return [str(each) for each in removed]
