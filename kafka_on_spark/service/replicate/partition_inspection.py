"""The inspection of a partition's replicas: its followers' fetches with one log of the leader.

Apart from the fetch, which knows one follower. Opening a table takes most of an inspection's time,
and of three replicas the leader's would be opened twice.
"""

from collections.abc import Sequence

from kafka_on_spark.ids import LeaderEpoch
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.ports.replicas import ReplicaLog, ReplicaStore, SegmentStore
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder, FetchResult, fetch

PartitionFetches = tuple[FetchOrder, ...]
"""The fetches of one partition, each with another follower."""


class _OpenedOnce:
    """A ReplicaStore that opens a replica uncached once, and returns the same log from then on.

    Each `load` brings the log up to date, so no follower is compared with an older leader.
    """

    def __init__(self, replicas: ReplicaStore) -> None:
        self._replicas = replicas
        self._opened: dict[ReplicaAddress, ReplicaLog] = {}

    def open(self, address: ReplicaAddress) -> ReplicaLog:
        """Return the log at `address`; nothing is read yet."""
        return self._replicas.open(address)

    def open_uncached(self, address: ReplicaAddress) -> ReplicaLog:
        """Return the log at `address`, opened by this inspection."""
        if address not in self._opened:
            self._opened[address] = self._replicas.open_uncached(address)
        return self._opened[address]

    def create(self, address: ReplicaAddress, *, leader_epoch: LeaderEpoch | None = None) -> None:
        """Create an empty table fenced at `leader_epoch`."""
        self._replicas.create(address, leader_epoch=leader_epoch)


def inspect_partition(
    orders: Sequence[FetchOrder], replicas: ReplicaStore, segments: SegmentStore, clock: Clock
) -> list[FetchResult]:
    """Run the fetches of a partition's replicas, one after the other."""
    opened_once = _OpenedOnce(replicas)
    return [fetch(order, opened_once, segments, clock) for order in orders]
