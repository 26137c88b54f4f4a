"""One partition as the product sees it: its image, its replicas' logs, and what a round reports."""

from collections.abc import Iterable
from dataclasses import replace

from kafka_on_spark.base.ids import BrokerId, DirectoryId, LeaderEpoch, Offset
from kafka_on_spark.controller.election import change_record
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.fetch import partition_report, state_report
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import ConfigRecord, Record
from kafka_on_spark.metadata.reports import advance_high_watermark
from tests.builders import KEY, address, disk, identity, image_of, partition, partition_map
from tests.committing import committed
from tests.conformance.logs import batch_of, in_chain


class World:
    """A partition on brokers; `leader` is its leader's log, `followers` those that have adopted.

    Broker 1 is the one that vectors ask, unless they name another.
    """

    def __init__(
        self,
        leader: ReplicaState,
        *,
        local: int = 1,
        replicas: Iterable[int] = (1,),
        isr: Iterable[int] | None = None,
        leader_id: int | None = None,
        leader_epoch: int = 0,
        partition_epoch: int = 0,
        high_watermark: int = 0,
        now_ms: int = 0,
        configs: dict[str, object] | None = None,
    ) -> None:
        everyone = tuple(replicas)
        self.local = BrokerId(local)
        self.leader = leader
        self.followers: dict[BrokerId, ReplicaState] = {}
        self.directories: dict[BrokerId, DirectoryId] = {}
        self.now_ms = now_ms
        registration = partition(
            _text(everyone),
            _text(everyone if isr is None else isr),
            leader=local if leader_id is None else leader_id,
            epoch=leader_epoch,
            version=partition_epoch,
            hw=high_watermark,
            hw_chain=leader.chain_at(Offset(high_watermark)),
            leo=leader.log_end_offset,
            start=min(leader.log_start_offset, high_watermark),
        )
        self.image: MetadataImage = image_of(
            registration,
            ids=_text({*everyone, local, *range(1, 7)}),
            configs={name: str(value) for name, value in (configs or {}).items()},
        )

    @property
    def partition(self) -> PartitionRegistration:
        found = self.image.partition(KEY)
        assert found is not None
        return found

    @property
    def high_watermark(self) -> int:
        """The register's."""
        return self.partition.high_watermark

    def commit(self, *records: Record) -> None:
        """Commit records to the metadata log: the image is what replay makes of them."""
        self.image = committed(self.image, records, time_ms=self.now_ms)

    def change(self, change: PartitionChange) -> None:
        self.commit(change_record(self.image, KEY, self.partition, change, "as the vector says"))

    def register(self, registration: PartitionRegistration) -> None:
        """Have the image say this of the partition, whatever led to it."""
        topic = self.image.topics[KEY.topic_id]
        topics = {KEY.topic_id: replace(topic, partitions=partition_map({0: registration}))}
        self.image = replace(self.image, topics=topics)

    def configure(self, name: str, value: object) -> None:
        """Set one of the topic's settings."""
        record = ConfigRecord(topic_id=KEY.topic_id, config_name=name, config_value=str(value))
        self.commit(record)

    def append(self, *counts: int) -> None:
        """Append batches of so many records each to the leader's log."""
        made = []
        end = self.leader.log_end_offset
        for count in counts:
            made.append(
                batch_of(end, self.leader.leader_epoch or 0, count, appended_at_ms=self.now_ms)
            )
            end = made[-1].end_offset
        self.leader = extended(self.leader, made)

    def see_follower(self, broker_id: int, end_offset: int) -> None:
        """Have a follower's log end at `end_offset`, as far as it goes the leader's."""
        self.followers[BrokerId(broker_id)] = prefix(
            self.leader, end_offset, broker_id, self.partition.leader_epoch
        )

    def report_of(self, broker_id: BrokerId):
        state = self.followers[broker_id]
        place = address(broker_id, directory_id=self.directories.get(broker_id, disk(broker_id)))
        return state_report(place, state, self.leader)

    def report(self):
        return partition_report(
            KEY,
            self.partition,
            address(self.local),
            self.leader,
            [self.report_of(each) for each in self.followers],
            now_ms=self.now_ms,
        )

    def decide_high_watermark(self) -> int | None:
        """Have the high watermark decided and committed; return it if it moved."""
        before = self.high_watermark
        record = advance_high_watermark(self.image, self.report())
        self.commit(*([] if record is None else [record]))
        return self.high_watermark if self.high_watermark != before else None


def prefix(leader: ReplicaState, end_offset: int, broker_id: int, fence: int) -> ReplicaState:
    """Return a follower's log that ends at `end_offset`, or before the batch that it lies in.

    Above the leader's end it has records that the leader does not have.
    """
    kept = tuple(batch for batch in leader.batches if batch.end_offset <= end_offset)
    own = in_chain(
        leader,
        (
            batch_of(offset, fence, name="unknown")
            for offset in range(leader.log_end_offset, end_offset)
        ),
    )
    held = (*kept, *own)
    end = held[-1].end_offset if held else min(end_offset, leader.log_start_offset)
    return replace(
        leader,
        identity=identity(broker_id),
        leader_epoch=LeaderEpoch(fence),
        log_start_offset=Offset(min(leader.log_start_offset, end)),
        log_end_offset=Offset(end),
        batches=held,
    )


def extended(state: ReplicaState, batches: Iterable[Batch]) -> ReplicaState:
    """Return `state` with batches appended at its end, by the operation that followers use."""
    made = in_chain(state, batches)
    if not made:
        return state
    fenced = state if state.leader_epoch is not None else adopted(state, 0)
    change = operations.append_fetched(fenced, made, leader_epoch=fenced.leader_epoch)
    return fenced.apply(change)


def adopted(state: ReplicaState, epoch: int) -> ReplicaState:
    """Return `state` fenced at `epoch`, with nothing cut."""
    change = operations.adopt(
        state, leader_epoch=LeaderEpoch(epoch), truncate_to=None, floor=Offset(0)
    )
    return state if change is None else state.apply(change)


def _text(brokers: Iterable[int]) -> str:
    return " ".join(str(each) for each in brokers)
