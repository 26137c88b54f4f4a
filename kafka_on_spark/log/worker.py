"""Where a task runs: the handles that a process, a driver's or an executor's, has to replicas.

A task is a top-level function of a picklable order and the worker that runs it. It may run twice,
also at the same time (retry, speculation): so every file has its own name, and every commit is
conditional. It answers in results with error codes. A task that raises has failed, and Spark runs
it again.
"""

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from kafka_on_spark.log.state import ReplicaAddress
from kafka_on_spark.store.deadlines import SystemClock
from kafka_on_spark.store.storage_options import StorageOptions

if TYPE_CHECKING:
    from kafka_on_spark.log.compactor import Compactor
    from kafka_on_spark.log.file_deleter import ReplicaFolders
    from kafka_on_spark.log.replicas import ReplicaStore
    from kafka_on_spark.log.segments import SegmentStore


class Worker:
    """The handles of one process, by the credentials of its roots; they stay open for its life.

    Each is imported once a task asks for it: a process that plans a stream needs none, and one that
    reads no compactor.
    """

    def __init__(self, options: StorageOptions) -> None:
        self.options = options
        self.clock = SystemClock()

    @cached_property
    def replicas(self) -> "ReplicaStore":
        return replica_store(self.options)

    @cached_property
    def segments(self) -> "SegmentStore":
        from kafka_on_spark.log.segments import SegmentStore

        return SegmentStore(self.options)

    @cached_property
    def folders(self) -> "ReplicaFolders":
        from kafka_on_spark.log.file_deleter import ReplicaFolders

        return ReplicaFolders(self.options)

    @cached_property
    def compactor(self) -> "Compactor":
        """Reads keys, and rewrites segments without what compaction removes."""
        from kafka_on_spark.log.compactor import Compactor

        return Compactor(self.options)

    def root_now_ms(self, address: ReplicaAddress) -> int:
        """Return the time of a replica's root, ms since 1970 UTC.

        Raises:
            KafkaStorageError: It does not answer, or takes no writes.
        """
        from kafka_on_spark.store.root_identity import root_now_ms

        return root_now_ms(address.root, address.directory_id, self.options)

    def root_generation(self, root: str) -> int:
        """Return the generation of the cluster that a root has heard of; 0: of none."""
        from kafka_on_spark.store.root_identity import read_identity

        found = read_identity(root, self.options)
        return 0 if found is None else found.generation


@lru_cache(maxsize=8)
def replica_store(options: StorageOptions) -> "ReplicaStore":
    from kafka_on_spark.log.replicas import ReplicaStore

    return ReplicaStore(options)
