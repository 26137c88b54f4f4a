"""What keeps a cluster going: passes of the controller, rounds of replication, checks of tables."""

from collections.abc import Callable, Iterable, Mapping

from kafka_on_spark.audit.findings import FsckReport
from kafka_on_spark.service.control.controller_loop import ControllerReport, duration_ms
from kafka_on_spark.service.maintain.upkeep_report import UpkeepReport
from kafka_on_spark.service.replicate.replication_round import ReplicationReport
from kafka_on_spark.spark.wiring.fsck_services import check_tables
from kafka_on_spark.spark.wiring.services import Services


class Upkeep:
    """Runs what is due. `Cluster` documents each method under the same name."""

    def __init__(self, metadata_root: str, services: Services) -> None:
        self._root = metadata_root
        self._services = services

    def run_controller(self, seconds: float | None) -> ControllerReport:
        return self._services.controller_loop().run(duration_ms(seconds))

    def replicate(
        self,
        topics: str | Iterable[str] | None,
        is_sweep: bool,
        configs: Mapping[str, object] | None,
    ) -> ReplicationReport:
        report = self._services.replication_round(configs).run(topics, is_sweep=is_sweep)
        self._services.retention.run_share(topics)
        self._services.compaction.run_share(topics)
        self._services.upkeep.run_share(topics)
        return report

    def maintain(
        self,
        topics: str | Iterable[str] | None,
        is_dry_run: bool,
        after_part: Callable[[int, int], None] | None,
    ) -> UpkeepReport:
        services = self._services
        services.metadata.check_open()
        # What is deleted need not be merged before.
        retained = services.retention.run_all(topics, is_dry_run=is_dry_run)
        if not is_dry_run:
            services.compaction.run_all(topics)
        done = services.upkeep.run_all(
            topics, is_dry_run=is_dry_run, after_part=after_part or (lambda done, total: None)
        )
        if not is_dry_run:
            services.compaction.run_all(topics)  # from now on tombstones are about to go
        return UpkeepReport(rows=retained).plus(done)

    def fsck(self, deep: bool) -> FsckReport:
        services = self._services
        services.metadata.check_open()
        return check_tables(self._root, services.options, services.runner, is_deep=deep)
