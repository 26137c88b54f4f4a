"""The services of a cluster as of a moment.

They have nothing that commits: no append, no round, no controller, no findings.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.read_order import ReadOrder, plan_reads
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.reports import PartitionReport
from kafka_on_spark.node.opening import open_metadata, replica_store
from kafka_on_spark.node.task_runner import check_session
from kafka_on_spark.observe.metadata_as_of import MetadataAsOf, metadata_as_of
from kafka_on_spark.store.accounts import OPEN
from kafka_on_spark.store.clock import SystemClock
from kafka_on_spark.store.requests import operating
from kafka_on_spark.store.roots import StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicesAsOf:
    """What records are read with, of a cluster as of a moment: what `Services` has for that, too.

    Attributes:
        options: Credentials of all roots.
        metadata: The image of the moment, and the history up to it.
        replicas: Open replicas of this process.
        spark: What scans views; None: nothing does.
        table: URL of the metadata log.
    """

    options: StorageOptions
    metadata: MetadataAsOf
    replicas: ReplicaStore
    spark: "SparkSession | None"
    _now: MetadataService

    @classmethod
    def open(
        cls,
        metadata_root: str,
        options: StorageOptions,
        spark: "SparkSession | None",
        as_of: object,
    ) -> "ServicesAsOf":
        """Return the services of the cluster at `metadata_root` as it was.

        Raises: as `open_metadata`.
            ClusterNotFoundError: There is none.
            InvalidRequestError: `spark` is a Spark Connect session, or `as_of` names no past.
        """
        if spark is not None:
            check_session(spark)
        with operating(OPEN):
            now = open_metadata(metadata_root, options)
            metadata = metadata_as_of(now, as_of, now_ms=SystemClock().now_ms())
        return cls(
            options=options,
            metadata=metadata,
            replicas=replica_store(options),
            spark=spark,
            _now=now,
        )

    @property
    def table(self) -> str:
        """URL of the metadata log, a Delta table."""
        return self._now.table

    def plan_reads(
        self, topic: str, start: Mapping[int, int] | None, end: Mapping[int, int] | None
    ) -> list[ReadOrder]:
        """Return orders for what was committed at the moment, from the replicas of now first."""
        return plan_reads(self.metadata.image, topic, start, end, now=self.metadata.image_now())

    def note_unread(
        self, address: ReplicaAddress, segment: Segment | None, error: KafkaOnSparkError
    ) -> None:
        """Do nothing: what a read of the past finds says nothing of now."""

    def finish_compaction(self, order: ReadOrder) -> None:
        """Do nothing: who reads the past changes nothing."""

    def note_findings(self, reports: Iterable[PartitionReport] = ()) -> None:
        """Do nothing: nothing was noted."""

    def close(self) -> None:
        """Refuse what is read of the metadata log afterwards."""
        self._now.close()
