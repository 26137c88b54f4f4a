"""Forecasts what the controller would decide if brokers died now: its own decisions, uncommitted.

From the metadata alone: no table is opened. So what replicas outside of the ISR hold is not known,
and the counts of records say what is at risk, not what is certain to be lost.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import BrokerId, TopicPartition
from kafka_on_spark.base.text import visible
from kafka_on_spark.controller.brokers import fence_broker, registered_broker
from kafka_on_spark.controller.election import elect_where_none
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp
from kafka_on_spark.metadata.reports import is_under_min_isr, min_isr


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionForecast:
    """What would happen to one partition.

    Attributes:
        isr_after: A member that died stays in it if it is the last.
        is_under_min_isr: Appends with acks=all would be refused.
        uncommitted_records: Records that only the dying leader is known to have: acks=1 appends
            that are not committed yet. They would be lost.
        committed_records: Records between log start and high watermark.
        copies_left: In-sync replicas on brokers that live.
    """

    name: TopicPartition
    leader_before: BrokerId | None
    leader_after: BrokerId | None
    isr_before: tuple[BrokerId, ...]
    isr_after: tuple[BrokerId, ...]
    min_isr: int
    is_under_min_isr: bool
    uncommitted_records: int
    committed_records: int
    copies_left: int

    @property
    def is_moved(self) -> bool:
        """Whether another broker would lead."""
        return self.leader_after is not None and self.leader_after != self.leader_before

    @property
    def is_offline(self) -> bool:
        """Whether no broker would lead."""
        return self.leader_after is None

    @property
    def records_at_risk(self) -> int:
        """Records that would be lost, or be lost if the disks that died don't come back.

        All committed records, where no live replica is known to have them; and the records that
        only the leader has.
        """
        return self.uncommitted_records + (self.committed_records if not self.copies_left else 0)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Forecast:
    """What would happen if brokers died.

    Attributes:
        offset: Metadata offset of the image that the forecast starts from.
        partitions: Those that would change, and those that are offline or under min ISR already
            and have a replica on such a broker, in order.
        leaders_before: How many partitions each broker leads now.
        leaders_after: How many it would lead.
    """

    brokers: tuple[BrokerId, ...]
    offset: int
    partitions: tuple[PartitionForecast, ...]
    leaders_before: Mapping[BrokerId, int]
    leaders_after: Mapping[BrokerId, int]

    @property
    def moved(self) -> list[PartitionForecast]:
        """Partitions that another broker would lead."""
        return [each for each in self.partitions if each.is_moved]

    @property
    def offline(self) -> list[PartitionForecast]:
        """Partitions that no broker would lead."""
        return [each for each in self.partitions if each.is_offline]

    @property
    def under_min_isr(self) -> list[PartitionForecast]:
        """Partitions that would refuse acks=all, the offline ones included."""
        return [each for each in self.partitions if each.is_under_min_isr or each.is_offline]

    @property
    def on_last_copy(self) -> list[PartitionForecast]:
        """Partitions of which one live replica would be in sync: the next loss is the last."""
        return [each for each in self.partitions if each.copies_left == 1]

    @property
    def records_at_risk(self) -> int:
        """Records that would be lost, or be lost if the disks that died don't come back."""
        return sum(each.records_at_risk for each in self.partitions)

    @property
    def moves(self) -> dict[tuple[BrokerId | None, BrokerId], int]:
        """How many leaderships would move, by the pair of old and new leader."""
        pairs = ((each.leader_before, each.leader_after) for each in self.moved)
        return dict(Counter((before, after) for before, after in pairs if after is not None))

    def __str__(self) -> str:
        return "\n".join(map(visible, _sentences(self)))

    __repr__ = __str__


def _sentences(foreseen: Forecast) -> Iterable[str]:
    names = ", ".join(str(each) for each in foreseen.brokers)
    many = len(foreseen.brokers) > 1
    yield f"If broker{'s' if many else ''} {names} died now (metadata offset {foreseen.offset}):"
    yield f"  {_count(len(foreseen.moved), 'leadership')} would move"
    for (before, after), count in sorted(
        foreseen.moves.items(), key=lambda item: (str(item[0][0]), item[0][1])
    ):
        former = "nobody" if before is None else f"broker {before}"
        load = foreseen.leaders_after[after]
        yield f"    {count} from {former} to broker {after}, which would lead {load} in all"
    yield from _listed("would be offline", foreseen.offline)
    yield from _listed("would refuse acks=all (under min ISR)", foreseen.under_min_isr)
    yield from _listed("would have one copy in sync left", foreseen.on_last_copy)
    uncommitted = sum(each.uncommitted_records for each in foreseen.partitions)
    committed = foreseen.records_at_risk - uncommitted
    yield (
        f"  {_count(foreseen.records_at_risk, 'record')} would be at risk: {committed} committed"
        f" that no live in-sync replica has, {uncommitted} that only the dead leader has"
    )


