"""What users hold: one object for a cluster, thin over the services that it wires together."""

import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa

from kafka_on_spark.audit.findings import FsckReport
from kafka_on_spark.config import cluster_settings
from kafka_on_spark.controller import topics
from kafka_on_spark.controller.brokers import elect_preferred, register_broker
from kafka_on_spark.controller.recovery import recover
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import BrokerId, TopicId, TopicPartition
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.admin import run_command
from kafka_on_spark.service.append_results import AppendResult
from kafka_on_spark.service.controller_loop import ControllerReport, duration_ms
from kafka_on_spark.service.creation import create_cluster
from kafka_on_spark.service.descriptions import (
    PartitionOffsets,
    TopicDescription,
    describe,
    offsets_of,
)
from kafka_on_spark.service.history import HistoryEntry, partition_history
from kafka_on_spark.service.reading import (
    ReadOrder,
    partition_key,
    partition_keys,
    plan_reads,
)
from kafka_on_spark.service.replication_round import ReplicationReport
from kafka_on_spark.spark.creation import prepare_broker, prepare_roots, roots_of
from kafka_on_spark.spark.frames import check_frame, is_frame, stage_frame
from kafka_on_spark.spark.fsck import check_tables
from kafka_on_spark.spark.services import Services, new_uuid
from kafka_on_spark.spark.task_runner import check_session
from kafka_on_spark.storage.metadata_log import metadata_table_uri
from kafka_on_spark.storage.reader import read_rows, row_schema
from kafka_on_spark.storage.records import check_table, input_batches, table_of
from kafka_on_spark.storage.roots import StorageOptions, normalize
from kafka_on_spark.storage.staging import stage_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


