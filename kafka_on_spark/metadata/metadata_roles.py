"""What a user of the metadata may do with it: read the image, read the log, decide.

`MetadataService` plays all three roles. A dry run and a cluster as of a moment play only some of
them: a class that asks for the narrowest role works with them, and can't commit by them.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Protocol, TypeVar

from kafka_on_spark.base.errors import HistoryExpiredError
from kafka_on_spark.base.ids import ControllerEpoch, Offset
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import MetadataBatch
from kafka_on_spark.metadata.result import ControllerResult

T = TypeVar("T")


class MetadataReader(Protocol):
    """Reads the metadata: as it is now, as it was at a moment, or as a dry run has changed it."""

    @property
    def image(self) -> MetadataImage:
        """The newest image that is known."""
        ...

    def catch_up(self) -> MetadataImage:
        """Return the newest image, with what was committed since.

        Raises:
            ClusterClosedError: This process has closed the cluster.
        """
        ...


class MetadataWatcher(MetadataReader, Protocol):
    """Also says whether there is more to read, for less than reading it costs."""

    def has_next(self) -> bool:
        """Return whether there may be commits after the newest image that is known, as far as one
        look at the log tells."""
        ...


class MetadataHistory(MetadataReader, Protocol):
    """Also reads every decision that led to the image."""

    def history(self, *, to_offset: Offset | None = None) -> list[MetadataBatch]:
        """Return every batch of the log, oldest first; those up to `to_offset`."""
        ...

    def pieces_newest_first(self) -> Iterator[tuple[MetadataImage, list[MetadataBatch]]]:
        """Yield the log between its snapshots, the newest piece first, each with the image that it
        continues."""
        ...


class MetadataLogReader(MetadataHistory, Protocol):
    """Also reads the log in parts, and images of earlier offsets."""

    def image_at(self, offset: Offset, after: MetadataImage | None = None) -> MetadataImage:
        """Return the image at `offset`; `after` is an older image to start from."""
        ...

    def offset_at(self, time_ms: int) -> Offset:
        """Return where the log ended at a moment, as `log_end_at` does."""
        ...

    def batches(self, start: Offset, end: Offset) -> list[MetadataBatch]:
        """Return the batches between two offsets at which one begins or ends, oldest first."""
        ...


def kept_history(metadata: MetadataHistory) -> tuple[MetadataImage, list[MetadataBatch]]:
    """Return every batch of the log whose records are kept, oldest first, and the image that they
    continue."""
    try:
        return MetadataImage(), metadata.history()
    except HistoryExpiredError:
        before, kept = metadata.image, list[list[MetadataBatch]]()
    with suppress(HistoryExpiredError):
        for image, batches in metadata.pieces_newest_first():
            before = image
            kept.append(batches)
    return before, [batch for batches in reversed(kept) for batch in batches]


class MetadataDecider(MetadataWatcher, Protocol):
    """Also decides: by a commit to the log, or in a dry run on its image alone."""

    def submit(
        self,
        decide: Callable[[MetadataImage], ControllerResult[T]],
        *,
        timeout_ms: int,
        controller: tuple[str, ControllerEpoch] | None = None,
    ) -> T:
        """Have what `decide` says of the newest image take effect; return its response."""
        ...
