"""What users hold: one object for a cluster, made of parts, each thin over the services."""

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from kafka_on_spark.audit.findings import FsckReport
from kafka_on_spark.cluster.parts import ClusterParts, live_parts, parts_as_of
from kafka_on_spark.config import cluster_settings
from kafka_on_spark.controller.moves.reassignment import Reassignment, ReassignmentStatus
from kafka_on_spark.controller.moves.reassignment_plan import ReassignmentPlan
from kafka_on_spark.ids import Offset, TopicId, TopicPartition
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.offsets.group_offsets import GroupLag
from kafka_on_spark.service.append.plan.append_results import AppendResult
from kafka_on_spark.service.control.controller_loop import ControllerReport
from kafka_on_spark.service.describe.descriptions import PartitionOffsets, TopicDescription
from kafka_on_spark.service.describe.partition_history import BrokerEvent, HistoryEntry
from kafka_on_spark.service.describe.sizes import MoveProgress
from kafka_on_spark.service.replicate.replication_round import ReplicationReport
from kafka_on_spark.service.what_if.policy_replay import PolicyReplay
from kafka_on_spark.service.what_if.what_if import Forecast
from kafka_on_spark.spark.run.task_runner import check_session
from kafka_on_spark.spark.wiring.preparing_roots import commit_creation, prepare_roots, roots_of
from kafka_on_spark.spark.wiring.read_services import ServicesAsOf
from kafka_on_spark.spark.wiring.services import Services
from kafka_on_spark.storage.roots.roots import StorageOptions, normalize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Cluster:
    """A cluster, opened by one process. Threads may share it; close it, or use it in `with`."""

    def __init__(
        self, metadata_root: str, services: Services | ServicesAsOf, parts: ClusterParts
    ) -> None:
        self._root = metadata_root
        self._services = services
        self._metadata = services.metadata
        self._answers = parts.answers
        self._reads = parts.reads
        self._requests = parts.requests
        self._brokers = parts.brokers
        self._appends = parts.appends
        self._upkeep = parts.upkeep

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
        root_mode: int = 0o700,
    ) -> "Cluster":
        """Make a cluster at `metadata_root` with `brokers` (id → root), and open it.

        Each root is tested first. A creation that was cut off before its commit is continued.
        Local folders that are made get the permissions `root_mode`.

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
        made = prepare_roots(url, roots, racks or {}, options, root_mode)
        services = Services.open(url, options, spark)
        commit_creation(services, url, *made, settings)
        return cls(url, services, live_parts(url, services))

    @classmethod
    def open(
        cls,
        metadata_root: str | os.PathLike[str],
        spark: "SparkSession | None" = None,
        *,
        as_of: datetime | int | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> "Cluster":
        """Open the cluster at `metadata_root`; tasks run on `spark`, or in threads without.

        `as_of`: as it was at a moment, or at a metadata offset (exclusive, as `image.offset` is).
        It is read-only then: what was committed at that time can be read, where replicas still
        have it, and all that would change something is refused.

        Raises:
            ClusterNotFoundError: There is none.
            InvalidRequestError: `spark` is no session, or a Spark Connect one; `as_of` is in the
                future, has no time zone, or was before the cluster.
        """
        options = StorageOptions(storage_options)
        url = normalize(metadata_root)
        if as_of is None:
            services = Services.open(url, options, spark)
            return cls(url, services, live_parts(url, services))
        past = ServicesAsOf.open(url, options, spark, as_of)
        return cls(url, past, parts_as_of(url, past))

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
    def root(self) -> str:
        """URL of the metadata root: the option `cluster` of the data source."""
        return self._root

    @property
    def metadata_table(self) -> str:
        """URL of the metadata log, a Delta table: for SQL."""
        return self._services.table

    @property
    def image(self) -> MetadataImage:
        """The cluster's metadata of now."""
        return self._metadata.catch_up()

    # Topics

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
        return self._requests.create_topic(
            name, partitions, replication_factor, replica_assignment, configs
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
        return self._requests.add_partitions(name, to, replica_assignment)

    def remove_partitions(self, name: str, *, to: int, records: str = "refuse") -> int:
        """Leave a topic its first `to` partitions; return how many are gone.

        `records` says what becomes of theirs: "refuse" to remove a partition that has any, or
        "drop" them. Kafka can't remove partitions.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
            InvalidPartitionsError, PolicyViolationError: What is asked for is not allowed.
            InvalidRequestError: `records` is neither word.
        """
        return self._requests.remove_partitions(name, to, records)

    def delete_topic(self, name: str) -> None:
        """Delete a topic: gone at once for users.

        The controller's passes remove its tables, once file.delete.delay.ms are over.

        Raises:
            UnknownTopicOrPartitionError: There is none.
        """
        self._requests.delete_topic(name)

    def alter_topic_configs(self, name: str, configs: Mapping[str, object | None]) -> None:
        """Set a topic's settings; None removes one.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
            InvalidConfigError: A setting is unknown or its value not allowed.
        """
        self._requests.alter_topic_configs(name, configs)

    def alter_cluster_configs(self, configs: Mapping[str, object | None]) -> None:
        """Set settings of the cluster, which hold at once where no topic has its own; None removes
        one, so that the default holds again.

        Raises:
            InvalidConfigError: A setting is unknown or its value not allowed.
        """
        self._requests.alter_cluster_configs(configs)

    def describe_topic(self, name: str) -> TopicDescription:
        """Return a topic's partitions, settings, and which of those are not enforced.

        Raises:
            UnknownTopicOrPartitionError: There is none.
        """
        return self._answers.describe_topic(name)

    def offsets(self, name: str) -> dict[int, PartitionOffsets]:
        """Return each partition's log start, high watermark and recorded log end.

        From the metadata alone, so the log end is that of whoever led when it was recorded: after
        a clean election the old leader's, until a round or an append has looked at the new one.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
        """
        return self._answers.offsets(name)

    # Records

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

        With `producer_id` and `sequence` a retry of the same records is appended once. Of the
        writers under one `transactional_id`, the newest fences the others; this object is one.
        `expected_offsets`: append only if partitions end there. `configs`: auto.controller=false.

        Raises:
            UnknownTopicOrPartitionError, InvalidRequestError: Nothing was appended.
            InvalidRecordError, MessageTooLargeError: Nothing was appended.
            NotEnoughReplicasError: Nothing was appended.
            RequestTimedOutError, NotEnoughReplicasAfterAppendError: Unknown; retry with the
                same producer and sequence.
            DuplicateSequenceError, OutOfOrderSequenceError: As their docstrings say.
            ProducerFencedError, UnexpectedOffsetError: As their docstrings say.
        """
        return self._appends.append(
            topic,
            records,
            acks=acks,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            sequence=sequence,
            transactional_id=transactional_id,
            expected_offsets=expected_offsets,
            timeout_ms=timeout_ms,
            configs=configs,
        )

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
        return self._reads.read(topic, start, end)

    def view(
        self,
        topic: str,
        name: str | None = None,
        *,
        start: Mapping[int, int] | datetime | None = None,
        end: Mapping[int, int] | datetime | None = None,
        has_headers: bool = False,
    ) -> "DataFrame":
        """Return what is committed now as a DataFrame that Spark itself scans; in SQL as `name`.

        The rows are those of ``format("kafka_on_spark")``, with `has_headers` their headers. Only
        the columns that a query asks for are read; conditions on `partition` and `timestamp` leave
        out segments. `start` and `end` do so, too: offsets by partition, or moments (records whose
        timestamp is not before the one and before the other).

        The view is frozen: appends, elections, moves and deleted records change none of its rows.
        It names files; once a cleaner has removed them (of a deleted topic, a replica that moved
        away) or a disk is lost, a query fails and names the file: make the view again.

        Raises:
            UnknownTopicOrPartitionError, OffsetOutOfRangeError: As in `plan_reads`.
            InvalidRequestError: There is no Spark that can scan the roots, `name` is no name, or a
                moment has no time zone.
            KafkaStorageError: No replica has a range; or the view's table can't be written.
        """
        return self._reads.view(topic, name, start, end, has_headers)

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
        return self._requests.delete_records(offsets)

    # Brokers, leaders and replicas

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
        self._brokers.register_broker(broker_id, root, rack, root_mode)

    def drain_broker(self, broker_id: int) -> list[TopicPartition]:
        """Have a broker lead nothing, then leave the ISRs: two steps, and nothing offline between.

        Return the partitions whose leadership moved. A partition that nobody else in sync can
        lead stays with it until somebody can: the controller's passes go on with it.

        Raises:
            BrokerIdNotRegisteredError: There is no such broker.
            InvalidRequestError: It is fenced, and leads nothing.
        """
        return self._brokers.drain_broker(broker_id)

    def resume_broker(self, broker_id: int) -> None:
        """Let a draining broker lead and be in sync again.

        Raises:
            BrokerIdNotRegisteredError: There is no such broker.
            InvalidRequestError: It is fenced: it comes back by answering.
        """
        self._requests.resume_broker(broker_id)

    def unregister_broker(self, broker_id: int) -> None:
        """Take a broker without replicas out of the cluster.

        Tables on its root that are nobody's any more are removed first, since nobody looks at the
        root of a broker that is none; a root that does not answer is left as it is.

        Raises:
            BrokerIdNotRegisteredError: There is no such broker.
            InvalidRequestError: It has replicas: reassign them first.
        """
        self._brokers.unregister_broker(broker_id)

    def elect_leaders(
        self, kind: str = "preferred", partitions: Iterable[tuple[str, int]] | None = None
    ) -> list[TopicPartition]:
        """Give partitions their preferred leaders back; or ("unclean") leaders to those that have
        none and can get none without losing records. Return which moved.

        Raises:
            InvalidRequestError: Another kind of election.
            UnknownTopicOrPartitionError: A partition does not exist.
        """
        return self._requests.elect_leaders(kind, partitions)

    def lose_replica(self, topic: str, partition: int, broker_id: int) -> None:
        """Say that a replica is lost which no process can find so: it fails to be read, for one.

        It leaves the ISR and is made anew, unless it is the ISR's last member: nobody else has its
        records. If it is whole after all, it is taken back.

        Raises:
            UnknownTopicOrPartitionError: The partition does not exist.
            InvalidRequestError: The broker has no replica of it, or that is lost already.
        """
        self._requests.lose_replica(topic, partition, broker_id)

    # Reassignments

    def plan_reassignment(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        brokers: Iterable[int] | None = None,
        throttle_bytes_per_s: int | None = None,
    ) -> ReassignmentPlan:
        """Plan replicas and leaders of topics (None: all) in balance over brokers (None: all that
        are active), racks apart, with few bytes moved. Decides nothing; give `targets` of the
        plan to `reassign`.

        Raises:
            UnknownTopicOrPartitionError: A topic does not exist.
            InvalidReplicaAssignmentError: A broker is unknown or takes no replicas.
            InvalidReplicationFactorError: A partition has more replicas than there are brokers.
            InvalidRequestError: The throttle is less than a byte a second.
        """
        return self._requests.plan_reassignment(topics, brokers, throttle_bytes_per_s)

    def reassign(
        self,
        targets: Mapping[tuple[str, int], Sequence[int]],
        *,
        throttle_bytes_per_s: int | None = None,
    ) -> list[TopicPartition]:
        """Have partitions move to `targets`, the replicas in their order of preference.

        All start or none does; return those that change. Replication copies, and the controller's
        passes do the rest. The throttle holds for the copying of all moves with the same one in
        sum, is a part of the moves, and ends with them; the same target again, under way,
        changes its throttle.

        Raises:
            UnknownTopicOrPartitionError: A partition does not exist.
            ReassignmentInProgressError: A partition is moving elsewhere already.
            InvalidReplicaAssignmentError: A target is empty, names a broker twice, or one that
                is unknown or takes no replicas.
            InvalidRequestError: A partition is not named by topic and number, or the throttle is
                less than a byte a second.
        """
        return self._requests.reassign(targets, throttle_bytes_per_s)

    def cancel_reassignment(
        self, partitions: Iterable[tuple[str, int]] | None = None
    ) -> list[TopicPartition]:
        """Have partitions stay where they were (None: all that move); return them.

        Raises:
            UnknownTopicOrPartitionError: A partition does not exist.
            NoReassignmentInProgressError: A partition is not moving.
            InvalidReplicaAssignmentError: Of those that would stay nobody is in sync.
        """
        return self._requests.cancel_reassignment(partitions)

    def reassignments(self) -> list[Reassignment]:
        """Return the moves under way, and whom each waits for."""
        return self._answers.reassignments()

    def reassignment_progress(self) -> list[MoveProgress]:
        """Return how many bytes the moves under way have copied, of how many."""
        return self._requests.reassignment_progress()

    def verify_reassignment(
        self, targets: Mapping[tuple[str, int], Sequence[int]]
    ) -> dict[TopicPartition, ReassignmentStatus]:
        """Return what became of each of `targets`; a partition that is not there is no error.

        Raises:
            InvalidRequestError: A partition is not named by topic and number.
        """
        return self._answers.verify_reassignment(targets)

    # Consumer groups

    def list_groups(self) -> list[str]:
        """Return the names of the consumer groups: all that have committed an offset."""
        return self._answers.list_groups()

    def describe_group(self, group: str) -> list[GroupLag]:
        """Return where a group stands in each partition, and how far it is behind.

        Raises:
            GroupIdNotFoundError: No group of that name has committed an offset.
        """
        return self._answers.describe_group(group)

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
        return self._requests.alter_group_offsets(group, offsets)

    def delete_group(
        self, group: str, partitions: Iterable[tuple[str, int]] | None = None
    ) -> list[TopicPartition]:
        """Remove a group's offsets, of some partitions or of all; return where it had one.

        Raises:
            GroupIdNotFoundError: No group of that name has committed an offset.
            UnknownTopicOrPartitionError: A partition does not exist.
        """
        return self._requests.delete_group(group, partitions)

    # The controller, replication and checks

    def run_controller(self, seconds: float | None = None) -> ControllerReport:
        """Control the cluster for `seconds`, or for one pass.

        A pass probes a root that fails until it answers or its session is over.

        Raises:
            NotControllerError, RootAccessDeniedError: Another controls; no root may be written.
        """
        return self._upkeep.run_controller(seconds)

    def replicate(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        is_sweep: bool = False,
        configs: Mapping[str, object] | None = None,
    ) -> ReplicationReport:
        """Replicate once where there is work, and look at a slice of all replicas.

        `is_sweep`: look at all of them now. `configs` hold for this round alone.

        Raises:
            UnknownTopicOrPartitionError, InvalidConfigError: A topic or setting does not exist.
        """
        return self._upkeep.replicate(topics, is_sweep, configs)

    def fsck(self, *, deep: bool = True) -> FsckReport:
        """Check all tables against what must hold, version by version; change nothing.

        `deep`: read every segment, too. The command line checks one that can't be opened.

        Raises:
            KafkaStorageError: The metadata root does not answer.
        """
        return self._upkeep.fsck(deep)

    # What was, and what would be

    def history(self, topic: str | None = None, partition: int | None = None) -> list[HistoryEntry]:
        """Return leaders, ISRs, epochs and causes of a partition, a topic, or all, oldest first.

        Without `topic`: of every partition that there ever was, those of deleted topics too.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic or partition.
            InvalidRequestError: A partition without its topic.
        """
        return self._answers.history(topic, partition)

    def broker_history(self) -> list[BrokerEvent]:
        """Return when brokers were registered, fenced, drained, came back and left, and why."""
        return self._answers.broker_history()

    def what_if(
        self,
        *,
        broker_dies: int | Iterable[int] | None = None,
        rack_dies: str | Iterable[str] | None = None,
    ) -> Forecast:
        """Return what the controller would decide if brokers, or all of a rack, died now.

        From the metadata alone, and nothing is changed.

        Raises:
            BrokerIdNotRegisteredError: There is no such broker.
            InvalidRequestError: Nobody is named, or a rack that no broker is in.
        """
        return self._answers.what_if(broker_dies, rack_dies)

    def replay(self, policy: Mapping[str, object]) -> PolicyReplay:
        """Decide the recorded history again under other settings; return what differs.

        `policy`: of "unclean.leader.election.enable", "min.insync.replicas" and
        "broker.session.timeout.ms"; it holds for all topics. Nothing is changed.

        Raises:
            InvalidConfigError: The log can't say what another setting would have done, or the
                value is not allowed.
        """
        return self._answers.replay(policy)
