"""What users hold: one object for a cluster, thin over the services that it wires together."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import wraps
from inspect import getattr_static
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import pyarrow as pa

from kafka_on_spark.audit.findings import FsckReport
from kafka_on_spark.config import cluster_settings
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.reassigning import Reassigning
from kafka_on_spark.service.append_results import AppendResult
from kafka_on_spark.service.controller_loop import ControllerReport, duration_ms
from kafka_on_spark.service.history import (
    BrokerEvent,
    HistoryEntry,
    broker_history,
    partition_history,
)
from kafka_on_spark.service.partition_names import partition_key
from kafka_on_spark.service.past import PastMetadata, refusal
from kafka_on_spark.service.policy_replay import PolicyReplay, replay
from kafka_on_spark.service.reading import ReadOrder, plan_reads
from kafka_on_spark.service.replication_round import ReplicationReport
from kafka_on_spark.service.what_if import Forecast, forecast, who_dies
from kafka_on_spark.spark.creation import commit_creation, prepare_roots, roots_of
from kafka_on_spark.spark.frames import check_frame, is_frame, stage_frame
from kafka_on_spark.spark.fsck import check_tables
from kafka_on_spark.spark.services import Services
from kafka_on_spark.spark.task_runner import check_session
from kafka_on_spark.spark.views import open_view
from kafka_on_spark.storage.reader import read_rows, row_schema
from kafka_on_spark.storage.records import check_table, input_batches, table_of
from kafka_on_spark.storage.roots import StorageOptions, normalize
from kafka_on_spark.storage.staging import stage_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Cluster(Reassigning):
    """A cluster, opened by one process. Threads may share it; close it, or use it in `with`."""

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
        return cls(url, services)

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
        services = Services.open(url, options, spark, as_of)
        return (cls if as_of is None else PastCluster)(url, services)

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
        return self._services.metadata.table

    def fsck(self, *, deep: bool = True) -> FsckReport:
        """Check all tables against what must hold, version by version; change nothing.

        `deep`: read every segment, too. The command line checks one that can't be opened.

        Raises:
            KafkaStorageError: The metadata root does not answer.
        """
        services = self._services
        services.metadata.check_open()
        return check_tables(self._root, services.options, services.runner, is_deep=deep)

    # Controller and replication

    def run_controller(self, seconds: float | None = None) -> ControllerReport:
        """Control the cluster for `seconds`, or for one pass.

        A pass probes a root that fails until it answers or its session is over.

        Raises:
            NotControllerError, RootAccessDeniedError: Another controls; no root may be written.
        """
        return self._services.controller_loop().run(duration_ms(seconds))

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
            transactional_id=transactional_id,
            expected_offsets=expected_offsets,
            timeout_ms=timeout_ms,
            configs=configs,
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
        batches = self._read_batches(self._plan_reads(topic, start, end))
        return pa.Table.from_batches(batches, schema=row_schema(has_headers=True))

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
        return open_view(
            self._services,
            self._root,
            topic,
            lambda starts, ends: self._plan_reads(topic, starts, ends),
            name=name,
            start=start,
            end=end,
            has_headers=has_headers,
        )

    def _plan_reads(
        self, topic: str, start: Mapping[int, int] | None, end: Mapping[int, int] | None
    ) -> list[ReadOrder]:
        return plan_reads(self.image, topic, start, end)

    def _read_batches(self, orders: Sequence[ReadOrder]) -> Iterator[pa.RecordBatch]:
        services = self._services
        note = services.looks.note_unread
        try:
            for order in orders:
                yield from read_rows(order, services.replicas, services.options, note=note)
        finally:
            services.note_findings()

    # What was, and what would be

    def history(self, topic: str | None = None, partition: int | None = None) -> list[HistoryEntry]:
        """Return leaders, ISRs, epochs and causes of a partition, a topic, or all, oldest first.

        Without `topic`: of every partition that there ever was, those of deleted topics too.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic or partition.
            InvalidRequestError: A partition without its topic.
        """
        if topic is None and partition is not None:
            raise InvalidRequestError(
                f"partition {partition} of what? Name its topic as well, or leave both out"
            )
        topic_id = None if topic is None else self.image.topic(topic).topic_id
        if topic is not None and partition is not None:
            partition_key(self._metadata.image, topic, partition)
        return partition_history(self._metadata.history(), topic_id, partition)

    def broker_history(self) -> list[BrokerEvent]:
        """Return when brokers were registered, fenced, drained, came back and left, and why."""
        return broker_history(self._metadata.history())

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
        image = self.image
        return forecast(image, who_dies(image, broker_dies, rack_dies))

    def replay(self, policy: Mapping[str, object]) -> PolicyReplay:
        """Decide the recorded history again under other settings; return what differs.

        `policy`: of "unclean.leader.election.enable", "min.insync.replicas" and
        "broker.session.timeout.ms"; it holds for all topics. Nothing is changed.

        Raises:
            InvalidConfigError: The log can't say what another setting would have done, or the
                value is not allowed.
        """
        return replay(self._metadata.history(), policy)


class PastCluster(Cluster):
    """A cluster as it was at a moment: read-only. `Cluster.open(…, as_of=…)` gives it."""

    def _plan_reads(
        self, topic: str, start: Mapping[int, int] | None, end: Mapping[int, int] | None
    ) -> list[ReadOrder]:
        metadata = self._metadata
        assert isinstance(metadata, PastMetadata)
        return plan_reads(self.image, topic, start, end, now=metadata.now.catch_up())


PAST_METHODS: Final = frozenset(
    {
        "broker_history",
        "close",
        "describe_group",
        "describe_topic",
        "history",
        "list_groups",
        "offsets",
        "read",
        "reassignments",
        "verify_reassignment",
        "replay",
        "view",
        "what_if",
    }
)
"""What a cluster of the past can do. Any other method is refused before it begins, also one that
is added later: some write files before they commit."""


def _refused(method: FunctionType) -> Callable[..., NoReturn]:
    @wraps(method)
    def refuse(cluster: Cluster, *arguments: object, **named: object) -> NoReturn:
        raise refusal(method.__name__.replace("_", " "), cluster.image)

    return refuse


for _name in dir(Cluster):
    _method = getattr_static(Cluster, _name)
    _is_public = isinstance(_method, FunctionType) and not _name.startswith("_")
    if _is_public and _name not in PAST_METHODS:
        setattr(PastCluster, _name, _refused(_method))
