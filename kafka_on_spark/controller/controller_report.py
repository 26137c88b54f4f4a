"""What a controller's passes decided: as they go on, and as a report.

Apart from the loop, since who runs one, serves it or prints it needs no more than this.
"""

from dataclasses import dataclass, field

from kafka_on_spark.base.ids import BrokerId, PartitionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerReport:
    """What a controller's passes decided.

    Attributes:
        fenced: Brokers that were fenced.
        unfenced: Brokers that came back.
        leaders_moved: Partitions that got another leader.
        passes: How many passes were made.
        tables_removed: Tables that were removed: of deleted topics and of replicas moved away.
        denied: Brokers whose roots refuse this process, so that it can't judge them.
        records_deleted: Records that retention deleted, in all partitions.
    """

    fenced: tuple[BrokerId, ...] = ()
    unfenced: tuple[BrokerId, ...] = ()
    leaders_moved: int = 0
    passes: int = 0
    tables_removed: int = 0
    denied: tuple[BrokerId, ...] = ()
    records_deleted: int = 0


@dataclass(slots=True)
class Tally:
    """What passes have decided so far."""

    fenced: list[BrokerId] = field(default_factory=list)
    unfenced: list[BrokerId] = field(default_factory=list)
    moved: set[PartitionKey] = field(default_factory=set)
    passes: int = 0
    removed: int = 0
    denied: list[BrokerId] = field(default_factory=list)
    records_deleted: int = 0

    def report(self) -> ControllerReport:
        """Return it as a report."""
        return ControllerReport(
            fenced=tuple(self.fenced),
            unfenced=tuple(self.unfenced),
            leaders_moved=len(self.moved),
            passes=self.passes,
            tables_removed=self.removed,
            denied=tuple(self.denied),
            records_deleted=self.records_deleted,
        )
