"""A partition's life in the metadata log: who led, who was in sync, how far it was committed.

Tables have no metadata offsets in them; what both sides have in common are leader epochs. So the
life is kept in tenures, each of one registration, and a table's versions are held against the
tenures of the leadership that they were fenced at.
"""

from dataclasses import dataclass, field, replace

from kafka_on_spark.audit.registers import Register
from kafka_on_spark.ids import BrokerId, PartitionKey, ReplicaUuid, TopicPartition

Member = tuple[BrokerId, ReplicaUuid]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """A partition from one change of its registration to the next.

    Attributes:
        metadata_offset: Of the record that it begins with.
        leader: The leader and its replica's uuid, or None.
        leader_epoch: Its leadership.
        isr: Who is in sync, with replica uuids.
        complete: ISR and ELR: who has every committed record.
        high_watermark_before: When it began.
        high_watermark: When it ended, or now.
        high_watermark_epoch: Of the record below it.
        high_watermark_chain: Chain digest at it.
        unclean_generation: Unclean elections so far.
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
class PartitionLife:
    """What the metadata log says of one partition.

    Attributes:
        key: The partition.
        name: As people name it.
        tenures: Oldest first.
        register: Its registration now; None before the first record.
        is_removed: Its topic was deleted.
    """

    key: PartitionKey
    name: TopicPartition
    tenures: list[Tenure] = field(default_factory=list)
    register: Register | None = None
    is_removed: bool = False

    def take(self, register: Register, offset: int) -> None:
        """Go on with another registration."""
        self.register = register
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
        """Go on with the same registration, committed further."""
        self.register = register
        self.tenures[-1] = replace(
            self.tenures[-1],
            high_watermark=register.high_watermark,
            high_watermark_epoch=register.high_watermark_epoch,
            high_watermark_chain=register.high_watermark_chain,
        )

    def copy(self) -> "PartitionLife":
        """Return the life as it is now, unmoved by what comes."""
        return replace(self, tenures=list(self.tenures))
