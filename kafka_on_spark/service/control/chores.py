"""What a pass of the controller does after its decisions about leaders: retention, expiry,
compaction, the removal of tables, and a share of upkeep.

Apart from the loop, since none of it is urgent, and each may take seconds: between two of them the
controller renews its lease, or it would count as dead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.compact.compaction_passes import CompactionPasses
from kafka_on_spark.service.control.expiring import Expiry
from kafka_on_spark.service.control.removing_replicas import CheckControls
from kafka_on_spark.service.control.silent_groups import SilentGroups
from kafka_on_spark.service.control.term import Term
from kafka_on_spark.service.retain.retention import Retention

Clean = Callable[[CheckControls], int]


class Maintain(Protocol):
    """Does a share of upkeep, and calls `after_part` after each part of it."""

    def __call__(self, *, after_part: Callable[[], None]) -> object:
        """Do it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoresDone:
    """What was done.

    Attributes:
        records_deleted: Records that retention deleted.
        tables_removed: Tables of replicas that are assigned no more.
    """

    records_deleted: int = 0
    tables_removed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chores:
    """The services that do each of it; None: it is not done."""

    retention: Retention | None = None
    expiry: Expiry | None = None
    silent_groups: SilentGroups | None = None
    compaction: CompactionPasses | None = None
    clean: Clean | None = None
    maintain: Maintain | None = None

    def run(
        self, term: Term, image: Callable[[], MetadataImage], after_part: Callable[[], None]
    ) -> ChoresDone:
        """Do all of it under a term, and call `after_part` after each part of it.

        Raises:
            NotControllerError: Another controller has claimed.
        """
        records_deleted = tables_removed = 0
        if self.retention is not None:
            records_deleted = self.retention.run(submit=term.submit).deleted_records
        after_part()
        if self.expiry is not None:
            self.expiry.run(image(), term.submit)
        after_part()
        if self.silent_groups is not None:
            self.silent_groups.run(image(), term.submit)
        after_part()
        if self.compaction is not None:
            self.compaction.run(submit=term.submit)
        after_part()
        if self.clean is not None:
            tables_removed = self.clean(term.check)
        after_part()
        if self.maintain is not None:
            self.maintain(after_part=after_part)
        return ChoresDone(records_deleted=records_deleted, tables_removed=tables_removed)