SHOWN_MAX: Final = 5
"""Partitions that are named in a sentence; the rest are counted."""


def _listed(what: str, partitions: Sequence[PartitionForecast]) -> Iterable[str]:
    shown = ", ".join(str(each.name) for each in partitions[:SHOWN_MAX])
    rest = len(partitions) - SHOWN_MAX
    more = f" and {rest} more" if rest > 0 else ""
    yield f"  {_count(len(partitions), 'partition')} {what}{': ' if shown else ''}{shown}{more}"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def who_dies(
    image: MetadataImage,
    broker_dies: int | Iterable[int] | None,
    rack_dies: str | Iterable[str] | None,
) -> frozenset[BrokerId]:
    """Return the brokers that are named, by id or by rack; raise BrokerIdNotRegisteredError or
    InvalidRequestError if one is not there, or none is named."""
    ids = [broker_dies] if isinstance(broker_dies, int) else list(broker_dies or ())
    racks = {rack_dies} if isinstance(rack_dies, str) else set(rack_dies or ())
    named = {registered_broker(image, BrokerId(each)).broker_id for each in ids}
    known = {broker.rack for broker in image.brokers.values()} - {None}
    for rack in sorted(racks - known):
        there = ", ".join(sorted(filter(None, known))) or "none"
        raise InvalidRequestError(f"no broker is in rack {rack!r}: racks are {there}")
    named |= {each for each, broker in image.brokers.items() if broker.rack in racks}
    if not named:
        raise InvalidRequestError("what if what? Name broker_dies=3, or several, or rack_dies='a'")
    return frozenset(named)


def forecast(image: MetadataImage, brokers: frozenset[BrokerId]) -> Forecast:
    """Return what the controller would decide if `brokers` stopped answering. Pure.

    The controller fences them one after the other, as after its probes, and then elects leaders
    where it can.
    """
    cause = "what if"
    after = image
    for broker_id in image.brokers:
        if broker_id in brokers:
            records = fence_broker(after, broker_id, cause).records
            after = decided(after, records, image.time_ms)
    elected = elect_where_none(after, after.eligible_brokers(), cause)
    after = decided(after, elected.records, image.time_ms)
    return Forecast(
        brokers=tuple(sorted(brokers)),
        offset=image.offset,
        partitions=tuple(_partitions(image, after, brokers)),
        leaders_before=leader_counts(image),
        leaders_after=leader_counts(after),
    )


def decided(image: MetadataImage, records: Sequence[Record], now_ms: int) -> MetadataImage:
    """Return the image after a decision that is not committed."""
    if not records:
        return image
    stamp = Stamp(time_ms=now_ms)
    return image.replay(
        MetadataBatch(base_offset=image.offset, stamp=stamp, records=tuple(records))
    )


def leader_counts(image: MetadataImage) -> dict[BrokerId, int]:
    counts = Counter(partition.leader for _, partition in image.partitions())
    return {broker_id: counts[broker_id] for broker_id in sorted(image.brokers)}


def _partitions(
    image: MetadataImage, after: MetadataImage, brokers: frozenset[BrokerId]
) -> Iterable[PartitionForecast]:
    affected = {key: each for dead in brokers for key, each in image.partitions_on(dead)}
    for key, before in sorted(affected.items(), key=lambda item: image.name_of(item[0])):
        then = after.partition(key)
        assert then is not None, "a forecast deletes no topic"
        is_under = is_under_min_isr(after, key.topic_id, then)
        if then is before and then.leader is not None and not is_under:
            continue
        ahead = max(before.log_end_offset - before.high_watermark, 0)
        yield PartitionForecast(
            name=image.name_of(key),
            leader_before=before.leader,
            leader_after=then.leader,
            isr_before=tuple(sorted(before.isr)),
            isr_after=tuple(sorted(then.isr)),
            min_isr=min_isr(after, key.topic_id, then),
            is_under_min_isr=is_under,
            uncommitted_records=ahead if before.leader in brokers else 0,
            committed_records=before.high_watermark - before.log_start_offset,
            copies_left=sum(after.brokers[each].is_online for each in then.isr | then.elr),
        )
