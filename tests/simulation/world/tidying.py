"""Upkeep of replicas in a simulated cluster, cleaning, merging and compaction: ports whose every call
is a step, at which a process may be frozen or killed.

All clocks say that every file is old and was removed long ago: no delay protects anybody, so that
only the rules do. Source: log/file_deleter.py.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.log.replica_upkeep import WORKS, run_upkeep
from kafka_on_spark.log.state import ReplicaAddress
from kafka_on_spark.log.unnamed_files import FoundFile
from kafka_on_spark.log.upkeep_work import UpkeepOrder, UpkeepResult
from tests.simulation.world.disks import Root, folder
from tests.simulation.world.world import FAILED, World

LATE_MS = 10**12
FILE_BYTES = 100
_ALWAYS = ("log start", "clean")


class SimulatedReplicaFolders:
    """ReplicaFolders of one process."""

    def __init__(self, world: World) -> None:
        self._world = world

    def _root(self, operation: str, address: ReplicaAddress) -> Root:
        root = self._world.disks.roots[address.root]
        if self._world.scheduler.call(operation, root) in FAILED:
            raise KafkaStorageError("EIO")
        root.check_reads()
        return root

    def names(self, address: ReplicaAddress) -> list[str]:
        return sorted(self._root("list", address).files.get(folder(address), {}))

    def found(self, address: ReplicaAddress, names: Iterable[str]) -> list[FoundFile]:
        files = self._root("read", address).files.get(folder(address), {})
        return [FoundFile(name, FILE_BYTES, 0) for name in names if name in files]

    def removed_at_ms(self, address: ReplicaAddress) -> dict[str, int]:
        self._root("read", address)
        table = self._world.disks.table(address)
        return {} if table is None else dict.fromkeys(table.removed, 0)

    def now_ms(self, address: ReplicaAddress) -> int:
        self._root("probe", address).check_directory(address)
        return LATE_MS

    def clean_log(self, address: ReplicaAddress) -> int:
        return 0

    def delete(self, address: ReplicaAddress, names: Sequence[str]) -> None:
        for name in names:
            root = self._root("remove", address)
            root.check_writes()
            self._world.disks.unlink(root, folder(address), name)


def upkeep_task(order: UpkeepOrder, worker: Any) -> UpkeepResult:
    kinds = {*_ALWAYS, *worker.world.works}
    return run_upkeep(order, worker, [each for each in WORKS if each[0] in kinds])
