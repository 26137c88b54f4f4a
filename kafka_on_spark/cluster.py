"""What users hold: one object for a cluster, thin over functions of its node.

The file is long because users read its docstrings, by help() and on the API page. What only some
calls need is imported by them: a process that reads needs nothing of what appends.
"""

from __future__ import annotations  # most of the types belong to modules that few calls need

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar
from weakref import WeakSet

from kafka_on_spark.base.errors import (
    InvalidRequestError,
    InvalidRootError,
    KafkaStorageError,
    OffsetOutOfRangeError,
)
from kafka_on_spark.base.ids import (
    BrokerId,
    DirectoryId,
    Offset,
    PartitionKey,
    TopicId,
    TopicPartition,
    check_mapping,
    check_number,
    check_whole_number,
    listed,
)
from kafka_on_spark.consume.settings import (
    AUTO_COMMIT_INTERVAL_MS,
    MAX_POLL_INTERVAL_MS,
    MAX_POLL_RECORDS,
    ConsumerSettings,
)
from kafka_on_spark.controller import commands
from kafka_on_spark.controller.brokers import check_empty
from kafka_on_spark.controller.reassignment import (
    list_reassignments,
    partitions_of,
    plan_reassignment,
    status_of,
)
from kafka_on_spark.groups.offsets import LATEST
from kafka_on_spark.metadata.image import MetadataImage, key_of, keys_of, pair_of, partition_key
from kafka_on_spark.metadata.metadata_service import ROOTS_AWAY
from kafka_on_spark.metadata.quorum.voter_table import Voter
from kafka_on_spark.node.node import Node, open_node
from kafka_on_spark.produce.accumulator import (
    BATCH_SIZE,
    BUFFER_MEMORY,
    LINGER_MS,
    MAX_BLOCK_MS,
    producer_settings,
)
from kafka_on_spark.store.counts import (
    APPEND,
    COMMAND,
    CONSUME,
    CONTROL,
    DESCRIBE,
    FSCK,
    OPEN,
    QUORUM,
    READ,
    REPLICATE,
    UPKEEP,
    operating,
)
from kafka_on_spark.store.deadlines import SystemClock
from kafka_on_spark.store.root_identity import check_is_obeyed, read_identity
from kafka_on_spark.store.root_urls import BETWEEN, MetadataRoots, cluster_url, one_root
from kafka_on_spark.store.roots import StorageOptions, normalize

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kafka_on_spark.consume.consumer import Consumer
    from kafka_on_spark.consume.member import OnPartitions
    from kafka_on_spark.consume.reads import Reads
    from kafka_on_spark.controller.commands import Command
    from kafka_on_spark.controller.controller_loop import ControllerReport
    from kafka_on_spark.controller.forced_generation import ForcedGeneration
    from kafka_on_spark.controller.fork import ForkReport
    from kafka_on_spark.controller.reassignment import (
        Reassignment,
        ReassignmentPlan,
        ReassignmentStatus,
    )
    from kafka_on_spark.controller.replication_round import ReplicationReport
    from kafka_on_spark.controller.upkeep import UpkeepReport
    from kafka_on_spark.fsck.findings import FsckReport
    from kafka_on_spark.groups.membership import GroupMembers
    from kafka_on_spark.groups.offsets import GroupLag
    from kafka_on_spark.metadata.quorum.description import QuorumDescription
    from kafka_on_spark.observe.descriptions import PartitionOffsets, TopicDescription
    from kafka_on_spark.observe.history import BrokerEvent, HistoryEntry
    from kafka_on_spark.observe.metadata_as_of import MetadataAsOf
    from kafka_on_spark.observe.policy_replay import PolicyReplay
    from kafka_on_spark.observe.replicas import MoveProgress, PartitionLogs
    from kafka_on_spark.observe.what_if import Forecast
    from kafka_on_spark.produce.append import AppendResult
    from kafka_on_spark.produce.producer import Producer
    from kafka_on_spark.produce.sender import Sender
    from kafka_on_spark.spark.spark_executors import SparkExecutors
    from kafka_on_spark.store.counts import Metric

ALL_COMMITTED: Final = -1
"""Stands for the high watermark. Source: DeleteRecordsRequest.HIGH_WATERMARK."""

CUTS_MAX: Final = 5
"""Cuts that are tried for a table: a decision of compaction may come between one and its read."""

P = ParamSpec("P")
T = TypeVar("T")


def _operation(
    operation: str, *, of_past: bool = False, what: str | None = None
) -> Callable[[Callable[Concatenate[Cluster, P], T]], Callable[Concatenate[Cluster, P], T]]:
    """Have a method's requests counted as an operation. `of_past`: it also answers of a cluster
    that was opened as of a moment, which refuses all others; `what` they do, in words."""

    def decorate(
        method: Callable[Concatenate[Cluster, P], T],
    ) -> Callable[Concatenate[Cluster, P], T]:
        @wraps(method)
        def call(self: Cluster, /, *given: P.args, **named: P.kwargs) -> T:
            if not of_past:
                self._check_may(what or method.__name__.replace("_", " "), operation)
            with operating(operation):
                return method(self, *given, **named)

        return call

    return decorate


@dataclass(frozen=True, slots=True)
class VotersChange:
    """A voter that was added or removed.

    Attributes:
        voter: Which one.
        voters: All that there are now, by their ids.
        is_marked: Whether the root of a removed voter says so; it was reached.
    """

    voter: Voter
    voters: tuple[Voter, ...]
    is_marked: bool = False


