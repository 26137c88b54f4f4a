"""Caches the logs of the replicas that this process works with, so that their tables stay open."""

from collections import OrderedDict
from threading import Lock
from typing import Final

from kafka_on_spark.base.ids import LeaderEpoch
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.replica_log import DeltaReplicaLog
from kafka_on_spark.store.storage_options import StorageOptions

HANDLES_MAX: Final = 4096
"""Tables that stay open; one of few files takes about 22 KB."""


class DeltaReplicaStore:
    """A ReplicaStore that caches the logs it has opened; the least recently used leaves first."""

    def __init__(self, options: StorageOptions) -> None:
        self._options = options
        self._open: OrderedDict[ReplicaAddress, DeltaReplicaLog] = OrderedDict()
        self._lock = Lock()

    def open(self, address: ReplicaAddress) -> DeltaReplicaLog:
        """Return the log at `address`; nothing is read yet."""
        with self._lock:
            log = self._open.get(address) or DeltaReplicaLog(address, self._options)
            log.registered_voters = address.registered_voters  # they may have changed since
            return self._remember(address, log)

    def open_uncached(self, address: ReplicaAddress) -> DeltaReplicaLog:
        """Return the log at `address`, opened without what this process knows of it.

        It evicts no other log: a sweep over many replicas leaves those in use open.
        """
        log = DeltaReplicaLog(address, self._options, checks_disk=True)
        with self._lock:
            is_room = address in self._open or len(self._open) < HANDLES_MAX
            return self._remember(address, log) if is_room else log

    def create(self, address: ReplicaAddress, *, leader_epoch: LeaderEpoch | None = None) -> None:
        """Create an empty table fenced at `leader_epoch`, or open an earlier try's table.

        It stays open: what it holds is known, and the first append to it need not read it.
        """
        log = DeltaReplicaLog.create(address, self._options, leader_epoch=leader_epoch)
        with self._lock:
            self._remember(address, log)

    def _remember(self, address: ReplicaAddress, log: DeltaReplicaLog) -> DeltaReplicaLog:
        self._open[address] = log
        self._open.move_to_end(address)
        if len(self._open) > HANDLES_MAX:
            self._open.popitem(last=False)
        return log
