"""Where a query of the metadata log stands: its offset, and what it has seen there.

Pure. A query has read what was committed, so what it has read is never another thing later, unless
people break the quorum: by a voter that is restored from a copy, or by `metadata-quorum force`,
which begins a new generation of the log without what only the lost voters had. So a query's offset
also says which write it stands behind, and in which generation. It goes on there or not at all: it
can't take back what it has told.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka_on_spark.errors import (
    InconsistentClusterError,
    InconsistentClusterIdError,
    InvalidRequestError,
)
from kafka_on_spark.ids import Offset, QuorumEpoch
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.offsets.positions import EARLIEST, LATEST
from kafka_on_spark.raft.log.lookups import has_record_before
from kafka_on_spark.raft.log.raft_log import RaftLog

OFFSET: Final = "metadata_offset"
"""The key by which a query's offset is one of the metadata log."""

FORMAT_VERSION: Final = 1
_ADVICE: Final = (
    "what this query has read may be gone; begin anew, with a new checkpoint and startingOffsets"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataOffset:
    """Where a query stands in the metadata log.

    Attributes:
        offset: The next record's.
        cluster_id: The cluster's.
        generation: Of the cluster, when that was committed.
        epoch: The quorum's, in which the record before was appended.
        write_id: The write that ends there; None: the log does not know it any more, or `offset`
            is within a decision.
    """

    offset: Offset
    cluster_id: str | None
    generation: int
    epoch: QuorumEpoch
    write_id: str | None

    @classmethod
    def at(cls, offset: Offset, image: MetadataImage, log: RaftLog) -> "MetadataOffset":
        """Return a place in a log that is committed to there, and whose image is known."""
        before = log.batch_before(offset)
        return cls(
            offset=offset,
            cluster_id=image.cluster_id,
            generation=image.generation,
            epoch=log.epoch_before(offset),
            write_id=None if before is None else before.write_id,
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as Spark stores it, keys sorted: Spark compares texts."""
        return {
            "cluster_id": self.cluster_id,
            "epoch": self.epoch,
            "generation": self.generation,
            OFFSET: self.offset,
            "version": FORMAT_VERSION,
            "write_id": self.write_id,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "MetadataOffset":
        """Return what `to_json` wrote.

        Raises:
            InvalidRequestError: It is another source's, or its version is newer.
        """
        try:
            version = int(stored["version"])
            if version > FORMAT_VERSION:
                raise InvalidRequestError(
                    f"the offset has format version {version}, this kafka_on_spark reads up to"
                    f" {FORMAT_VERSION}: use a newer kafka_on_spark"
                )
            return cls(
                offset=Offset(int(stored[OFFSET])),
                cluster_id=stored["cluster_id"],
                generation=int(stored["generation"]),
                epoch=QuorumEpoch(int(stored["epoch"])),
                write_id=stored["write_id"],
            )
        except (KeyError, TypeError, ValueError):
            raise InvalidRequestError(
                f"a stored offset is not of the metadata log: {stored!r:.200}; a query of the"
                " metadata needs a checkpoint of its own"
            ) from None


def check_goes_on(stored: MetadataOffset, image: MetadataImage, log: RaftLog) -> None:
    """Check that a query may go on from where it stands. `log`: a leader's, committed up to the end
    of `image`.

    Raises:
        InconsistentClusterIdError: It has read another cluster's.
        InconsistentClusterError: The cluster was forced, or rolled back, since it stood there.
    """
    if stored.cluster_id != image.cluster_id:
        raise InconsistentClusterIdError(
            f"the stored offset is of the metadata log of cluster {stored.cluster_id}, not of"
            f" {image.cluster_id}: start with a new checkpoint"
        )
    if stored.generation != image.generation:
        raise InconsistentClusterError(
            f"the cluster is in generation {image.generation} and this query has read"
            f" {stored.offset} records of the metadata log in generation {stored.generation}: the"
            f" metadata quorum was forced, and {_ADVICE}"
        )
    if stored.offset > image.offset:
        raise InconsistentClusterError(
            f"the metadata log is committed up to {image.offset} and this query has read up to"
            f" {stored.offset}: it went back, and {_ADVICE}"
        )
    if not has_record_before(log, stored.offset, stored.epoch, stored.write_id):
        raise InconsistentClusterError(
            f"the metadata log has another decision before {stored.offset} than this query has"
            f" read there: it went back, and {_ADVICE}"
        )


def starting_offset(position: Offset | str, end: Offset) -> Offset:
    """Return where a new query, or a batch, begins in a log that is committed up to `end`.

    Raises:
        InvalidRequestError: The log ends before.
    """
    return Offset(0) if position == EARLIEST else _up_to(position, end, "startingOffsets")


def ending_offset(position: Offset | str, start: Offset, end: Offset) -> Offset:
    """Return where a batch ends that begins at `start`.

    Raises:
        InvalidRequestError: The log ends before.
    """
    return max(start, _up_to(position, end, "endingOffsets"))


def _up_to(position: Offset | str, end: Offset, option: str) -> Offset:
    if not isinstance(position, int):
        assert position == LATEST, position
        return end
    if position > end:
        raise InvalidRequestError(
            f"option {option!r} can't be {position}: the metadata log is committed up to {end}"
        )
    return position


def bounded_end(
    start: Offset,
    end: Offset,
    records_max: int | None,
    decision_at: Callable[[Offset], tuple[Offset, Offset]],
) -> Offset:
    """Return where a micro-batch ends that begins at `start`, of what is committed up to `end`.

    It ends at a border of decisions: as many as `records_max` allows, and one at least, for a
    decision is not split. `decision_at` returns where the decision that holds a record begins and
    ends.
    """
    if records_max is None or end - start <= records_max:
        return end
    first, after = decision_at(Offset(start + records_max))
    return first if first > start else min(after, end)
