"""What a log keeps of producers whose headers it no longer has: the entries of its producer state.

Retention, merging and compaction take headers away. Before that their producers are entered here,
one entry an id. What is entered of an offset that the log has not reached, or was cut at, says only
that nobody knows: it must never be taken for a record that stands.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self

from kafka_on_spark.base.errors import ensure
from kafka_on_spark.base.ids import Offset, ProducerEpoch
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.merged_segment import LogPart
from kafka_on_spark.metadata.image import MetadataImage

_FILE_NAME: Final = re.compile(r"producers-([0-9]{20})\.parquet")


def producers_file_name(number: int) -> str:
    """Return the name of a replica's producer-state file."""
    return f"producers-{number:020d}.parquet"


def producers_file_number(name: str) -> int | None:
    """Return the number of a producer-state file, or None: the name is not one's."""
    found = _FILE_NAME.fullmatch(name)
    return None if found is None else int(found[1])


class ProducersFile(NamedTuple):
    """Which producer-state file of a replica counts, as its commits say.

    A number alone does not tell: where a disk has lost the file, a writer that slept may put under
    its number what it would have committed before.

    Attributes:
        number: In its name; 0: there is no file.
        digest: Of what is in it, 63 bits.
    """

    number: int
    digest: int


NO_FILE: Final = ProducersFile(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAppend:
    """The last append of a producer to a partition.

    Attributes:
        sequence: Its number.
        base_offset: Offset of its first record.
        record_count: Its records.
        payload_digest: As in ProducerStamp.
        partition_count: The topic's partitions when it was split.
        appended_at_ms: Time of its append.
    """

    sequence: int
    base_offset: Offset
    record_count: int
    payload_digest: int
    partition_count: int
    appended_at_ms: int

    def __post_init__(self) -> None:
        ensure(self.sequence >= 0 and self.base_offset >= 0 and self.record_count > 0, self)
        ensure(self.partition_count > 0 and -(2**63) <= self.payload_digest < 2**63, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerEntry:
    """What a log keeps of one producer, or of the writers under one transactional id.

    Attributes:
        producer_epoch: Its newest run; a lower one is fenced.
        last: Its last append of those whose headers went; None: only fenced.
        unknown_to: Of sequences up to this one nobody knows whether they stand, but for `last` and
            those in headers; -1: there is none.
    """

    producer_epoch: ProducerEpoch
    last: LastAppend | None = None
    unknown_to: int = -1

    @property
    def sequence(self) -> int:
        """The highest sequence that it has heard of, or -1."""
        return max(self.unknown_to, -1 if self.last is None else self.last.sequence)

    def with_append(self, producer_epoch: ProducerEpoch, append: LastAppend) -> Self:
        """Return the entry after the header of `append` went, too."""
        is_newer = self.last is None or append.sequence > self.last.sequence
        return replace(
            self,
            producer_epoch=max(self.producer_epoch, producer_epoch),
            last=append if is_newer else self.last,
        )

    def not_above(self, end_offset: Offset) -> Self:
        """Return the entry of a log that ends at `end_offset`: a last append at or above it may
        not stand, nor those before it that it has replaced here."""
        if self.last is None or self.last.base_offset < end_offset:
            return self
        return replace(self, last=None, unknown_to=self.sequence)

    def united_with(self, leaders: Self) -> Self:
        """Return the entry of a follower that has this one and takes its leader's."""
        lasts = [each.last for each in (leaders, self) if each.last is not None]
        is_vouched = leaders.last is not None and leaders.last.sequence >= self.unknown_to
        return replace(
            self,
            producer_epoch=max(self.producer_epoch, leaders.producer_epoch),
            last=max(lasts, key=lambda each: each.sequence, default=None),
            unknown_to=leaders.unknown_to
            if is_vouched
            else max(self.unknown_to, leaders.unknown_to),
        )


ProducerEntries = Mapping[str, ProducerEntry]
"""Entries by producer id, or by the key of a writer's fence. Never changed."""


def with_batches(entries: ProducerEntries, batches: Iterable[LogPart]) -> ProducerEntries:
    """Return `entries` after the headers of `batches` went; the same object if none had a
    producer."""
    after: dict[str, ProducerEntry] = {}
    for batch in batches:
        stamp = batch.producer
        if stamp is None or not isinstance(batch, Batch):
            continue
        new = ProducerEntry(producer_epoch=stamp.producer_epoch)
        known = after.get(stamp.producer_id) or entries.get(stamp.producer_id) or new
        after[stamp.producer_id] = known.with_append(
            stamp.producer_epoch,
            LastAppend(
                sequence=stamp.sequence,
                base_offset=batch.base_offset,
                record_count=batch.record_count,
                payload_digest=stamp.payload_digest,
                partition_count=batch.partition_count,
                appended_at_ms=batch.appended_at_ms,
            ),
        )
    return {**entries, **after} if after else entries


def not_above(entries: ProducerEntries, end_offset: Offset) -> ProducerEntries:
    """Return the entries of a log that ends at `end_offset`; the same object if all lie below."""
    if all(each.last is None or each.last.base_offset < end_offset for each in entries.values()):
        return entries
    return {producer_id: each.not_above(end_offset) for producer_id, each in entries.items()}


def united(own: ProducerEntries, leaders: ProducerEntries) -> ProducerEntries:
    """Return a follower's entries with those of its leader, as they were read.

    Whoever takes from a leader what has no headers (a merged segment, a later log start) needs what
    the leader knows of those.
    """
    return {
        **own,
        **{
            producer_id: own[producer_id].united_with(each) if producer_id in own else each
            for producer_id, each in leaders.items()
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredProducers:
    """Which producer ids the cluster knows.

    Attributes:
        ids: The ids that have not expired, as of some moment; an image's own mapping, as a rule,
            since a copy of it for each append would cost too much.
        expired_epoch: The highest epoch of those that have expired by then. An id that comes back,
            or is new, begins above it.
    """

    ids: Collection[str]
    expired_epoch: int

    def without_expired(self, entries: ProducerEntries) -> ProducerEntries:
        """Return the entries but those of ids that have expired.

        These values may be old: an id that was registered since has a later epoch, and stays.
        """
        expired = [
            producer_id
            for producer_id, entry in entries.items()
            if producer_id not in self.ids and entry.producer_epoch <= self.expired_epoch
        ]
        if not expired:
            return entries
        gone = frozenset(expired)
        return {name: entry for name, entry in entries.items() if name not in gone}


def registered_producers(image: MetadataImage) -> RegisteredProducers | None:
    """Return which producer ids have not expired; None: none ever has."""
    if image.expired_epoch < 0:
        return None
    return RegisteredProducers(ids=image.producers, expired_epoch=image.expired_epoch)
