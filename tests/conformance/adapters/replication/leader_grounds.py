"""Where a vector about a leader leaves our ground: told from what Kafka's leader would remember.

Kafka's high watermark also waits for replicas that are about to join the ISR, and its lag counts
from a fetch. Nothing here reads what the product answers.
"""

from kafka_on_spark.base.errors import KafkaStorageError, NotLeaderOrFollowerError, ReplicaLostError
from kafka_on_spark.base.ids import BrokerId, DirectoryId
from kafka_on_spark.metadata.reports import is_under_min_isr
from tests.builders import KEY, address, disk
from tests.conformance.kafka_memory import FetchTimes
from tests.conformance.runner import Adapter
from tests.conformance.world import World
from tests.fakes import MemoryReplicaStore, MemoryRoots


class Grounds(Adapter):
    """A leader's world, beside what Kafka's leader would remember of it."""

    world: World
    memory: dict[int, FetchTimes]
    lag_ms_max: int
    broker_epochs: dict[int, int]
    fetched_epochs: dict[int, int]
    proposal: frozenset[int] | None

    def _kafka_waits_for_others(self):
        """Return whether a replica outside the committed ISR holds Kafka's high watermark."""
        partition, end = self.world.partition, self._end()
        members = [self.memory[each].log_end_offset for each in partition.isr - {self.world.local}]
        ours = min([end, *members])
        if ours <= partition.high_watermark or is_under_min_isr(
            self.world.image, KEY.topic_id, partition
        ):
            return False
        others = set(partition.replicas) - partition.isr - {self.world.local}
        return any(
            self.memory[each].log_end_offset < ours and self._is_waited_for(each, end)
            for each in others
        )

    def _is_waited_for(self, replica, end):
        if self.proposal is not None and replica in self.proposal:
            return True
        epoch = self.fetched_epochs.get(replica)
        is_current = epoch is not None and epoch in (-1, self._registered_epoch(replica))
        is_caught_up = self.memory[replica].is_caught_up(end, self.world.now_ms, self.lag_ms_max)
        return is_current and is_caught_up and self.world.image.is_eligible(BrokerId(replica))

    def _lag_is_told_alike(self):
        """Return whether a lag from Kafka's moment and one from ours are on one side of the bound."""
        end, now_ms = self._end(), self.world.now_ms

        def is_over(since_ms):
            return since_ms is not None and now_ms - since_ms > self.lag_ms_max

        for each in self.world.partition.isr - {self.world.local}:
            seen = self.world.followers.get(each)
            first_missing = self.world.high_watermark if seen is None else seen.log_end_offset
            ours = self._appended_at_ms(first_missing)
            if is_over(ours) != is_over(self.memory[each].lags_since_ms(end)):
                return False
        return True

    def _appended_at_ms(self, offset):
        times = [
            each.appended_at_ms for each in self.world.leader.batches if each.base_offset == offset
        ]
        return times[0] if times else None

    def _end(self):
        return self.world.leader.log_end_offset

    def _registered_epoch(self, replica):
        return self.broker_epochs.get(replica, 100 + replica)

    def _see_incarnation(self, replica, broker_epoch, *, was_valid=False):
        """A broker epoch is an incarnation of the broker: here another disk."""
        registered = self._registered_epoch(replica)
        epoch = registered if broker_epoch is None else broker_epoch
        if -1 < epoch < registered and not was_valid:
            open_as(disk(replica), DirectoryId(f"disk{replica}of{epoch}"), replica)
        self.fetched_epochs[replica] = epoch
        is_current = epoch in (-1, registered)
        directory = disk(replica) if is_current else DirectoryId(f"disk{replica}of{epoch}")
        self.world.directories[BrokerId(replica)] = directory


def open_as(registered: DirectoryId, made_on: DirectoryId, broker_id: int) -> None:
    """Make a replica on one disk of a broker and open it as the other's.

    Raises:
        NotLeaderOrFollowerError: It is refused as another's. Kafka knows it by the broker epoch.
    """
    theirs = address(broker_id, directory_id=made_on)
    store = MemoryReplicaStore(MemoryRoots({theirs.root: made_on}))
    store.create(theirs)
    try:
        store.open(address(broker_id, directory_id=registered)).load()
    except (KafkaStorageError, ReplicaLostError) as error:
        raise NotLeaderOrFollowerError(f"of another incarnation: {error}") from error
