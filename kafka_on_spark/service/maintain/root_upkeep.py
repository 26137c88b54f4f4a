"""Upkeep of roots: what killed processes left there, and the metadata log's own files.

Apart from replicas, which have an order each: a root is visited as a whole, and seldom.
"""

from collections.abc import Callable
from typing import Final, Protocol

from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.service.maintain.upkeep_report import UpkeepRow

INTERVAL_MS: Final = 3_600_000
"""How often roots are visited: by the first round of any process in each such part of the time."""

CLEANING_MS_MIN: Final = 60_000
"""How often the metadata log's own files are cleaned, if what it removes may go sooner than that:
a busy log replaces twenty a second."""

METADATA: Final = "__cluster_metadata"


class CleanedMetadata(Protocol):
    """The metadata, and its log, which can be cleaned."""

    @property
    def image(self) -> MetadataImage:
        """The newest image that is known."""
        ...

    def clean(self) -> int:
        """Delete files that no reader needs; return how many."""
        ...


class RootUpkeep:
    """The upkeep of roots by one process. Its user calls one method at a time.

    `visit` removes what killed processes left on the roots of the brokers that are online.
    """

    def __init__(
        self,
        metadata: CleanedMetadata,
        clock: Clock,
        *,
        visit: Callable[[MetadataImage], object],
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._visit = visit

    def run_if_due(self, since_last_ms: int | None) -> tuple[UpkeepRow, ...]:
        """Visit the roots if it is time. `since_last_ms`: since the last round of upkeep of this
        process, or of the one before it; None: there was none.

        Raises:
            KafkaStorageError: The metadata root does not answer.
        """
        now_ms = self._clock.now_ms()
        last_ms = now_ms if since_last_ms is None else now_ms - since_last_ms
        if now_ms // INTERVAL_MS != last_ms // INTERVAL_MS:
            return self.run()
        delay_ms = self._metadata.image.settings().integer("file.delete.delay.ms")
        cleaning_ms = min(max(delay_ms, CLEANING_MS_MIN), INTERVAL_MS)
        return self._clean() if now_ms // cleaning_ms != last_ms // cleaning_ms else ()

    def run(self) -> tuple[UpkeepRow, ...]:
        """Visit all roots; return what was deleted from the metadata root.

        Raises:
            KafkaStorageError: The metadata root does not answer.
        """
        self._visit(self._metadata.image)
        return self._clean()

    def _clean(self) -> tuple[UpkeepRow, ...]:
        count = self._metadata.clean()
        row = UpkeepRow(
            topic=METADATA,
            partition=0,
            broker_id=None,
            kind="clean",
            count=count,
            what="files deleted",
        )
        return (row,) if count else ()