class Cluster:
    """A cluster, opened by one process. Threads may share it; close it, or use it in `with`."""

    def __init__(self, metadata_root: str, services: Services) -> None:
        self._root = metadata_root
        self._services = services
        self._metadata = services.metadata

    @classmethod
    def create(
        cls,
        metadata_root: str | os.PathLike[str],
        brokers: Mapping[int, str | os.PathLike[str]],
        *,
        racks: Mapping[int, str] | None = None,
        configs: Mapping[str, object] | None = None,
        spark: "SparkSession | None" = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> "Cluster":
        """Make a cluster at `metadata_root` with `brokers` (id → root), and open it.

        Each root is tested first. A creation that was cut off before its commit is continued.

        Raises:
            InvalidRequestError: There is a cluster at the metadata root, or no broker is given.
            InvalidRootError, InconsistentClusterIdError, DuplicateBrokerRegistrationError:
                A root can't be a broker's.
            InvalidConfigError: A setting is unknown or its value not allowed.
        """
        if spark is not None:
            check_session(spark)
        options = StorageOptions(storage_options)
        settings = cluster_settings(configs)
        roots = roots_of(brokers, racks)
        url = normalize(metadata_root)
        cluster_id, identities = prepare_roots(url, roots, racks or {}, options)
        cluster = cls(url, Services.open(url, options, spark))
        cluster._command(lambda image: create_cluster(image, cluster_id, identities, settings))
        return cluster

    @classmethod
    def open(
        cls,
        metadata_root: str | os.PathLike[str],
        spark: "SparkSession | None" = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> "Cluster":
        """Open the cluster at `metadata_root`; tasks run on `spark`, or in threads without.

        Raises:
            ClusterNotFoundError: There is none.
            InvalidRequestError: `spark` is no session, or a Spark Connect one.
        """
        options = StorageOptions(storage_options)
        url = normalize(metadata_root)
        return cls(url, Services.open(url, options, spark))

    def close(self) -> None:
        """Finish what is due (checkpoints) and let the threads go.

        Whatever is asked for afterwards is refused with a ClusterClosedError.
        """
        self._services.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def image(self) -> MetadataImage:
        """The cluster's metadata of now."""
        return self._metadata.catch_up()

    @property
    def root(self) -> str:
        """URL of the metadata root: the option `cluster` of the data source."""
        return self._root

    @property
    def metadata_table(self) -> str:
        """URL of the metadata log, a Delta table: for SQL."""
        return metadata_table_uri(self._root)

    def _command(self, decide: Callable[[MetadataImage], ControllerResult[T]]) -> T:
        return run_command(
            self._metadata,
            decide,
            controller_id=self._services.controller_id,
            timeout_ms=self._services.timeout_ms,
        )

    def fsck(self, *, deep: bool = True) -> FsckReport:
        """Check all tables against what must hold, version by version; change nothing.

        `deep`: read every segment, too. The command line checks one that can't be opened.

        Raises:
            KafkaStorageError: The metadata root does not answer.
        """
        services = self._services
        services.metadata.check_open()
        return check_tables(self._root, services.options, services.runner, is_deep=deep)

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
            InvalidRequestError: A bad id or rack.
            InvalidRootError, InconsistentClusterIdError, DuplicateBrokerRegistrationError.
        """
        url, number, options = normalize(root), BrokerId(broker_id), self._services.options
        directory_id = prepare_broker(self._root, self.image, number, url, rack, options)
        cause = f"broker {broker_id} registered by request"
        self._command(
            lambda image: register_broker(
                image, number, url, rack=rack, directory_id=directory_id, cause=cause
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

    # Controller and replication

    def run_controller(self, seconds: float | None = None) -> ControllerReport:
        """Control the cluster for `seconds`, or for one pass.

        A pass keeps probing a root that fails until it answers or its session is over.

        Raises:
            NotControllerError: Another controller has taken over meanwhile.
        """
        return self._services.controller_loop().run(duration_ms(seconds))

    def elect_leaders(
        self, kind: str = "preferred", partitions: Iterable[tuple[str, int]] | None = None
    ) -> list[TopicPartition]:
        """Give partitions their preferred leaders back; or ("unclean") leaders to those that have
        none and can get none without losing records. Return which moved.

        Raises:
            InvalidRequestError: Another kind of election, or no partitions.
            UnknownTopicOrPartitionError: A partition does not exist.
        """
        if kind not in ("preferred", "unclean"):
            raise InvalidRequestError(f"can't hold a {kind!r} election: 'preferred' or 'unclean'")
        image = self.image
        keys = None if partitions is None else partition_keys(image, partitions)
        if kind == "preferred":
            cause = "preferred leaders by request"
            moved = self._command(lambda newest: elect_preferred(newest, cause, keys))
        else:
            looks = self._services.look_for_leaders(keys)
            forced = frozenset(look.key for look in looks)
            moved = self._command(lambda newest: recover(newest, looks, forced=forced))
        return [self._metadata.image.name_of(key) for key in moved]

    def replicate(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        is_sweep: bool = False,
        configs: Mapping[str, object] | None = None,
    ) -> ReplicationReport:
        """Replicate once where there is work, or (`is_sweep`) all; `configs` hold for it alone.

        Raises:
            UnknownTopicOrPartitionError, InvalidConfigError: A topic or setting does not exist.
        """
        return self._services.replication_round(configs).run(topics, is_sweep=is_sweep)

    # Appending and reading

    def append(
        self,
        topic: str,
        records: object,
        *,
        acks: str | int = "all",
        producer_id: str | None = None,
        producer_epoch: int | None = None,
        sequence: int | None = None,
        expected_offsets: Mapping[int, int] | None = None,
        timeout_ms: int | None = None,
    ) -> AppendResult:
        """Append a DataFrame, an Arrow table or a list of records; return where they stand.

        With `producer_id` and `sequence` a retry of the same records is appended once.

        Raises:
            UnknownTopicOrPartitionError, InvalidRequestError, InvalidRecordError,
            MessageTooLargeError, NotEnoughReplicasError: Nothing was appended.
            RequestTimedOutError, NotEnoughReplicasAfterAppendError: Unknown; retry with the
                same producer and sequence.
            DuplicateSequenceError, OutOfOrderSequenceError, ProducerFencedError,
            UnexpectedOffsetError: As their docstrings say.
        """
        is_spark = is_frame(records)
        if is_spark:
            check_frame(records, has_topic=True)  # type: ignore[arg-type]
        else:
            records = table_of(records)
            check_table(records)
        appends, options = self._services.appends, self._services.options
        plan = appends.plan(
            topic,
            acks=acks,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            sequence=sequence,
            expected_offsets=expected_offsets,
            timeout_ms=timeout_ms,
        )
        if is_spark:
            rows = stage_frame(records, plan.order, options)  # type: ignore[arg-type]
        else:
            batches = input_batches(records.to_batches())  # type: ignore[attr-defined]
            rows = stage_records(plan.order, batches, options)
        return appends.commit(plan, rows)

    def read(
        self,
        topic: str,
        start: Mapping[int, int] | None = None,
        end: Mapping[int, int] | None = None,
    ) -> pa.Table:
        """Return committed records as Arrow, by partition and offset.

        `start` and `end` are offsets by partition; without, all that is committed now.

        Raises:
            UnknownTopicOrPartitionError, OffsetOutOfRangeError: As in `plan_reads`.
            KafkaStorageError: No replica can serve a range.
        """
        batches = self._read_batches(plan_reads(self.image, topic, start, end))
        return pa.Table.from_batches(batches, schema=row_schema(has_headers=True))

    def _read_batches(self, orders: Sequence[ReadOrder]) -> Iterator[pa.RecordBatch]:
        for order in orders:
            yield from read_rows(order, self._services.replicas, self._services.options)

    def history(self, topic: str, partition: int | None = None) -> list[HistoryEntry]:
        """Return leaders, ISRs, epochs and causes of a partition, or of all, oldest first.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic or partition.
        """
        topic_id = self.image.topic(topic).topic_id
        if partition is not None:
            partition_key(self._metadata.image, topic, partition)
        return partition_history(self._metadata.history(), topic_id, partition)