class Cluster:
    """A cluster, opened by one process. Threads may share it; close it, or use it in `with`."""

    def __init__(
        self,
        metadata_root: str,
        node: Node,
        spark: SparkSession | None = None,
        past: MetadataAsOf | None = None,
    ) -> None:
        self._root = metadata_root
        self._node = node
        self._spark = spark
        self._past = past
        self._metadata = past or node.metadata
        self._senders: WeakSet[Sender] = WeakSet()

    @classmethod
    def create(
        cls,
        metadata_root: MetadataRoots,
        brokers: Mapping[int, str | os.PathLike[str]],
        *,
        racks: Mapping[int, str] | None = None,
        configs: Mapping[str, object] | None = None,
        spark: SparkSession | None = None,
        storage_options: Mapping[str, Any] | None = None,
        root_mode: int = 0o700,
    ) -> Cluster:
        """Create a cluster at `metadata_root` with `brokers` (id → root), and open it.

        `metadata_root` is one root, or several: then each of them is a voter of the metadata
        quorum, and the cluster goes on while more than half of them answer.

        Each root is tested first. A creation that was cut off before its commit is continued.
        Local folders that are created get the permissions `root_mode`.

        Raises:
            InvalidRequestError: There is a cluster at the metadata root, or no broker is given.
            InvalidRootError, InconsistentClusterIdError, DuplicateBrokerRegistrationError:
                A root can't belong to its broker.
            InvalidConfigError: A setting is unknown or its value not allowed.
        """
        # In the functions: a cluster is created, forced or opened as of a moment by few processes.
        from kafka_on_spark.base.config import cluster_settings
        from kafka_on_spark.controller.preparing_roots import commit_creation, prepare_roots

        options = StorageOptions(storage_options)
        executors = _executors_of(spark, options)
        settings = cluster_settings(configs)
        url = cluster_url(metadata_root)
        given_racks = {} if racks is None else racks
        identities = prepare_roots(url, brokers, given_racks, options, root_mode)
        node = open_node(url, options, executors, is_new=True)
        commit_creation(node, url, *identities, settings)
        return cls(url, node, spark)

    @classmethod
    def open(
        cls,
        metadata_root: MetadataRoots,
        spark: SparkSession | None = None,
        *,
        as_of: datetime | int | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Cluster:
        """Open the cluster at `metadata_root`; tasks run on `spark`, or without it in threads.

        `metadata_root` is one of the cluster's metadata roots, or several, as a list or with commas
        between: the first that answer tell the others.

        `as_of` opens it as it was at a moment, or at a metadata offset (exclusive, as
        `image.offset` is). The cluster is read-only then: records that were committed at that time
        can be read where replicas still have them, and every change is refused.

        Raises:
            ClusterNotFoundError: There is no cluster, or its creation was cut off.
            QuorumUnavailableError: No majority of the metadata roots answers.
            InvalidRequestError: `spark` is no session, or a Spark Connect one; `as_of` is in the
                future, has no time zone, or is before the cluster's creation.
        """
        options = StorageOptions(storage_options)
        url = cluster_url(metadata_root)
        node = open_node(url, options, _executors_of(spark, options))
        if as_of is None:
            return cls(url, node, spark)
        from kafka_on_spark.observe.metadata_as_of import metadata_as_of

        with operating(OPEN):
            past = metadata_as_of(node.metadata, as_of, now_ms=SystemClock().now_ms())
        node.metadata.refusal = past.refusal("commit")
        return cls(url, node, spark, past)

    @classmethod
    def force_controller(
        cls,
        metadata_root: MetadataRoots,
        voter: int,
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> ForcedGeneration:
        """Have one voter of the metadata quorum go on alone, where a majority is lost for ever.

        What only the lost ones knew is gone. So no replica counts as in sync: every replica that
        answers is fenced, and each partition is led by one that proves to have all committed
        records, if all of its replicas answered; else by the furthest, which is an unclean
        election. Stop all other processes before: from elsewhere a majority may still answer, and
        a process that goes on with it ends with an InconsistentClusterError once it meets a fence.
        Call it again if it was cut off.

        Raises:
            InvalidRequestError: A majority of the voters answers from here, another one has more
                of the log, or `voter` is none that answers.
            KafkaStorageError, CorruptLogError: The voter's root fails.
            CommitOutcomeUnknownError: It may have begun: force again.
        """
        from kafka_on_spark.controller.forced_generation import force

        check_whole_number(voter, "a voter's id")
        return force(cluster_url(metadata_root), voter, StorageOptions(storage_options))

    @classmethod
    def fork(
        cls,
        metadata_root: MetadataRoots,
        brokers: Mapping[int, str | os.PathLike[str]],
        *,
        racks: Mapping[int, str] | None = None,
        accepts_losses: bool = False,
        is_dry_run: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> ForkReport:
        """Make a copy of a cluster a cluster of its own, with new ids, and return what it has
        become. The original is not touched, and need not be there.

        `metadata_root` has the copied metadata root, or several, and may have empty ones: each is a
        voter of the new cluster. `brokers` (id → root) are the copied roots of brokers; a broker
        that is not given is unregistered. The metadata must have been copied first, and nothing
        been deleted until the brokers were (delete.hold.until.ms). A replica that is not whole
        leaves the ISR. If committed records are in no copied replica, nothing is done without
        `accepts_losses`. `is_dry_run`: say what would become of it, and write nothing. If it was
        cut off, call it again with the same roots.

        Raises:
            InvalidRootError: A root is not a copy, is at the original's place, or is of a cluster
                of its own already.
            InvalidRequestError: Records would be lost; or a fork of other roots is under way.
            KafkaStorageError: A root fails.
            CommitOutcomeUnknownError: The new metadata may have begun: call it again.
        """
        from kafka_on_spark.controller.fork import fork

        check_mapping(brokers, "brokers", "broker ids and roots")
        return fork(
            cluster_url(metadata_root),
            {BrokerId(each): normalize(root) for each, root in brokers.items()},
            StorageOptions(storage_options),
            racks={} if racks is None else racks,
            accepts_losses=accepts_losses,
            is_dry_run=is_dry_run,
        )

    def close(self) -> None:
        """Close its producers, finish what is due (checkpoints), and end its threads.

        Later calls are refused with a ClusterClosedError.
        """
        for each in list(self._senders):
            each.close(timeout_ms=None)
        self._node.close()

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
    def root(self) -> str:
        """URL of the metadata root, or several with commas between: the option `cluster` of the
        data source."""
        return self._root

    @property
    def metadata_table(self) -> str:
        """URL of the metadata log, a Delta table: for SQL."""
        return self._node.metadata.log.leader_uri

    @property
    def image(self) -> MetadataImage:
        """The newest metadata; for a cluster as of a moment, the metadata of that moment."""
        with operating(DESCRIBE):
            return self._metadata.catch_up()

    def _check_may(self, what: str, operation: str) -> None:
        """Check that a method may be called which a cluster as of a moment refuses."""
        if self._past is not None:
            raise self._past.refusal(what)

    def _run(self, command: Command[T], **arguments: object) -> T:
        from kafka_on_spark.controller.commands import run_command

        return run_command(self._node, command, **arguments)

    def _prepare_broker(
        self, image: MetadataImage, broker_id: BrokerId, root: str, rack: str | None, mode: int
    ) -> DirectoryId:
        from kafka_on_spark.controller.preparing_roots import prepare_broker

        roots = BETWEEN.join(self._node.metadata.log.registered_roots)
        return prepare_broker(roots, image, broker_id, root, rack, self._node.options, mode)

    @property
    def _reads(self) -> Reads:
        from kafka_on_spark.consume.reads import Reads

        return Reads(self._node, None if self._past is None else self._past.image)

    def _keys(self, partitions: Iterable[tuple[str, int]] | None) -> list[PartitionKey] | None:
        image = self._metadata.catch_up()
        return None if partitions is None else keys_of(image, partitions)

    def _names(self, keys: Iterable[PartitionKey]) -> list[TopicPartition]:
        """Return partitions as people name them; one that was deleted since has no name."""
        image = self._metadata.image
        return [image.name_of(key) for key in keys if image.partition(key) is not None]

    def _chosen(
        self, topics: str | Iterable[str] | None
    ) -> tuple[MetadataImage, list[PartitionKey]]:
        from kafka_on_spark.controller.scheduler import scope_of

        image = self._metadata.catch_up()
        scope = scope_of(image, topics)
        return image, [
            key for key, _ in image.partitions() if scope is None or key.topic_id in scope
        ]

    def _check_obeyed(self, image: MetadataImage, keys: Iterable[PartitionKey]) -> None:
        """Check that the brokers in sync obey this cluster, as far as they answer: what a copy of
        it decides, they never apply."""
        partitions = [partition for key in keys if (partition := image.partition(key))]
        for broker_id in sorted({each for partition in partitions for each in partition.isr}):
            broker = image.brokers[broker_id]
            found = None
            with suppress(KafkaStorageError, InvalidRootError):
                if broker.is_online:
                    found = read_identity(broker.root, self._node.options)
            if found is not None:
                check_is_obeyed(found, broker.root, image.registered_voters)

    def _view_of(self, topic: str, **how: Any) -> DataFrame:
        from kafka_on_spark.spark.views import open_view

        return open_view(self._reads, self._spark, self._root, topic, **how)

    # Topics

    @_operation(COMMAND)
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
            InvalidReplicaAssignmentError: A replica is assigned where none can be.
            InvalidConfigError: A setting is unknown or its value not allowed.
        """
        return self._run(
            commands.CREATE_TOPIC,
            name=name,
            partition_count=partitions,
            replication_factor=replication_factor,
            replica_assignment=replica_assignment,
            configs=configs or {},
        )

    @_operation(COMMAND)
    def add_partitions(
        self,
        name: str,
        *,
        to: int,
        replica_assignment: Mapping[int, Sequence[int]] | None = None,
    ) -> int:
        """Give a topic more partitions, `to` in all; return how many are new.

        Records stay where they are; later records of the same keys may go to a new partition.
        `replica_assignment` names the brokers of each new partition, the preferred leader first.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
            InvalidPartitionsError, InvalidReplicationFactorError: Too few, or too many.
            InvalidReplicaAssignmentError: A replica is assigned where none can be.
        """
        return self._run(
            commands.ADD_PARTITIONS, name=name, to=to, replica_assignment=replica_assignment
        )

    @_operation(COMMAND)
    def remove_partitions(self, name: str, *, to: int, records: str = "refuse") -> int:
        """Leave a topic its first `to` partitions; return how many are gone.

        `records` says what happens to the records of the others: "refuse" to remove a partition
        that has any, or "drop" them. Kafka can't remove partitions.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
            InvalidPartitionsError, PolicyViolationError: The removal is not allowed.
            InvalidRequestError: `records` is neither word.
        """
        return self._run(commands.REMOVE_PARTITIONS, name=name, to=to, records=records)

    @_operation(COMMAND)
    def delete_topic(self, name: str) -> None:
        """Delete a topic: gone at once for users.

        The controller's passes remove its tables after file.delete.delay.ms.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
        """
        self._run(commands.DELETE_TOPIC, name=name)

    @_operation(COMMAND)
    def alter_topic_configs(self, name: str, configs: Mapping[str, object | None]) -> None:
        """Set a topic's settings; None removes a setting.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
            InvalidConfigError: A setting is unknown or its value not allowed.
        """
        self._run(commands.ALTER_TOPIC_CONFIGS, name=name, configs=configs)

    @_operation(COMMAND)
    def alter_cluster_configs(self, configs: Mapping[str, object | None]) -> None:
        """Set settings of the cluster. They hold at once where no topic has its own; None removes a
        setting, so that its default holds again.

        Raises:
            InvalidConfigError: A setting is unknown or its value not allowed.
        """
        self._run(commands.ALTER_CLUSTER_CONFIGS, configs=configs)

    @_operation(DESCRIBE, of_past=True)
    def describe_topic(self, name: str) -> TopicDescription:
        """Return a topic's partitions and its settings.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
        """
        from kafka_on_spark.observe.descriptions import describe

        return describe(self._metadata.catch_up(), name)

    @_operation(DESCRIBE, of_past=True)
    def offsets(self, name: str) -> dict[int, PartitionOffsets]:
        """Return each partition's log start, high watermark and recorded log end.

        From the metadata alone, so the log end is that of the broker that led when it was recorded:
        after a clean election the old leader's, until a round or an append has read the new one's.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
        """
        from kafka_on_spark.observe.descriptions import offsets_of

        partitions = self._metadata.catch_up().topic(name).partitions
        return {number: offsets_of(partitions[number]) for number in sorted(partitions)}

    # Records

    @_operation(APPEND)
    def append(
        self,
        topic: str,
        records: object,
        *,
        acks: str | int = "all",
        producer_id: str | None = None,
        producer_epoch: int | None = None,
        sequence: int | None = None,
        transactional_id: str | None = None,
        expected_offsets: Mapping[int, int] | None = None,
        timeout_ms: int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> AppendResult:
        """Append a DataFrame (Spark's, pandas'), an Arrow table or a list; return where it is.

        With `producer_id` and `sequence` a retry of the same records is appended once, and one with
        other records is refused as a whole. Of the writers under one `transactional_id`, the newest
        fences the others; this object is one writer. With `expected_offsets` records are appended
        only if partitions end there. `configs` may have auto.controller=false.

        Raises:
            UnknownTopicOrPartitionError, InvalidRequestError, InvalidConfigError,
                InvalidRequiredAcksError: There is no such topic, or an argument is wrong.
            InvalidRecordError, InvalidTimestampError, MessageTooLargeError: A record is wrong.
            NotEnoughReplicasError, NotLeaderOrFollowerError: Too few replicas are in sync, or
                nobody leads.
            KafkaStorageError, QuorumUnavailableError: A root that is needed is away, denies, is
                full or read-only; or no majority of the metadata roots answers.
            DuplicateSequenceError, OutOfOrderSequenceError, UnknownProducerIdError: The sequence
                stands with other records, is too low, or its producer id has expired.
            ProducerFencedError, UnexpectedOffsetError: A newer run or writer has begun, or a
                partition ends elsewhere than expected.
            CorruptLogError, InconsistentClusterError: Tables are damaged, or the metadata went
                back.
            RequestTimedOutError, NotEnoughReplicasAfterAppendError, CommitOutcomeUnknownError: The
                outcome is unknown; retry with the same producer and sequence.
            ClusterClosedError: This process has closed the cluster.
            The error is the first failed partition's. Its context lists the `failed` partitions and
                the `acknowledged` ones, and `errors` if they differ. Of a failed one nothing is
                appended, unless the outcome is unknown or the error says `may_be_committed`.
        """
        from kafka_on_spark.produce.append import AppendRequest, append_records

        kind = type(records)
        if has_job := kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame":
            from kafka_on_spark.spark.frames import staging_of_frame

            stage = staging_of_frame(records)
        else:
            from kafka_on_spark.produce.staging import staging_of

            stage = staging_of(records)
        request = AppendRequest(
            topic=topic,
            acks=acks,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            sequence=sequence,
            transactional_id=transactional_id,
            expected_offsets=expected_offsets,
            timeout_ms=timeout_ms,
            configs=configs,
        )
        stage = partial(stage, options=self._node.options)
        return append_records(self._node, request, stage, has_job=has_job)

    @_operation(APPEND, what="make a producer")
    def producer(
        self,
        *,
        linger_ms: int = LINGER_MS,
        batch_size: int = BATCH_SIZE,
        buffer_memory: int = BUFFER_MEMORY,
        max_block_ms: int = MAX_BLOCK_MS,
        delivery_timeout_ms: int | None = None,
        acks: str | int = "all",
        max_in_flight_requests_per_connection: int = 1,
        transactional_id: str | None = None,
    ) -> Producer:
        """Return a producer, which sends records one at a time and appends what gathers.

        It is idempotent and keeps the order of each partition, which has one append under way at a
        time; what is sent meanwhile goes with the next one. An append begins `linger_ms` after its
        first record, or earlier: at `batch_size` bytes a partition, counted over the topic, by
        `flush`, and if there is no room. What its first try leaves without an answer is tried again
        beside later ones, which go on with the other partitions. Records without an answer take at
        most `buffer_memory` bytes, and `send` waits `max_block_ms` for room. From send to answer a
        record has `delivery_timeout_ms` (None: the cluster's delivery.timeout.ms).

        Raises:
            InvalidConfigError: A value is not allowed; more than one append at a time and
                transactions are not.
            InvalidRequestError, InvalidRequiredAcksError: A value is of a wrong type.
            ClusterClosedError: This process has closed the cluster.
        """
        from kafka_on_spark.produce.producer import Producer

        self._node.metadata.check_open()
        timeout_ms = self._node.timeout_ms if delivery_timeout_ms is None else delivery_timeout_ms
        settings = producer_settings(
            linger_ms=linger_ms,
            batch_size=batch_size,
            buffer_memory=buffer_memory,
            max_block_ms=max_block_ms,
            delivery_timeout_ms=timeout_ms,
            acks=acks,
            max_in_flight=max_in_flight_requests_per_connection,
            transactional_id=transactional_id,
        )
        return Producer(self._node, settings, self._senders)

    @_operation(CONSUME, what="make a consumer")
    def consumer(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        pattern: str | None = None,
        partitions: Iterable[tuple[str, int]] | None = None,
        group: str | None = None,
        auto_offset_reset: str = LATEST,
        max_poll_records: int = MAX_POLL_RECORDS,
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = AUTO_COMMIT_INTERVAL_MS,
        client_id: str | None = None,
        client_rack: str | None = None,
        consumer_timeout_ms: float | None = None,
        group_instance_id: str | None = None,
        group_remote_assignor: str | None = None,
        max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> Consumer:
        """Return a consumer of topics, of all topics whose name matches a pattern, or of some
        partitions. It reads what is committed, and goes on with what comes.

        It begins where `group` stands: at its committed offsets; where there is none, or it is out
        of range, at `auto_offset_reset`: "earliest", "latest", or "none", which fails. Partitions
        that are added while it reads are read from their beginning. With `enable_auto_commit` it
        commits what was processed, at most each `auto_commit_interval_ms`, and when it is closed.
        A member then also commits where it begins, at each partition it takes that has no offset
        of the group.

        A consumer of topics or a pattern with a `group` is a member of it from its first poll on:
        the members share out the partitions. `on_assigned` and `on_revoked` are called when
        partitions come and go: commit in `on_revoked`. `on_lost` is called if others have them
        already (without it, `on_revoked`). The member leaves if it is not asked for records for
        `max_poll_interval_ms`. With `group_instance_id` it is a static member, which keeps its
        partitions while it restarts. `client_id`, its host and its process are shown where the
        group is described. A consumer of `partitions` reads these, whoever else does.

        A loop over the consumer ends if `consumer_timeout_ms` pass without a record (None: it goes
        on). While nobody commits, it looks for a commit nine times a second on a disk, and twice a
        second on a store.

        Raises:
            UnknownTopicOrPartitionError: A topic or partition does not exist.
            InvalidGroupIdError, InvalidConfigError: The group or a value is not allowed.
            InvalidRequestError: More than one of topics, pattern and partitions is given, or an
                argument is of a wrong type.
            ClusterClosedError: This process has closed the cluster.
        """
        from kafka_on_spark.consume.consumer import Consumer
        from kafka_on_spark.consume.member import Listeners
        from kafka_on_spark.consume.subscription import subscription_of

        image = self._metadata.catch_up()
        if consumer_timeout_ms is not None:
            check_number(consumer_timeout_ms, "consumer_timeout_ms")
        callbacks = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
        for name, given in callbacks.items():
            if given is not None and not callable(given):
                raise InvalidRequestError(
                    f"{name} can't be {given!r}: give a function, which is called with partitions"
                )
        settings = ConsumerSettings(
            group=group,
            auto_offset_reset=auto_offset_reset,
            max_poll_records=max_poll_records,
            enable_auto_commit=enable_auto_commit,
            auto_commit_interval_ms=auto_commit_interval_ms,
            client_id=client_id,
            client_rack=client_rack,
            group_instance_id=group_instance_id,
            group_remote_assignor=group_remote_assignor,
            max_poll_interval_ms=max_poll_interval_ms,
        )
        subscription = subscription_of(image, topics, pattern, partitions)
        listeners = Listeners(on_assigned, on_revoked, on_lost or on_revoked)
        return Consumer(self._node, settings, subscription, consumer_timeout_ms, listeners)

    @_operation(READ, of_past=True)
    def read(
        self,
        topic: str,
        start: Mapping[int, int] | None = None,
        end: Mapping[int, int] | None = None,
    ) -> pa.Table:
        """Return committed records as Arrow, by partition and offset.

        `start` and `end` are offsets by partition; without them, all committed records are read.

        Raises:
            UnknownTopicOrPartitionError, OffsetOutOfRangeError: As in `plan_reads`.
            KafkaStorageError: No replica can serve a range.
        """
        import pyarrow as pa

        from kafka_on_spark.log.reading import row_schema

        reads = self._reads
        try:
            batches = reads.all_rows(reads.plan(topic, start, end, is_whole=True), start or {})
        finally:
            reads.end()
        return pa.Table.from_batches(batches, schema=row_schema(has_headers=True))

    @_operation(READ, of_past=True)
    def count(
        self,
        topic: str,
        start: Mapping[int, int] | None = None,
        end: Mapping[int, int] | None = None,
    ) -> int:
        """Return how many records `read` would return, by the headers of their batches.

        A file is read only where `start` or `end` cuts a batch whose records are not all there.

        Raises: as `read`.
        """
        reads = self._reads
        try:
            return sum(
                reads.count(order, is_asked=order.name.partition in (start or {}))
                for order in reads.plan(topic, start, end)
            )
        finally:
            reads.end()

    @_operation(READ, of_past=True)
    def view(
        self,
        topic: str,
        name: str | None = None,
        *,
        start: Mapping[int, int] | datetime | None = None,
        end: Mapping[int, int] | datetime | None = None,
        has_headers: bool = False,
    ) -> DataFrame:
        """Return the committed records as a DataFrame that Spark itself scans; in SQL as `name`.

        The rows are those of ``format("kafka_on_spark")``, with headers if `has_headers`. Only the
        columns that a query asks for are read. Conditions on `partition` and `timestamp` leave out
        segments, and so do `start` and `end`: offsets by partition, or moments (of records whose
        timestamp is at `start` or later, and before `end`).

        The view is frozen: appends, elections, moves and deleted records change none of its rows.
        It names files. Once a cleaner has removed a file (of a deleted topic, of a replica that
        moved away), or a disk is lost, a query fails and names the file: make the view again.

        Raises:
            UnknownTopicOrPartitionError, OffsetOutOfRangeError: As in `plan_reads`.
            InvalidRequestError: No Spark session can scan the roots, `name` is no valid name, or a
                moment has no time zone.
            KafkaStorageError: No replica has a range, or the view's table can't be written.
        """
        return self._view_of(topic, name=name, start=start, end=end, has_headers=has_headers)

    @_operation(READ, of_past=True)
    def table(self, topic: str, name: str | None = None) -> DataFrame:
        """Return a topic as a table: the last value of each key, of one cut over all partitions.

        A row a key: key, value, partition, offset, timestamp; in SQL as `name`. A key whose last
        record is a tombstone has none, and records without a key are left out. Of a key in several
        partitions, as after `add_partitions`, the latest timestamp tells which is the last. As in a
        view, Spark scans the files, and the rows never change. Of a cluster opened `as_of` a moment
        it is the table of then.

        Raises: as `view`.
        """
        from kafka_on_spark.log.read_order import of_values
        from kafka_on_spark.spark.views import check_view_session, last_values

        self._reads.plan(topic)  # a bad topic is told before a bad name
        check_view_session(self._spark, name)
        for tries_left in reversed(range(CUTS_MAX)):
            try:
                return _named(last_values(self._view_of(topic, asks=of_values)), name)
            except OffsetOutOfRangeError:  # it was compacted meanwhile: a newer cut has all values
                if not tries_left:
                    raise
        raise AssertionError

    @_operation(READ)
    def changes(
        self,
        topic: str,
        since: datetime | int,
        until: datetime | int | None = None,
        name: str | None = None,
    ) -> DataFrame:
        """Return the keys of a topic that were written between two cuts, each with its last value.

        A row a key: key, value, partition, offset, timestamp, is_deleted. The cuts are moments or
        metadata offsets (exclusive, as `image.offset` is); without `until` it is now. Applied to
        the table of `since`, they give the table of `until`, but for keys whose records were
        deleted by age, size or offset: of these nothing is said. Where the table has a key from
        another partition, with a later timestamp, its row stays.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic, or a partition was removed.
            InconsistentTopicIdError: It was deleted and created again between them.
            InvalidRequestError: As in `view`; or a cut is none, or later than the other.
            OffsetOutOfRangeError: Records between them, or tombstones among them, are gone.
            LogTruncatedError: Records were lost since the first one, by an unclean election, or as
                a partition was removed and added again.
        """
        from kafka_on_spark.log.read_order import of_changes, ranges_between
        from kafka_on_spark.observe.metadata_as_of import metadata_as_of
        from kafka_on_spark.spark.views import changed_keys, check_view_session

        def image_at(moment: datetime | int) -> MetadataImage:
            now_ms = SystemClock().now_ms()
            return metadata_as_of(self._node.metadata, moment, now_ms=now_ms).image

        now = self._metadata.catch_up()
        check_view_session(self._spark, name)
        ranges = ranges_between(
            image_at(since), now if until is None else image_at(until), now, topic
        )
        view = self._view_of(
            topic,
            asks=lambda orders: of_changes(orders, ranges),
            start={number: first for number, (first, _) in ranges.items()},
            end={number: last for number, (_, last) in ranges.items()},
        )
        return _named(changed_keys(view), name)

    @_operation(COMMAND)
    def delete_records(
        self, offsets: Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, Offset]:
        """Delete the records below an offset of each partition (-1: all that are committed).

        Return the new log starts. All are decided or none; replicas drop the records afterwards, at
        the latest with their next fetch.

        Raises:
            UnknownTopicOrPartitionError: A partition does not exist.
            PolicyViolationError: A topic's cleanup.policy does not say delete.
            OffsetOutOfRangeError: An offset is below -1 or above the high watermark.
            RootAccessDeniedError: A broker obeys other metadata roots: this cluster is a copy.
        """
        from kafka_on_spark.controller.cleanup_policy import plan_log_starts
        from kafka_on_spark.log.replica_upkeep import upkeep_task

        check_mapping(offsets, "offsets", "partitions and offsets")
        image = self._metadata.catch_up()
        wanted: dict[PartitionKey, Offset | None] = {}
        for name, offset in offsets.items():
            key = key_of(image, name)
            check_whole_number(offset, f"the offset below which records of {name} are deleted")
            wanted[key] = None if offset == ALL_COMMITTED else Offset(offset)
        self._check_obeyed(image, wanted)
        starts = self._run(commands.DELETE_RECORDS, offsets=wanted)
        # A replica whose root does not answer drops them with a later fetch.
        self._node.tasks.run(upkeep_task, plan_log_starts(self._metadata.image, starts))
        names = zip(offsets, starts.values(), strict=True)
        return {TopicPartition(*name): start for name, start in names}

    # Brokers, leaders and replicas

    @_operation(COMMAND)
    def register_broker(
        self,
        broker_id: int,
        root: str | os.PathLike[str],
        *,
        rack: str | None = None,
        root_mode: int = 0o700,
    ) -> None:
        """Register a broker, or another disk for a fenced one, which keeps its rack unless another
        one is given.

        A local folder that is created gets the permissions `root_mode`.

        Raises:
            InvalidRequestError: A bad id, rack or mode.
            InvalidRootError, InconsistentClusterIdError, DuplicateBrokerRegistrationError: The root
                can't belong to this broker.
        """
        image, number, url = self._metadata.catch_up(), BrokerId(broker_id), normalize(root)
        directory_id = self._prepare_broker(image, number, url, rack, root_mode)
        self._run(
            commands.REGISTER_BROKER,
            broker_id=number,
            root=url,
            rack=rack,
            directory_id=directory_id,
        )

    @_operation(COMMAND)
    def alter_broker(self, broker_id: int, *, rack: str) -> None:
        """Give a broker another rack, or none if `rack` is empty. Later decisions place replicas by
        it; a reassignment moves those that exist.

        Raises:
            BrokerIdNotRegisteredError: There is no such broker.
            InvalidRequestError: The rack is not a text.
        """
        from kafka_on_spark.controller.preparing_roots import check_brokers

        check_brokers({BrokerId(broker_id): ""}, {broker_id: rack})
        self._run(commands.ALTER_BROKER, broker_id=broker_id, rack=rack)

    @_operation(COMMAND)
    def drain_broker(self, broker_id: int) -> list[TopicPartition]:
        """Move all leaderships off a broker, then take it out of the ISRs; nothing goes offline.

        Return the partitions whose leadership moved. A partition that no other replica in sync can
        lead stays with the broker until one can: the controller's passes go on with the drain.

        Raises:
            BrokerIdNotRegisteredError: There is no such broker.
            InvalidRequestError: The broker is fenced, and leads nothing.
        """
        check_whole_number(broker_id, "a broker id")
        moved = self._run(commands.DRAIN_BROKER, broker_id=broker_id)
        offset = None
        while offset != self._metadata.image.offset:
            offset = self._metadata.image.offset
            moved = [*moved, *self._run(commands.CONTINUE_DRAINING)]
        return self._names(moved)

    @_operation(COMMAND)
    def resume_broker(self, broker_id: int) -> None:
        """Let a draining broker lead and be in sync again.

        Raises:
            BrokerIdNotRegisteredError: There is no such broker.
            InvalidRequestError: The broker is fenced: it comes back when its root answers.
        """
        check_whole_number(broker_id, "a broker id")
        self._run(commands.RESUME_BROKER, broker_id=broker_id)

    @_operation(COMMAND)
    def unregister_broker(self, broker_id: int) -> None:
        """Take a broker without replicas out of the cluster.

        Tables on its root that belong to no partition any more are removed first: no cleaner visits
        the root of a broker that is not registered. A root that does not answer is left as it is.

        Raises:
            BrokerIdNotRegisteredError: There is no such broker.
            InvalidRequestError: The broker has replicas: reassign them first.
        """
        from kafka_on_spark.controller.replica_tables import TableRemoval

        check_whole_number(broker_id, "a broker id")
        check_empty(self._metadata.catch_up(), BrokerId(broker_id))
        self._node.part(TableRemoval).empty(BrokerId(broker_id))
        self._run(commands.UNREGISTER_BROKER, broker_id=broker_id)

    @_operation(COMMAND)
    def elect_leaders(
        self, kind: str = "preferred", partitions: Iterable[tuple[str, int]] | None = None
    ) -> list[TopicPartition]:
        """Elect preferred leaders; or, by kind "unclean", leaders for partitions that have none and
        can get none without losing records. Return the partitions whose leadership moved.

        Raises:
            InvalidRequestError: `kind` is another kind of election.
            UnknownTopicOrPartitionError: A partition does not exist.
        """
        if kind not in ("preferred", "unclean"):
            raise InvalidRequestError(f"can't hold a {kind!r} election: 'preferred' or 'unclean'")
        keys = self._keys(partitions)
        if kind == "preferred":
            moved = self._run(commands.ELECT_PREFERRED, keys=keys)
        else:
            from kafka_on_spark.controller.inspections import inspect_replica, plan_inspections

            found_bad = self._node.metadata.suspects  # this process's: the controller's are others
            orders = [
                each
                for each in plan_inspections(self._metadata.catch_up(), keys)
                if each.address.replica_uuid not in found_bad
            ]
            found = self._node.tasks.run(inspect_replica, orders)
            looks = [each for each in found if each is not None]
            moved = self._run(commands.ELECT_UNCLEAN, looks=looks)
        return self._names(moved)

    @_operation(COMMAND)
    def lose_replica(self, topic: str, partition: int, broker_id: int) -> None:
        """Declare a replica lost that no process finds lost by itself: it can't be read, for one.

        The replica leaves the ISR and is created again, unless it is the ISR's last member: no
        other replica has its records. If it is complete after all, it is taken back.

        Raises:
            UnknownTopicOrPartitionError: The partition does not exist.
            InvalidRequestError: The broker has no replica of it, or the replica is lost already.
        """
        [key] = keys_of(self._metadata.catch_up(), [(topic, partition)])
        check_whole_number(broker_id, "broker_id")
        self._run(commands.LOSE_REPLICA, key=key, broker_id=broker_id)

    # Reassignments

    @_operation(COMMAND)
    def plan_reassignment(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        brokers: Iterable[int] | None = None,
        throttle_bytes_per_s: int | None = None,
    ) -> ReassignmentPlan:
        """Plan replicas and leaders of topics (None: all) in balance over brokers (None: all active
        ones), racks apart, with few bytes moved. Nothing is decided; pass `targets` of the plan to
        `reassign`.

        Raises:
            UnknownTopicOrPartitionError: A topic does not exist.
            InvalidReplicaAssignmentError: A broker is unknown or takes no replicas.
            InvalidReplicationFactorError: A partition has more replicas than there are brokers.
            InvalidRequestError: The throttle is less than a byte a second.
        """
        from kafka_on_spark.observe.replicas import partition_sizes

        image = self._metadata.catch_up()
        if topics is not None:
            topics = (
                [topics] if isinstance(topics, str) else listed(topics, "topics", "topic names")
            )
        keys = partitions_of(image, topics)
        if brokers is not None:
            brokers = listed(brokers, "brokers", "broker ids")
        # Bad brokers are refused before any replica is measured.
        plan_reassignment(image, [], brokers=brokers, sizes={})
        return plan_reassignment(
            image,
            keys,
            brokers=brokers,
            sizes=partition_sizes(self._node, image, keys),
            throttle_bytes_per_s=throttle_bytes_per_s,
        )

    @_operation(COMMAND)
    def reassign(
        self,
        targets: Mapping[tuple[str, int], Sequence[int]],
        *,
        throttle_bytes_per_s: int | None = None,
    ) -> list[TopicPartition]:
        """Move partitions to `targets`, lists of replicas in their order of preference.

        All moves start or none; return the partitions that change. Replication copies the records,
        and the controller's passes do the rest. The throttle limits the sum of all moves that have
        the same throttle, belongs to the moves, and ends with them. The same target again, while
        the move is under way, changes its throttle.

        Raises:
            UnknownTopicOrPartitionError: A partition does not exist.
            ReassignmentInProgressError: A partition is moving elsewhere already.
            InvalidReplicaAssignmentError: A target is empty, names a broker twice, or one that
                is unknown or takes no replicas.
            InvalidRequestError: A partition is not named by topic and number, or the throttle is
                less than a byte a second.
        """
        image = self._metadata.catch_up()
        check_mapping(targets, "targets", "partitions and lists of broker ids")
        wanted = {key_of(image, name): target for name, target in targets.items()}
        started = self._run(
            commands.REASSIGN, targets=wanted, throttle_bytes_per_s=throttle_bytes_per_s
        )
        return self._names(started)

    @_operation(COMMAND)
    def cancel_reassignment(
        self, partitions: Iterable[tuple[str, int]] | None = None
    ) -> list[TopicPartition]:
        """Cancel the moves of partitions (None: of all that move); return the partitions.

        Raises:
            UnknownTopicOrPartitionError: A partition does not exist.
            NoReassignmentInProgressError: A partition is not moving.
            InvalidReplicaAssignmentError: No replica that would stay is in sync.
        """
        keys = self._keys(partitions)
        if keys is None:
            keys = [each.key for each in list_reassignments(self._metadata.image)]
        cancelled = self._run(commands.CANCEL_REASSIGNMENTS, keys=keys)
        return self._names(cancelled)

    @_operation(DESCRIBE, of_past=True)
    def reassignments(self) -> list[Reassignment]:
        """Return the moves under way, and the replicas that each waits for."""
        return list_reassignments(self._metadata.catch_up())

    @_operation(COMMAND)
    def reassignment_progress(self) -> list[MoveProgress]:
        """Return how many bytes the moves under way have copied, of how many."""
        from kafka_on_spark.observe.replicas import move_progress

        return move_progress(self._node)

    @_operation(DESCRIBE, of_past=True)
    def verify_reassignment(
        self, targets: Mapping[tuple[str, int], Sequence[int]]
    ) -> dict[TopicPartition, ReassignmentStatus]:
        """Return the status of each of `targets`; a partition that does not exist is no error.

        Raises:
            InvalidRequestError: A partition is not named by topic and number.
        """
        image = self._metadata.catch_up()
        statuses = {}
        check_mapping(targets, "targets", "partitions and lists of broker ids")
        for name, target in targets.items():
            pair = pair_of(name)
            topic_id = image.topic_ids.get(pair.topic)
            partitions = {} if topic_id is None else image.topics[topic_id].partitions
            statuses[pair] = status_of(partitions.get(pair.partition), target)
        return statuses

    # Consumer groups

    @_operation(DESCRIBE, of_past=True)
    def list_groups(self) -> list[str]:
        """Return the names of the consumer groups: all that have committed an offset, or have
        members."""
        from kafka_on_spark.groups.offsets import groups_of

        return groups_of(self._metadata.catch_up())

    @_operation(DESCRIBE, of_past=True)
    def describe_group(self, group: str) -> list[GroupLag]:
        """Return where a group stands in each partition where it has an offset or an owner: how
        far it is behind, and which member owns it.

        Raises:
            GroupIdNotFoundError: There is no such group.
        """
        from kafka_on_spark.groups.membership import describe_members
        from kafka_on_spark.groups.offsets import describe_group

        image = self._metadata.catch_up()
        describe_members(image, group)  # there is such a group, with members or with offsets
        return describe_group(image, group)

    @_operation(DESCRIBE, of_past=True)
    def describe_group_members(self, group: str) -> GroupMembers:
        """Return a group's state and its members, with the partitions that each has.

        Raises:
            GroupIdNotFoundError: There is no such group.
        """
        from kafka_on_spark.groups.membership import describe_members

        return describe_members(self._metadata.catch_up(), group)

    @_operation(COMMAND)
    def remove_group_members(self, group: str, members: Iterable[str] | None = None) -> list[str]:
        """Take members out of a group, some by their ids or all; return whom. One that lives joins
        again; of one that was killed, and that no other member is there to fence, nothing is left.

        Raises:
            GroupIdNotFoundError: The group has no members.
        """
        wanted = None if members is None else list(listed(members, "members", "members' ids"))
        removed = self._run(commands.REMOVE_GROUP_MEMBERS, group=group, member_ids=wanted)
        return [str(each) for each in removed]

    @_operation(COMMAND)
    def alter_group_offsets(
        self, group: str, offsets: Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, Offset]:
        """Set offsets of a group, which may be new; return them. All are set or none.

        New queries start from them. A running query of the group commits its own offsets again.

        Raises:
            InvalidGroupIdError, UnknownTopicOrPartitionError: The group's name is not allowed, or a
                partition does not exist.
            OffsetOutOfRangeError: An offset is below the log start or above the high watermark.
            NonEmptyGroupError: The group has members.
        """
        check_mapping(offsets, "offsets", "partitions and offsets")
        image = self._metadata.catch_up()
        for offset in offsets.values():
            check_whole_number(offset, "a group's offset")
        wanted = {key_of(image, name): offset for name, offset in offsets.items()}
        self._run(commands.ALTER_GROUP_OFFSETS, group=group, offsets=wanted)
        return {TopicPartition(*name): Offset(offset) for name, offset in offsets.items()}

    @_operation(COMMAND)
    def delete_group(
        self, group: str, partitions: Iterable[tuple[str, int]] | None = None
    ) -> list[TopicPartition]:
        """Remove a group's offsets, of some partitions or of all; return where it had offsets.

        Raises:
            GroupIdNotFoundError: No group of that name has committed an offset.
            UnknownTopicOrPartitionError: A partition does not exist.
            NonEmptyGroupError: The group has members.
        """
        keys = self._keys(partitions)
        left = self._run(commands.DELETE_GROUP, group=group, keys=keys)
        return self._names(left)

    # The controller, replication and checks

    @_operation(CONTROL)
    def run_controller(self, seconds: float | None = None) -> ControllerReport:
        """Control the cluster for `seconds`, or for one pass.

        A pass probes a root that fails until the root answers or the broker's session has ended.

        Raises:
            NotControllerError: Another process controls the cluster.
            RootAccessDeniedError: This process may write to no broker's root.
        """
        from kafka_on_spark.controller.controller_loop import ControllerLoop
        from kafka_on_spark.observe.history import log_transitions

        if seconds is not None:
            check_number(seconds, "seconds")
        self._node.metadata.after_replay = log_transitions
        return ControllerLoop(self._node).run(None if seconds is None else int(seconds * 1000))

    @_operation(REPLICATE)
    def replicate(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        is_sweep: bool = False,
        configs: Mapping[str, object] | None = None,
    ) -> ReplicationReport:
        """Replicate once where there is work, and inspect a slice of all replicas.

        `is_sweep`: inspect all replicas now. `configs` hold for this round alone.

        Raises:
            UnknownTopicOrPartitionError, InvalidConfigError: A topic or setting does not exist.
        """
        from kafka_on_spark.controller.replication_round import replicate

        return replicate(self._node, topics, is_sweep=is_sweep, configs=configs)

    @_operation(UPKEEP)
    def maintain(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        is_dry_run: bool = False,
    ) -> UpkeepReport:
        """Do all upkeep of replicas that is due now, and return what was done, a row a kind of
        work and replica.

        Rounds of replication and passes of the controller do a share of it by themselves
        (log.cleaner.share). `is_dry_run`: say what is due, and change nothing.

        Raises:
            InvalidRequestError: `topics` is no name and no list of them.
            UnknownTopicOrPartitionError: A topic does not exist.
        """
        from kafka_on_spark.controller.upkeep import Upkeep

        self._node.metadata.check_open()
        return self._node.part(Upkeep).maintain(topics, is_dry_run=is_dry_run)

    @_operation(DESCRIBE)
    def describe_logs(self, topics: str | Iterable[str] | None = None) -> list[PartitionLogs]:
        """Return what is decided of partitions' logs (where they start, how far they are
        compacted), what each replica's log is made of, and what of its upkeep is due.

        Reads the table of each replica, and changes nothing; a replica that can't be read has an
        error in place of figures.

        Raises:
            InvalidRequestError: `topics` is no name and no list of them.
            UnknownTopicOrPartitionError: A topic does not exist.
        """
        from kafka_on_spark.observe.replicas import by_partition, describe_logs

        image, keys = self._chosen(topics)
        logs = describe_logs(self._node, image, keys)
        return by_partition(image, keys, logs)

    @_operation(DESCRIBE)
    def metrics(self, topics: str | Iterable[str] | None = None) -> list[Metric]:
        """Return figures under the names of Kafka's MBeans where it has them: of the cluster
        (brokers, partitions, groups), of logs (sizes, segments, offsets), of upkeep (what is due
        and what fails, since when), and of this process (what it did, and how long that took).

        Those of logs are read from the replicas' tables, as by `describe_logs`; `topics` chooses
        among them. Those of the cluster are read from its metadata.

        Raises:
            InvalidRequestError: `topics` is no name and no list of them.
            UnknownTopicOrPartitionError: A topic does not exist.
        """
        from kafka_on_spark.observe.figures import metrics_of
        from kafka_on_spark.observe.replicas import describe_logs

        image, keys = self._chosen(topics)
        return metrics_of(self._node, describe_logs(self._node, image, keys))

    @_operation(DESCRIBE)
    def openmetrics(self) -> str:
        """Return the figures of the cluster and of this process as OpenMetrics, the text that
        Prometheus reads: what `metrics` has, but for those of logs. Reads the metadata alone."""
        from kafka_on_spark.observe.figures import metrics_of, openmetrics

        self._metadata.catch_up()
        return openmetrics(metrics_of(self._node))

    @_operation(FSCK)
    def fsck(self, *, deep: bool = True) -> FsckReport:
        """Check all tables against the invariants, version by version; change nothing.

        `deep`: read every segment as well. The command line also checks a cluster that can't be
        opened.

        Raises:
            KafkaStorageError: The metadata root does not answer.
        """
        from kafka_on_spark.fsck.cluster_audit import Fsck

        self._node.metadata.check_open()
        return Fsck(self._root, self._node.tasks, is_deep=deep).run()

    @_operation(QUORUM)
    def describe_quorum(self) -> QuorumDescription:
        """Return who leads the metadata log, in which epoch, how far each of its voters is, and in
        which of Kafka's states.

        Raises:
            QuorumUnavailableError: No majority of the voters answers, or none agrees on a leader.
            KafkaStorageError: The only metadata root does not answer.
        """
        self._node.metadata.check_open()
        return self._node.metadata.log.describe()

    @_operation(QUORUM)
    def add_controller(
        self, root: str | os.PathLike[str], *, root_mode: int = 0o700
    ) -> VotersChange:
        """Make an empty root another voter of the metadata quorum, while the cluster goes on: it
        copies the metadata log first, and votes then.

        Call it again if it was cut off: it goes on with what is there. The root of a former voter
        may come back as it is; one that was restored from a copy must be emptied before. Have an
        odd number of voters.

        Raises:
            DuplicateVoterError: The root is a voter.
            InvalidRootError, InconsistentClusterIdError: It can't be a metadata root.
            QuorumUnavailableError: No majority of the voters answers, or it does not catch up.
            KafkaStorageError: The new root fails; it is no voter.
            CommitOutcomeUnknownError: It may be a voter, or come to be: describe the quorum.
        """
        from kafka_on_spark.controller.preparing_roots import prepare_voter, tell_voters

        metadata, options = self._node.metadata, self._node.options
        url, image, metadata_log = one_root(root), metadata.catch_up(), metadata.log
        voter = prepare_voter(metadata_log, image, url, options, root_mode)
        metadata_log.changes.bring_up(voter)  # while others decide
        with metadata.turn() as stamp:
            voters = metadata_log.changes.add(voter, stamp)
        tell_voters(self._node)
        return VotersChange(voter, voters.voters)

    @_operation(QUORUM)
    def remove_controller(self, voter: int | str) -> VotersChange:
        """Have a voter vote no more, by its id, or its id and directory with a colon between. It
        may be lost. If it leads, another is elected first.

        Its root keeps what it has, and says that it was removed, if it can be reached.

        Raises:
            InvalidRequestError: `voter` names none.
            VoterNotFoundError: There is no such voter, or it is the only one.
            QuorumUnavailableError: No majority of the voters answers, or no other can lead.
            CommitOutcomeUnknownError: It may be removed, or come to be: describe the quorum.
        """
        from kafka_on_spark.controller.preparing_roots import mark_former_voter, tell_voters

        metadata, options = self._node.metadata, self._node.options
        metadata.catch_up()
        metadata_log = metadata.log
        found = metadata_log.tables.voters.named(voter)
        with metadata.turn() as stamp:
            voters = metadata_log.changes.remove(found.key, stamp)
        tell_voters(self._node)
        return VotersChange(found, voters.voters, mark_former_voter(found, options))

    @_operation(QUORUM)
    def elect_controller(self, to: int | str | None = None) -> Voter:
        """Have a voter lead the metadata quorum; return it. None: the one of the lowest id, of
        those with the best log.

        Raises:
            InvalidRequestError: `to` names no voter.
            VoterNotFoundError: There is no such voter.
            QuorumUnavailableError: It gets no majority of votes.
            KafkaStorageError: Its root fails.
        """
        metadata = self._node.metadata
        metadata.catch_up()
        metadata_log = metadata.log
        wanted = None if to is None else metadata_log.tables.voters.named(to).key
        with metadata.turn():
            key = metadata_log.changes.elect(wanted)
        with suppress(*ROOTS_AWAY):
            metadata.catch_up()
        return metadata_log.tables.voters.named(key.node_id)

    # What was, and what would be

    @_operation(DESCRIBE, of_past=True)
    def history(self, topic: str | None = None, partition: int | None = None) -> list[HistoryEntry]:
        """Return leaders, ISRs, epochs and causes of a partition, a topic, or all, oldest first.

        Without `topic`: of every partition that ever existed, those of deleted topics included.
        Where `metadata.max.retention.ms` is set, of what is kept.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic or partition.
            InvalidRequestError: A partition is named without its topic.
        """
        from kafka_on_spark.observe.history import partition_history
        from kafka_on_spark.observe.metadata_as_of import kept_history

        if topic is None and partition is not None:
            raise InvalidRequestError(
                f"partition {partition} of what? Name its topic as well, or leave both out"
            )
        topic_id = None if topic is None else self._metadata.catch_up().topic(topic).topic_id
        if topic is not None and partition is not None:
            partition_key(self._metadata.image, topic, partition)
        before, batches = kept_history(self._metadata)
        return partition_history(batches, topic_id, partition, after=before)

    @_operation(DESCRIBE, of_past=True)
    def broker_history(self) -> list[BrokerEvent]:
        """Return when brokers were registered, fenced, drained, came back and left, and why.

        Where `metadata.max.retention.ms` is set, of what is kept.
        """
        from kafka_on_spark.observe.history import broker_history
        from kafka_on_spark.observe.metadata_as_of import kept_history

        return broker_history(kept_history(self._metadata)[1])

    @_operation(DESCRIBE, of_past=True)
    def what_if(
        self,
        *,
        broker_dies: int | Iterable[int] | None = None,
        rack_dies: str | Iterable[str] | None = None,
    ) -> Forecast:
        """Return what the controller would decide if brokers, or all of a rack, died now.

        From the metadata alone; nothing is changed.

        Raises:
            BrokerIdNotRegisteredError: There is no such broker.
            InvalidRequestError: No broker is named, or a rack that no broker is in.
        """
        from kafka_on_spark.observe.what_if import forecast, who_dies

        image = self._metadata.catch_up()
        return forecast(image, who_dies(image, broker_dies, rack_dies))

    @_operation(DESCRIBE, of_past=True)
    def replay(self, policy: Mapping[str, object]) -> PolicyReplay:
        """Decide the recorded history again under other settings; return what differs.

        `policy` may set "unclean.leader.election.enable" and "min.insync.replicas", for all topics.
        Nothing is changed.

        Raises:
            InvalidConfigError: The log can't say what another setting would have done, or the
                value is not allowed.
        """
        from kafka_on_spark.observe.policy_replay import replay

        return replay(self._metadata.history(), policy)


def _executors_of(spark: SparkSession | None, options: StorageOptions) -> SparkExecutors | None:
    if spark is None:
        return None
    from kafka_on_spark.spark.spark_executors import SparkExecutors

    return SparkExecutors(spark, options)


def _named(frame: DataFrame, name: str | None) -> DataFrame:
    if name is not None:
        frame.createOrReplaceTempView(name)
    return frame
