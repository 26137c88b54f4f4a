"""The replicas that this process works with, each by a log that stays open."""

from collections import OrderedDict
from threading import Lock
from typing import Final

from kafka_on_spark.ids import LeaderEpoch
from kafka_on_spark.ports import ReplicaAddress
from kafka_on_spark.storage.options import StorageOptions
from kafka_on_spark.storage.replica_log import DeltaReplicaLog

HANDLES_MAX: Final = 4096
"""Tables that stay open; one of few files takes about 22 KB."""


class DeltaReplicaStore:
    """A ReplicaStore that keeps the handles it has opened, the least used leaving first."""

    def __init__(self, options: StorageOptions) -> None:
        self._options = options
        self._open: OrderedDict[ReplicaAddress, DeltaReplicaLog] = OrderedDict()
        self._lock = Lock()

    def open(self, address: ReplicaAddress) -> DeltaReplicaLog:
        """Return the log at `address`; nothing is read yet."""
        with self._lock:
            return self._keep(
                address, self._open.get(address) or DeltaReplicaLog(address, self._options)
            )

    def open_anew(self, address: ReplicaAddress) -> DeltaReplicaLog:
        """Return the log at `address`, opened without what this process knows of it.

        It takes no other's place: a sweep over many leaves those open that are worked with.
        """
        log = DeltaReplicaLog(address, self._options, is_checked=True)
        with self._lock:
            is_room = address in self._open or len(self._open) < HANDLES_MAX
            return self._keep(address, log) if is_room else log

    def make(self, address: ReplicaAddress, *, leader_epoch: LeaderEpoch | None = None) -> None:
        """Make an empty table fenced at `leader_epoch`, or find what an earlier try has made.

        It stays open: what it holds is known, and the first append to it need not read it.
        """
        made = DeltaReplicaLog.make(address, self._options, leader_epoch=leader_epoch)
        with self._lock:
            self._keep(address, made)

    def _keep(self, address: ReplicaAddress, log: DeltaReplicaLog) -> DeltaReplicaLog:
        self._open[address] = log
        self._open.move_to_end(address)
        if len(self._open) > HANDLES_MAX:
            self._open.popitem(last=False)
        return log
