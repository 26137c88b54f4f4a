"""What is decided for a cluster by request: topics, brokers, settings, leaders."""

import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from kafka_on_spark.controller import topics
from kafka_on_spark.controller.brokers import elect_preferred, register_broker
from kafka_on_spark.controller.recovery import recover
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import BrokerId, TopicId, TopicPartition
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.admin import run_command
from kafka_on_spark.service.descriptions import (
    PartitionOffsets,
    TopicDescription,
    describe,
    offsets_of,
)
from kafka_on_spark.service.reading import partition_key
from kafka_on_spark.spark.services import Services, new_uuid
from kafka_on_spark.storage.root_identity import prepare_root
from kafka_on_spark.storage.roots import normalize

T = TypeVar("T")


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

    def _command(self, decide: Callable[[MetadataImage], ControllerResult[T]]) -> T:
        return run_command(
            self._metadata,
            decide,
            controller_id=self._services.controller_id,
            timeout_ms=self._services.timeout_ms,
        )

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
            InvalidTopicError, TopicAlreadyExistsError, InvalidPartitionsError,
            InvalidReplicationFactorError, InvalidReplicaAssignmentError, InvalidConfigError.
        """
        return self._command(
            lambda image: topics.create_topic(
                image,
                name,
                partition_count=partitions,
                replication_factor=replication_factor,
                replica_assignment=replica_assignment,
                configs=configs or {},
                new_uuid=new_uuid,
                random_below=random.randrange,
                cause="topic created by request",
            )
        )

    def add_partitions(self, name: str, *, to: int) -> int:
        """Give a topic more partitions, `to` in all; return how many are new.

        Records stay where they are: of their keys, later ones may go to a new partition.

        Raises:
            UnknownTopicOrPartitionError, InvalidPartitionsError, InvalidReplicationFactorError.
        """
        return self._command(
            lambda image: topics.add_partitions(
                image,
                name,
                to=to,
                new_uuid=new_uuid,
                random_below=random.randrange,
                cause="partitions added by request",
            )
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic: gone at once for users. Its tables stay until a cleaner removes them.

        Raises:
            UnknownTopicOrPartitionError: There is none.
        """
        self._command(
            lambda image: topics.delete_topic(image, name, cause="topic deleted by request")
        )

    def alter_topic_configs(self, name: str, configs: Mapping[str, object | None]) -> None:
        """Set a topic's settings; None removes one.

        Raises:
            UnknownTopicOrPartitionError, InvalidConfigError.
        """
        self._command(
            lambda image: topics.alter_configs(image, name, configs, cause="altered by request")
        )

    def register_broker(
        self, broker_id: int, root: str | os.PathLike[str], *, rack: str | None = None
    ) -> None:
        """Register a broker, or another disk for a fenced one.

        Raises:
            InvalidRootError, InconsistentClusterIdError, DuplicateBrokerRegistrationError.
        """
        url = normalize(root)
        cluster_id = self.image.cluster_id
        assert cluster_id is not None
        options = self._services.options
        directory_id = prepare_root(url, cluster_id, BrokerId(broker_id), options).directory_id
        self._command(
            lambda image: register_broker(
                image,
                BrokerId(broker_id),
                url,
                rack=rack,
                directory_id=directory_id,
                cause=f"broker {broker_id} registered by request",
            )
        )

    def describe_topic(self, name: str) -> TopicDescription:
        """Return a topic's partitions, settings, and which of those are not enforced.

        Raises:
            UnknownTopicOrPartitionError: There is none.
        """
        return describe(self.image, name)

    def offsets(self, name: str) -> dict[int, PartitionOffsets]:
        """Return each partition's log start, high watermark and recorded log end.

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
        keys = None if partitions is None else [partition_key(image, *each) for each in partitions]
        if kind == "preferred":
            cause = "preferred leaders by request"
            moved = self._command(lambda newest: elect_preferred(newest, cause, keys))
        else:
            looks = self._services.look_for_leaders(keys)
            forced = frozenset(look.key for look in looks)
            moved = self._command(lambda newest: recover(newest, looks, forced=forced))
        return [self._metadata.image.name_of(key) for key in moved]
