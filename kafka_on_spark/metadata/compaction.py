"""How far a partition's log is compacted, as decided: part of its registration.

Apart from the registration, since most partitions are not compacted and share one value.
"""

from dataclasses import dataclass, replace
from typing import Final, Self

from kafka_on_spark.base.errors import ensure
from kafka_on_spark.base.ids import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The offsets of one compaction decision. None falls, but by an unclean election.

    What a replica keeps is a function of its log, `compacted_below` and `tombstones_below`: see
    `log.flaws`. They only rise, so it does not matter which decisions a replica applies
    on the way to the newest.

    Attributes:
        compacted_below: Below it only the last record of each key is kept. At most the last stable
            offset.
        cleaned_below: The `compacted_below` of the decision before, which every member of the ISR
            had finished: what is older is gone from every replica that may be read.
        expiring_below: Tombstones below it go once `delete.retention.ms` have passed since
            `expiring_since_ms`; equal to `tombstones_below`: none are about to.
        tombstones_below: Below it no tombstone is kept.
        expiring_since_ms: When `expiring_below` was decided, by the controller's clock; 0 if no
            tombstones are about to go.
    """

    compacted_below: Offset = Offset(0)
    cleaned_below: Offset = Offset(0)
    expiring_below: Offset = Offset(0)
    tombstones_below: Offset = Offset(0)
    expiring_since_ms: int = 0

    def __post_init__(self) -> None:
        ensure(
            0
            <= self.tombstones_below
            <= self.expiring_below
            <= self.cleaned_below
            <= self.compacted_below
            and self.expiring_since_ms >= 0,
            self,
        )

    @property
    def is_expiring(self) -> bool:
        """Whether tombstones wait for `delete.retention.ms` to pass."""
        return self.expiring_below > self.tombstones_below

    def continues(self, before: Self) -> bool:
        """Return whether no offset of this is below the one of `before`."""
        return (
            self.compacted_below >= before.compacted_below
            and self.cleaned_below >= before.cleaned_below
            and self.expiring_below >= before.expiring_below
            and self.tombstones_below >= before.tombstones_below
        )

    def lowered_to(self, high_watermark: Offset) -> Self:
        """Return this for a log that an unclean election has cut to `high_watermark`."""
        if self.compacted_below <= high_watermark:
            return self
        lowered = replace(
            self,
            compacted_below=high_watermark,
            cleaned_below=min(self.cleaned_below, high_watermark),
            expiring_below=min(self.expiring_below, high_watermark),
            tombstones_below=min(self.tombstones_below, high_watermark),
        )
        return lowered if lowered.is_expiring else replace(lowered, expiring_since_ms=0)


NOT_COMPACTED: Final = Compaction()
"""Of a partition for which no compaction was decided."""
