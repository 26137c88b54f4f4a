"""What a metadata service tells of its commits and of what it replays, for whoever counts them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import MetadataBatch


class MetadataWatch:
    """Is told, and does nothing with it. Who counts derives from it, and never raises."""

    def committing(self) -> AbstractContextManager[None]:
        """Return what a commit runs in; its error says how the commit ended."""
        return nullcontext()

    def replayed(
        self, before: MetadataImage, batches: Sequence[MetadataBatch], after: MetadataImage
    ) -> None:
        """Take what was replayed since this process first read the log, with the images before and
        after it."""


UNWATCHED: Final = MetadataWatch()
"""Nobody counts."""
