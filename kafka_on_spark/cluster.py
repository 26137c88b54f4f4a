"""What users hold: one object for a cluster, thin over the services that it wires together."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from kafka_on_spark.audit.findings import FsckReport
from kafka_on_spark.config import read_cluster_toml
from kafka_on_spark.ids import BrokerId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.reassigning import Reassigning
from kafka_on_spark.service.append_results import AppendResult
from kafka_on_spark.service.controller_loop import ControllerReport
from kafka_on_spark.service.creation import check_brokers, create_cluster
from kafka_on_spark.service.history import HistoryEntry, partition_history
from kafka_on_spark.service.reading import ReadOrder, partition_key, plan_reads
from kafka_on_spark.service.replication_round import ReplicationReport
from kafka_on_spark.spark.creation import prepare_roots
from kafka_on_spark.spark.frames import check_frame, is_frame, stage_frame
from kafka_on_spark.spark.fsck import check_tables
from kafka_on_spark.spark.services import Services
from kafka_on_spark.spark.task_runner import check_session
from kafka_on_spark.storage.metadata_log import metadata_table_uri
from kafka_on_spark.storage.reader import read_rows, row_schema
from kafka_on_spark.storage.records import check_table, input_batches, table_of
from kafka_on_spark.storage.roots import StorageOptions, normalize
from kafka_on_spark.storage.staging import stage_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        settings = {**read_cluster_toml(), **(configs or {})}
        roots = {BrokerId(int(each)): normalize(root) for each, root in brokers.items()}
        check_brokers(roots, racks or {})
        create_cluster(MetadataImage(), "", [], settings)  # bad settings before the first write
        url = normalize(metadata_root)
        cluster_id, identities = prepare_roots(url, roots, racks or {}, options)
        cluster = cls(url, Services.open(url, options, spark))
        cluster._services.commands().run_alone(
            lambda image: create_cluster(image, cluster_id, identities, settings),
            timeout_ms=cluster._services.timeout_ms,
        )
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
            InvalidRequestError: `spark` is a Spark Connect session.
        """
        options = StorageOptions(storage_options)
        url = normalize(metadata_root)
        return cls(url, Services.open(url, options, spark))

    def close(self) -> None:
        """Finish what is due (checkpoints) and let the threads go."""
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
        return metadata_table_uri(self._root)

    def fsck(self, *, deep: bool = True) -> FsckReport:
        """Check all tables against what must hold, version by version; change nothing.

        `deep`: read every segment, too. The command line checks one that can't be opened.

        Raises:
            KafkaStorageError: The metadata root does not answer.
        """
        services = self._services
        return check_tables(self._root, services.options, services.runner, is_deep=deep)

    # Controller and replication

    def run_controller(self, seconds: float | None = None) -> ControllerReport:
        """Control the cluster for `seconds`, or for one pass.

        A pass keeps probing a root that fails until it answers or its session is over.

        Raises:
            NotControllerError: Another controller has taken over meanwhile.
        """
        duration_ms = None if seconds is None else int(seconds * 1000)
        return self._services.controller_loop().run(duration_ms)

    def replicate(
        self,
        topics: Iterable[str] | None = None,
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
