"""A look at all replicas of a partition: the fetches of its followers, with one look at its leader.

Apart from the fetch, which knows one follower. Opening a table takes most of a look's time, and of
three replicas the leader would be opened twice.
"""

from collections.abc import Sequence

from kafka_on_spark.ids import LeaderEpoch
from kafka_on_spark.ports import Clock, ReplicaAddress, ReplicaLog, ReplicaStore, SegmentStore
from kafka_on_spark.service.replication import FetchOrder, FetchResult, fetch

LookOrders = tuple[FetchOrder, ...]
"""Of one partition, each with another follower."""


class _OpenedOnce:
    """A ReplicaStore that opens a replica anew once, and gives the same log from then on.

    It is brought up with each `load`, so that no follower is held against an older leader.
    """

    def __init__(self, replicas: ReplicaStore) -> None:
        self._replicas = replicas
        self._opened: dict[ReplicaAddress, ReplicaLog] = {}

    def open(self, address: ReplicaAddress) -> ReplicaLog:
        """Return the log at `address`; nothing is read yet."""
        return self._replicas.open(address)

    def open_anew(self, address: ReplicaAddress) -> ReplicaLog:
        """Return the log at `address`, opened by this look."""
        if address not in self._opened:
            self._opened[address] = self._replicas.open_anew(address)
        return self._opened[address]

    def make(self, address: ReplicaAddress, *, leader_epoch: LeaderEpoch | None = None) -> None:
        """Make an empty table fenced at `leader_epoch`."""
        self._replicas.make(address, leader_epoch=leader_epoch)


def look_at_partition(
    orders: Sequence[FetchOrder], replicas: ReplicaStore, segments: SegmentStore, clock: Clock
) -> list[FetchResult]:
    """Run the fetches of a partition's replicas, one after the other."""
    opened_once = _OpenedOnce(replicas)
    return [fetch(order, opened_once, segments, clock) for order in orders]
