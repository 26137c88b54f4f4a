"""Caches the clusters that a process of Spark's has open, from one write to the next.

Spark keeps the processes in which writes are planned and committed, and ends them after a minute
without work. A write that finds its cluster in the cache reads what is new in the metadata log; a
write that opens it reads all of the log since its snapshot.

A caller gets what it would get by opening the cluster: if another cluster stands in its place, or
the metadata can't be read, the cache opens it again, and that says what is wrong.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final, Generic, TypeVar

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.node.due_work import DueWork
from kafka_on_spark.node.opening import Awaits, open_metadata
from kafka_on_spark.store.daemon_threads import DaemonThreads
from kafka_on_spark.store.storage_options import StorageOptions

T = TypeVar("T")

CLUSTERS_MAX: Final = 4
"""Clusters that a process has open: an image of a million partitions takes a gigabyte."""


class ClusterCache(Generic[T]):
    """Open clusters, by root and credentials; the least recently used is closed first.

    For one thread: Spark gives each of its processes one task at a time.
    """

    def __init__(
        self,
        open_new: Callable[[str, StorageOptions, Awaits], T],
        metadata_of: Callable[[T], MetadataService],
        close: Callable[[T], None],
    ) -> None:
        self._open_new = open_new
        self._metadata_of = metadata_of
        self._close = close
        self._open: dict[tuple[str, StorageOptions], T] = {}

    def get(
        self, root: str, options: StorageOptions, *, is_patient: bool = False
    ) -> tuple[T, MetadataImage | None]:
        """Return the cluster at `root`, caught up, and the image that it had before; None: it was
        opened just now.

        `is_patient`: wait for a metadata root that is away.

        Raises: as `open_new`.
        """
        place = (root, options)
        known = self._open.pop(place, None)
        before = None if known is None else self._metadata_of(known).image
        awaits = Awaits.ROOT if is_patient and known is None else Awaits.NOTHING
        if known is not None and not _catch_up(self._metadata_of(known), is_patient):
            self._close(known)
            known, before = None, None
        found = self._open_new(root, options, awaits) if known is None else known
        self._open[place] = found
        if len(self._open) > CLUSTERS_MAX:
            self._close(self._open.pop(next(iter(self._open))))
        return found, before


def _catch_up(metadata: MetadataService, is_patient: bool) -> bool:
    """Return whether the metadata could be caught up with, and is that of the same cluster."""
    try:
        if is_patient:
            metadata.catch_up_waiting()
        else:
            metadata.catch_up()
    except KafkaOnSparkError:
        return False
    return True


def _open_metadata(root: str, options: StorageOptions, awaits: Awaits) -> MetadataService:
    metadata = open_metadata(
        root,
        options,
        after_commit=lambda: _due_work().add({metadata: metadata.maintain}),
        awaits=awaits,
    )
    return metadata


@lru_cache(maxsize=1)
def _due_work() -> DueWork:
    """Return the thread that makes checkpoints and snapshots for this process."""
    return DueWork(DaemonThreads(1, "maintenance"))


_METADATA: Final = ClusterCache(_open_metadata, lambda metadata: metadata, MetadataService.close)


def cached_metadata(
    root: str, options: StorageOptions, *, is_patient: bool = False
) -> MetadataService:
    """Return the metadata of the cluster at `root`, caught up, as `ClusterCache.get` does.

    Raises: as `open_metadata`.
    """
    return _METADATA.get(root, options, is_patient=is_patient)[0]
