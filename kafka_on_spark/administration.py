"""What is decided for a cluster by request: topics, brokers, settings, leaders."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from kafka_on_spark.controller import commands
from kafka_on_spark.controller.commands import Command
from kafka_on_spark.controller.draining import check_empty
from kafka_on_spark.controller.groups import committed_by
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import (
    BrokerId,
    Offset,
    PartitionKey,
    TopicId,
    TopicPartition,
    check_mapping,
    check_whole_number,
)
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.descriptions import (
    PartitionOffsets,
    TopicDescription,
    describe,
    offsets_of,
)
from kafka_on_spark.service.group_offsets import GroupLag, describe_group, groups_of
from kafka_on_spark.service.partition_names import key_of, keys_of
from kafka_on_spark.spark.creation import prepare_broker
from kafka_on_spark.spark.services import Services
from kafka_on_spark.storage.roots import normalize

T = TypeVar("T")

ALL_COMMITTED: Final = -1
"""Stands for the high watermark. Source: DeleteRecordsRequest.HIGH_WATERMARK."""


class Administration:
    """The part of a cluster that requests change; each is decided and committed in one piece."""

    def __init__(self, metadata_root: str, services: Services) -> None:
        self._root = metadata_root
        self._services = services
        self._metadata = services.metadata

    @property
    def image(self) -> MetadataImage:
        """The cluster's metadata of now."""
        return self._metadata.catch_up()

    def _command(self, command: Command[T], **arguments: object) -> T:
        """Have a command decided: here, or by who controls the cluster."""
        order = command.order(**arguments)
        return self._services.commands().run(order, timeout_ms=self._services.timeout_ms)

    # Topics and brokers

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        replica_assignment: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> TopicId:
        """Create a topic: one commit, and no table until the first append.

        Raises:
            InvalidTopicError: The name is not allowed.
            TopicAlreadyExistsError: There is a topic of that name.
            InvalidPartitionsError, InvalidReplicationFactorError: Too few, or too many.
            InvalidReplicaAssignmentError: Replicas stand where none can.
            InvalidConfigError: A setting is unknown or its value not allowed.
        """
        return self._command(
            commands.CREATE_TOPIC,
            name=name,
            partition_count=partitions,
            replication_factor=replication_factor,
            replica_assignment=replica_assignment,
            configs=configs or {},
        )

    def add_partitions(
        self,
        name: str,
        *,
        to: int,
        replica_assignment: Mapping[int, Sequence[int]] | None = None,
    ) -> int:
        """Give a topic more partitions, `to` in all; return how many are new.

        Records stay where they are: of their keys, later ones may go to a new partition. A
        `replica_assignment` names the brokers of each new partition, the preferred leader first.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
            InvalidPartitionsError, InvalidReplicationFactorError: Too few, or too many.
            InvalidReplicaAssignmentError: Replicas stand where none can.
        """
        return self._command(
            commands.ADD_PARTITIONS, name=name, to=to, replica_assignment=replica_assignment
        )

    def remove_partitions(self, name: str, *, to: int, records: str = "refuse") -> int:
        """Leave a topic its first `to` partitions; return how many are gone.

        `records` says what becomes of theirs: "refuse" to remove a partition that has any, or
        "drop" them. Kafka can't remove partitions.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
            InvalidPartitionsError, PolicyViolationError: What is asked for is not allowed.
            InvalidRequestError: `records` is neither word.
        """
        return self._command(commands.REMOVE_PARTITIONS, name=name, to=to, records=records)

    def delete_topic(self, name: str) -> None:
        """Delete a topic: gone at once for users.

        The controller's passes remove its tables, once file.delete.delay.ms are over.

        Raises:
            UnknownTopicOrPartitionError: There is none.
        """
        self._command(commands.DELETE_TOPIC, name=name)

    def alter_topic_configs(self, name: str, configs: Mapping[str, object | None]) -> None:
        """Set a topic's settings; None removes one.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
            InvalidConfigError: A setting is unknown or its value not allowed.
        """
        self._command(commands.ALTER_TOPIC_CONFIGS, name=name, configs=configs)

    def alter_cluster_configs(self, configs: Mapping[str, object | None]) -> None:
        """Set settings of the cluster, which hold at once where no topic has its own; None removes
        one, so that the default holds again.

        Raises:
            InvalidConfigError: A setting is unknown or its value not allowed.
        """
        self._command(commands.ALTER_CLUSTER_CONFIGS, configs=configs)

    def register_broker(
        self,
        broker_id: int,
        root: str | os.PathLike[str],
        *,
        rack: str | None = None,
        root_mode: int = 0o700,
    ) -> None:
        """Register a broker, or another disk for a fenced one.

        A local folder that is made gets the permissions `root_mode`.

        Raises:
            InvalidRequestError: A bad id, rack or mode.
            InvalidRootError, InconsistentClusterIdError, DuplicateBrokerRegistrationError: The root
                can't be this broker's.
        """
        url, number, options = normalize(root), BrokerId(broker_id), self._services.options
        directory_id = prepare_broker(self._root, self.image, number, url, rack, options, root_mode)
        self._command(
            commands.REGISTER_BROKER,
            broker_id=number,
            root=url,
            rack=rack,
            directory_id=directory_id,
        )

    def drain_broker(self, broker_id: int) -> list[TopicPartition]:
        """Have a broker lead nothing, then leave the ISRs: two steps, and nothing offline between.

        Return the partitions whose leadership moved. A partition that nobody else in sync can
        lead stays with it until somebody can: the controller's passes go on with it.

        Raises:
            BrokerIdNotRegisteredError: There is no such broker.
            InvalidRequestError: It is fenced, and leads nothing.
        """
        check_whole_number(broker_id, "a broker id")
        moved = self._command(commands.DRAIN_BROKER, broker_id=broker_id)
        offset = None
        while offset != self._metadata.image.offset:
            offset = self._metadata.image.offset
            moved = [*moved, *self._command(commands.CONTINUE_DRAINING)]
        return self._names(moved)

    def resume_broker(self, broker_id: int) -> None:
        """Let a draining broker lead and be in sync again.

        Raises:
            BrokerIdNotRegisteredError: There is no such broker.
            InvalidRequestError: It is fenced: it comes back by answering.
        """
        check_whole_number(broker_id, "a broker id")
        self._command(commands.RESUME_BROKER, broker_id=broker_id)

    def unregister_broker(self, broker_id: int) -> None:
        """Take a broker without replicas out of the cluster.

        Tables on its root that are nobody's any more are removed first, since nobody looks at the
        root of a broker that is none; a root that does not answer is left as it is.

        Raises:
            BrokerIdNotRegisteredError: There is no such broker.
            InvalidRequestError: It has replicas: reassign them first.
        """
        check_whole_number(broker_id, "a broker id")
        check_empty(self.image, BrokerId(broker_id))
        self._services.cleaner.empty(BrokerId(broker_id))
        self._command(commands.UNREGISTER_BROKER, broker_id=broker_id)

    def describe_topic(self, name: str) -> TopicDescription:
        """Return a topic's partitions, settings, and which of those are not enforced.

        Raises:
            UnknownTopicOrPartitionError: There is none.
        """
        return describe(self.image, name)

    def offsets(self, name: str) -> dict[int, PartitionOffsets]:
        """Return each partition's log start, high watermark and recorded log end.

        From the metadata alone, so the log end is that of whoever led when it was recorded: after
        a clean election the old leader's, until a round or an append has looked at the new one.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
        """
        partitions = self.image.topic(name).partitions
        return {number: offsets_of(partitions[number]) for number in sorted(partitions)}

    def elect_leaders(
        self, kind: str = "preferred", partitions: Iterable[tuple[str, int]] | None = None
    ) -> list[TopicPartition]:
        """Give partitions their preferred leaders back; or ("unclean") leaders to those that have
        none and can get none without losing records. Return which moved.

        Raises:
            InvalidRequestError: Another kind of election.
            UnknownTopicOrPartitionError: A partition does not exist.
        """
        if kind not in ("preferred", "unclean"):
            raise InvalidRequestError(f"can't hold a {kind!r} election: 'preferred' or 'unclean'")
        image = self.image
        keys = None if partitions is None else keys_of(image, partitions)
        if kind == "preferred":
            moved = self._command(commands.ELECT_PREFERRED, keys=keys)
        else:
            looks = self._services.look_for_leaders(keys)
            moved = self._command(commands.ELECT_UNCLEAN, looks=looks)
        return self._names(moved)

    def lose_replica(self, topic: str, partition: int, broker_id: int) -> None:
        """Say that a replica is lost which no process can find so: it fails to be read, for one.

        It leaves the ISR and is made anew, unless it is the ISR's last member: nobody else has its
        records. If it is whole after all, it is taken back.

        Raises:
            UnknownTopicOrPartitionError: The partition does not exist.
            InvalidRequestError: The broker has no replica of it, or that is lost already.
        """
        [key] = keys_of(self.image, [(topic, partition)])
        check_whole_number(broker_id, "broker_id")
        self._command(commands.LOSE_REPLICA, key=key, broker_id=broker_id)

    # Records

    def delete_records(
        self, offsets: Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, Offset]:
        """Delete the records below an offset of each partition (-1: all that are committed).

        Return the new log starts. All or none is decided; replicas drop the records afterwards,
        at the latest with their next fetch.

        Raises:
            UnknownTopicOrPartitionError: A partition does not exist.
            PolicyViolationError: A topic's cleanup.policy does not say delete.
            OffsetOutOfRangeError: An offset is below -1 or above the high watermark.
        """
        check_mapping(offsets, "offsets", "partitions and offsets")
        image = self.image
        wanted: dict[PartitionKey, Offset | None] = {}
        for name, offset in offsets.items():
            key = key_of(image, name)
            check_whole_number(offset, f"the offset below which records of {name} are deleted")
            wanted[key] = None if offset == ALL_COMMITTED else Offset(offset)
        starts = self._command(commands.DELETE_RECORDS, offsets=wanted)
        self._services.advance_log_starts(starts)
        names = zip(offsets, starts.values(), strict=True)
        return {TopicPartition(*name): start for name, start in names}

    # Consumer groups

    def list_groups(self) -> list[str]:
        """Return the names of the consumer groups: all that have committed an offset."""
        return groups_of(self.image)

    def describe_group(self, group: str) -> list[GroupLag]:
        """Return where a group stands in each partition, and how far it is behind.

        Raises:
            GroupIdNotFoundError: No group of that name has committed an offset.
        """
        image = self.image
        committed_by(image, group)
        return describe_group(image, group)

    def alter_group_offsets(
        self, group: str, offsets: Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, Offset]:
        """Set offsets of a group, which need not be there yet; return them. All or none is decided.

        New queries start from them. One that runs under the group's name commits its own again.

        Raises:
            InvalidGroupIdError, UnknownTopicOrPartitionError: The group's name is not allowed, or a
                partition does not exist.
            OffsetOutOfRangeError: One is below the log start or above the high watermark.
        """
        check_mapping(offsets, "offsets", "partitions and offsets")
        image = self.image
        for offset in offsets.values():
            check_whole_number(offset, "a group's offset")
        wanted = {key_of(image, name): offset for name, offset in offsets.items()}
        self._command(commands.ALTER_GROUP_OFFSETS, group=group, offsets=wanted)
        return {TopicPartition(*name): Offset(offset) for name, offset in offsets.items()}

    def delete_group(
        self, group: str, partitions: Iterable[tuple[str, int]] | None = None
    ) -> list[TopicPartition]:
        """Remove a group's offsets, of some partitions or of all; return where it had one.

        Raises:
            GroupIdNotFoundError: No group of that name has committed an offset.
            UnknownTopicOrPartitionError: A partition does not exist.
        """
        image = self.image
        keys = None if partitions is None else keys_of(image, partitions)
        left = self._command(commands.DELETE_GROUP, group=group, keys=keys)
        return self._names(left)

    def _names(self, keys: Iterable[PartitionKey]) -> list[TopicPartition]:
        """Return partitions as people name them; one that was deleted since has no name."""
        image = self._metadata.image
        return [image.name_of(key) for key in keys if image.partition(key) is not None]
