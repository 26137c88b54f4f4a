"""The history of upkeep, of a live cluster and as of a moment: from its metadata and its tables."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol

from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.service.describe.log_dirs import created_replicas
from kafka_on_spark.service.describe.upkeep_history import (
    ReplicaEvents,
    UpkeepHistory,
    decisions,
    replica_events,
    upkeep_history,
)
from kafka_on_spark.service.metadata.metadata_roles import MetadataHistory
from kafka_on_spark.service.replicate.sweep_progress import scope_of
from kafka_on_spark.storage.calls.daemon_threads import DaemonThreads
from kafka_on_spark.storage.replicas.archives.archive import FileReplicaArchive
from kafka_on_spark.storage.roots.roots import StorageOptions

THREADS: Final = 8
"""Threads that read tables' logs: they wait for disks and stores most of the time."""


class HistoryServices(Protocol):
    """What histories are read with."""

    @property
    def metadata(self) -> MetadataHistory:
        """The image, and what led to it."""
        ...

    @property
    def options(self) -> StorageOptions:
        """Credentials of all roots."""
        ...


class Histories:
    """Reads histories. `Cluster` documents each method under the same name.

    `is_past`: the cluster is one as of a moment.
    """

    def __init__(self, services: HistoryServices, *, is_past: bool = False) -> None:
        self._services = services
        self._is_past = is_past

    def upkeep_history(self, topics: str | Iterable[str] | None) -> UpkeepHistory:
        metadata = self._services.metadata
        image = metadata.catch_up()
        scope = scope_of(image, topics)
        names = None if scope is None else [image.topics[each].name for each in scope]
        return upkeep_history(
            image,
            decisions(metadata.history(to_offset=image.offset), scope),
            created_replicas(image, names),
            self._read,
            is_past=self._is_past,
        )

    def _read(self, addresses: Sequence[ReplicaAddress]) -> Iterator[ReplicaEvents]:
        read = partial(replica_events, archive=FileReplicaArchive(self._services.options))
        with DaemonThreads(THREADS, "history") as threads:
            yield from threads.map(read, addresses)
