"""What keeps a cluster going: passes of the controller, rounds of replication, checks of tables."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import inf

from kafka_on_spark.audit.findings import FsckReport
from kafka_on_spark.cluster.figures import metrics_of
from kafka_on_spark.cluster.openmetrics import openmetrics
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports.counting import (
    REPLICATION_BYTES_IN,
    REPLICATION_MESSAGES_IN,
    ROUND_MS,
    timed,
)
from kafka_on_spark.service.control.controller_loop import duration_ms
from kafka_on_spark.service.control.controller_report import ControllerReport
from kafka_on_spark.service.describe.log_descriptions import describe_logs
from kafka_on_spark.service.describe.metric import Metric
from kafka_on_spark.service.describe.partition_history import partition_history
from kafka_on_spark.service.describe.partition_logs import PartitionLogs, partition_logs
from kafka_on_spark.service.maintain.upkeep_report import UpkeepReport
from kafka_on_spark.service.metadata.metadata_roles import kept_history
from kafka_on_spark.service.replicate.replication_report import ReplicationReport
from kafka_on_spark.service.replicate.sweep_progress import Scope, scope_of
from kafka_on_spark.spark.wiring.accounts import COMPACT, RETAIN, UPKEEP, accounted
from kafka_on_spark.spark.wiring.fsck_services import check_tables
from kafka_on_spark.spark.wiring.services import Services


class Upkeep:
    """Runs what is due. `Cluster` documents each method under the same name."""

    def __init__(self, metadata_root: str, services: Services) -> None:
        self._root = metadata_root
        self._services = services

    def run_controller(self, seconds: float | None) -> ControllerReport:
        report = self._services.keeping.controller_loop().run(duration_ms(seconds))
        return replace(report, upkeep_failures=self._upkeep_failures())

    def _upkeep_failures(self) -> tuple[str, ...]:
        return tuple(map(str, self._services.keeping.watch.current(self._services.metadata.image)))

    def replicate(
        self,
        topics: str | Iterable[str] | None,
        is_sweep: bool,
        configs: Mapping[str, object] | None,
        *,
        copy_ms_max: float = inf,
    ) -> ReplicationReport:
        counts = self._services.counts
        with timed(counts, ROUND_MS):
            report = self._services.keeping.replication_round(configs).run(
                topics, is_sweep=is_sweep, copy_ms_max=copy_ms_max
            )
        counts.count(REPLICATION_BYTES_IN, report.copied_bytes)
        counts.count(REPLICATION_MESSAGES_IN, report.copied_records)
        accounted(self._services.keeping.retention, RETAIN).run_share(topics)
        accounted(self._services.keeping.compaction, COMPACT).run_share(topics)
        accounted(self._services.keeping.upkeep, UPKEEP).run_share(topics)
        return replace(report, upkeep_failures=self._upkeep_failures())

    def maintain(
        self,
        topics: str | Iterable[str] | None,
        is_dry_run: bool,
        after_part: Callable[[int, int], None] | None,
    ) -> UpkeepReport:
        services = self._services
        services.metadata.check_open()
        # What is deleted need not be merged before.
        retention = accounted(services.keeping.retention, RETAIN)
        compaction = accounted(services.keeping.compaction, COMPACT)
        retained = retention.run_all(topics, is_dry_run=is_dry_run)
        decided = compaction.run_all(topics, is_dry_run=is_dry_run)
        done = services.keeping.upkeep.run_all(
            topics, is_dry_run=is_dry_run, after_part=after_part or (lambda done, total: None)
        )
        report = UpkeepReport(rows=retained).plus(UpkeepReport(rows=decided)).plus(done)
        if not is_dry_run:  # from now on tombstones are about to go
            for _ in range(2):  # what is cleaned now; then the wait for tombstones begins
                report = report.plus(UpkeepReport(rows=compaction.run_all(topics)))
        return report

    def describe_logs(self, topics: str | Iterable[str] | None) -> list[PartitionLogs]:
        metadata = self._services.metadata
        image, scope, keys = self._chosen(topics)
        logs = describe_logs(image, keys, self._services.keeping.tasks.describe)
        one = next(iter(scope)) if scope is not None and len(scope) == 1 else None
        before, batches = kept_history(metadata)
        history = partition_history(batches, one, after=before)
        return partition_logs(image, keys, history, logs)

    def metrics(self, topics: str | Iterable[str] | None) -> list[Metric]:
        image, _, keys = self._chosen(topics)
        return metrics_of(
            self._services, describe_logs(image, keys, self._services.keeping.tasks.describe)
        )

    def openmetrics(self) -> str:
        services = self._services
        services.metadata.catch_up()
        return openmetrics(metrics_of(services))

    def _chosen(
        self, topics: str | Iterable[str] | None
    ) -> tuple[MetadataImage, Scope, list[PartitionKey]]:
        image = self._services.metadata.catch_up()
        scope = scope_of(image, topics)
        keys = [key for key, _ in image.partitions() if scope is None or key.topic_id in scope]
        return image, scope, keys

    def fsck(self, deep: bool) -> FsckReport:
        services = self._services
        services.metadata.check_open()
        return check_tables(self._root, services.options, services.runner, is_deep=deep)
