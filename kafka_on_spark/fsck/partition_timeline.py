"""A partition's timeline in the metadata log: leaders, ISRs, and high watermarks over time.

Replicas' tables hold no metadata offsets; they have leader epochs in common with the metadata log.
So a timeline consists of tenures, one a registration, and the audit compares a table's versions
with the tenures of the leader epoch that the table was fenced at.
"""

from dataclasses import dataclass, field, replace

from kafka_on_spark.base.ids import BrokerId, PartitionKey, ReplicaUuid, TopicPartition
from kafka_on_spark.fsck.registers import Register

Member = tuple[BrokerId, ReplicaUuid]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """A partition from one change of its registration to the next.

    Attributes:
        metadata_offset: The offset of the record that it begins with.
        leader: The leader and its replica's uuid, or None.
        leader_epoch: The leader's epoch.
        isr: The in-sync replicas, with replica uuids.
        complete: ISR and ELR: the replicas that must have every committed record.
        high_watermark_before: The high watermark when it began.
        high_watermark: The one when it ended, or now.
        high_watermark_epoch: Of the record below it.
        high_watermark_chain: Chain digest at it.
        unclean_generation: As in `metadata.partition.PartitionRegistration`.
    """

    metadata_offset: int
    leader: Member | None
    leader_epoch: int
    isr: frozenset[Member]
    complete: frozenset[Member]
    high_watermark_before: int
    high_watermark: int
    high_watermark_epoch: int | None
    high_watermark_chain: str
    unclean_generation: int

    @property
    def is_advanced(self) -> bool:
        """Whether the high watermark moved in it."""
        return self.high_watermark > self.high_watermark_before


@dataclass(slots=True, kw_only=True)
class PartitionTimeline:
    """What the metadata log says of one partition.

    Attributes:
        key: The partition.
        name: Topic and number.
        tenures: Oldest first, since it was added.
        register: Its registration now; None before the first record.
        is_removed: It was removed, or its topic deleted.
    """

    key: PartitionKey
    name: TopicPartition
    tenures: list[Tenure] = field(default_factory=list)
    register: Register | None = None
    is_removed: bool = False

    @property
    def had_unclean_election(self) -> bool:
        """Whether an unclean election took place since it was added. One that was added again
        begins in a generation above 0."""
        first, last = self.tenures[0], self.tenures[-1]
        return last.unclean_generation > first.unclean_generation

    def take(self, register: Register, offset: int) -> None:
        """Begin a tenure with another registration."""
        self.register = register
        if self.is_removed:
            # It is added again: another partition of the number, whose epochs begin anew.
            self.tenures.clear()
            self.is_removed = False
        leader_uuid = register.uuid_of(register.leader)
        leader = None
        if register.leader is not None and leader_uuid is not None:
            leader = (register.leader, leader_uuid)
        self.tenures.append(
            Tenure(
                metadata_offset=offset,
                leader=leader,
                leader_epoch=register.leader_epoch,
                isr=register.members(register.isr),
                complete=register.members(register.isr | register.elr),
                high_watermark_before=register.high_watermark,
                high_watermark=register.high_watermark,
                high_watermark_epoch=register.high_watermark_epoch,
                high_watermark_chain=register.high_watermark_chain,
                unclean_generation=register.unclean_generation,
            )
        )

    def advance(self, register: Register) -> None:
        """Take a higher high watermark of the same registration."""
        self.register = register
        self.tenures[-1] = replace(
            self.tenures[-1],
            high_watermark=register.high_watermark,
            high_watermark_epoch=register.high_watermark_epoch,
            high_watermark_chain=register.high_watermark_chain,
        )

    def copy(self) -> "PartitionTimeline":
        """Return a copy that later records do not change."""
        return replace(self, tenures=list(self.tenures))
