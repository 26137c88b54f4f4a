"""A fetch as the product does it, from states to states, on the in-memory stores."""

from dataclasses import dataclass

from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.log.fetch import FetchOrder, FetchResult, fetch
from kafka_on_spark.log.state import LogChange, ReplicaState, address_of
from tests.builders import KEY
from tests.conformance.world import World
from tests.fakes import FakeClock, MemoryReplicaStore, MemoryRoots, MemorySegmentStore, folder

FETCH_BYTES_MAX = 2**40


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a fetch did."""

    result: FetchResult
    follower: ReplicaState
    states: tuple[ReplicaState, ...]
    operations: tuple[str, ...]


class Disks:
    """A world's replicas on disks in memory; a disk's faults can be ordered."""

    def __init__(self, world: World) -> None:
        self._world = world
        partition = world.partition
        self.addresses = {
            each: address_of(world.image, KEY, partition, each) for each in partition.replicas
        }
        self.roots = MemoryRoots({each.root: each.directory_id for each in self.addresses.values()})
        self.replicas = MemoryReplicaStore(self.roots, checks_segments=True)
        self.segments = MemorySegmentStore(self.roots)

    def put(self, broker_id: BrokerId, state: ReplicaState) -> None:
        address = self.addresses[broker_id]
        self.replicas.create(address)
        for batch in state.batches:
            for segment in batch.segments:
                self.segments.put(address, segment)
        log = self.replicas.open(address)
        first = state.batches[0].base_offset if state.batches else state.log_start_offset
        assert first <= state.log_start_offset, state
        setup = LogChange(
            operation="setup",
            log_start_offset=state.log_start_offset,
            log_end_offset=state.log_end_offset,
            leader_epoch=state.leader_epoch,
            adds=state.batches,
            chain_before=state.chain_before,
        )
        log.commit(log.load(), setup)

    def fetch(self, broker_id: BrokerId, *, copy_bytes_max: int | None = None) -> Fetched:
        """Have a follower fetch from the partition's leader; a batch, if it is to copy a byte."""
        partition = self._world.partition
        assert partition.leader is not None
        order = FetchOrder(
            key=KEY,
            partition=partition,
            leader=self.addresses[partition.leader],
            follower=self.addresses[broker_id],
            fetch_bytes_max=FETCH_BYTES_MAX,
            copy_bytes_max=copy_bytes_max,
        )
        table = self.roots[self.addresses[broker_id].root].tables[folder(order.follower)]
        before = len(table.changes)
        clock = FakeClock(self._world.now_ms)
        result = fetch(order, self.replicas, self.segments, clock)
        states = []
        state = ReplicaState(identity=table.identity)
        for change in table.changes:
            state = state.apply(change)
            states.append(state)
        return Fetched(
            result,
            states[-1],
            tuple(states[before:]),
            tuple(change.operation for change in table.changes[before:]),
        )


def fetch_once(world: World, broker_id: BrokerId) -> Fetched:
    disks = Disks(world)
    disks.put(world.local, world.leader)
    disks.put(broker_id, world.followers[broker_id])
    return disks.fetch(broker_id)
