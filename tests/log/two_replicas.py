"""A leader and a follower on disks of their own, and a fetch between them."""

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log.fetch import FetchOrder, fetch
from kafka_on_spark.log.state import LogChange
from kafka_on_spark.metadata.reports import PartitionReport
from tests.builders import KEY, address, disk, log, partition
from tests.fakes import FakeClock, MemoryReplicaStore, MemoryRoots, MemorySegmentStore

LEADER, FOLLOWER = address(1), address(2)


class Two:
    """A leader and a follower, on disks of their own."""

    def __init__(self, leader: str, follower: str, *, fence: int = 5) -> None:
        self.roots = MemoryRoots({each.root: disk(each.broker_id) for each in (LEADER, FOLLOWER)})
        self.replicas = MemoryReplicaStore(self.roots)
        self.segments = MemorySegmentStore(self.roots)
        for where, text in ((LEADER, leader), (FOLLOWER, follower)):
            self.replicas.create(where)
            self.write(where, text, fence)

    def write(self, where, text: str, fence: int) -> None:
        """Append to a table what `text` has beyond its end."""
        wanted = log(text)
        replica = self.replicas.open(where)
        state = replica.load()
        adds = tuple(b for b in wanted.batches if b.base_offset >= state.log_end_offset)
        for each in adds:
            for segment in each.segments:
                self.segments.put(where, segment)
        replica.commit(
            state,
            LogChange(
                operation="test",
                log_start_offset=Offset(0),
                log_end_offset=wanted.log_end_offset,
                leader_epoch=fence,
                adds=adds,
            ),
        )

    def fetch(self, registration, *, leader_state=None, **fields) -> PartitionReport:
        """Fetch once; return the report."""
        order = FetchOrder(
            key=KEY,
            partition=registration,
            leader=LEADER,
            follower=FOLLOWER,
            **{"fetch_bytes_max": 10**6, **fields},
        )
        result = fetch(order, self.replicas, self.segments, FakeClock(), leader_state)
        return result.report


ORDER = FetchOrder(
    key=KEY, partition=partition("1 2"), leader=LEADER, follower=FOLLOWER, fetch_bytes_max=1
)
