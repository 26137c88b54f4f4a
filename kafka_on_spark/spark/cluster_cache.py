"""Caches the clusters that a process of Spark's has open, from one write to the next.

Spark keeps the processes in which writes are planned and committed, and ends them after a minute
without work. A write that finds its cluster in the cache reads what is new in the metadata log; a
write that opens it reads all of the log since its snapshot.

A caller gets what it would get by opening the cluster: if another cluster stands in its place, or
the metadata can't be read, the cache opens it again, and that says what is wrong.

It is for one thread: Spark gives each of its processes one task at a time.
"""

from typing import Final

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.node.node import Node, open_node
from kafka_on_spark.node.opening import Awaits
from kafka_on_spark.store.storage_options import StorageOptions

CLUSTERS_MAX: Final = 4
"""Clusters that a process has open: an image of a million partitions takes a gigabyte."""

_open: Final[dict[tuple[str, StorageOptions], Node]] = {}
"""By root and credentials; the least recently used is closed first."""


def cached_node(
    root: str, options: StorageOptions, *, is_patient: bool = False
) -> tuple[Node, MetadataImage | None]:
    """Return the cluster at `root`, caught up, and the image that it had before; None: it was
    opened just now.

    `is_patient`: wait for a metadata root that is away.

    Raises: as `open_node`.
    """
    place = (root, options)
    known = _open.pop(place, None)
    before = None if known is None else known.metadata.image
    awaits = Awaits.ROOT if is_patient and known is None else Awaits.NOTHING
    if known is not None and not _catch_up(known.metadata, is_patient):
        known.close()
        known, before = None, None
    found = open_node(root, options, awaits=awaits) if known is None else known
    _open[place] = found
    if len(_open) > CLUSTERS_MAX:
        _open.pop(next(iter(_open))).close()
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
