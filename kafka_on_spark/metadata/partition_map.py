"""A topic's partitions by number, in chunks, so that the cost of a change is its own size.

An image is replaced with every commit. If its partitions stood in a dict, an append to one of a
million would copy a million entries. Here images share chunks, and a change copies the chunks that
it touches. A chunk also remembers which of its partitions need work, and which brokers are in sync
in any of them or have a replica of any, so that a search skips the other chunks.
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from typing import Final

from kafka_on_spark.base.ids import BrokerId, PartitionKey
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration

CHUNK_BITS: Final = 10
"""A chunk has 1,024 partitions, about as many as a topic of a million has chunks."""

CHUNK_SIZE: Final = 1 << CHUNK_BITS
MERGED_AT_ONCE_MIN: Final = 8
"""From so many changes on, merging field by field is faster than one by one."""

_MASK: Final = CHUNK_SIZE - 1

Numbered = tuple[int, PartitionRegistration]
Keyed = tuple[PartitionKey, PartitionRegistration]


class _Chunk:
    """Partitions with neighbouring numbers; None where there is none."""

    __slots__ = ("_brokers", "_needing_work", "partitions")

    def __init__(self, partitions: Iterable[PartitionRegistration | None]) -> None:
        self.partitions = tuple(partitions)
        self._needing_work: tuple[tuple[int, PartitionRegistration], ...] | None = None
        self._brokers: dict[str, frozenset[BrokerId]] = {}

    def needing_work(self) -> tuple[Numbered, ...]:
        """Return those that need work, with their places; found once."""
        if self._needing_work is None:
            self._needing_work = tuple(
                (place, partition)
                for place, partition in enumerate(self.partitions)
                if partition is not None and partition.needs_work
            )
        return self._needing_work

    def brokers(self, field: str) -> frozenset[BrokerId]:
        """Return the brokers that are in a field of any of them, `isr` or `replicas`; found
        once."""
        if field not in self._brokers:
            # Thousands of partitions have few different ones.
            found = {getattr(each, field) for each in self.partitions if each is not None}
            self._brokers[field] = frozenset().union(*found)
        return self._brokers[field]


_EMPTY: Final = _Chunk(())


class PartitionMap(Mapping[int, PartitionRegistration]):
    """Registrations by partition number, in order of the numbers. Immutable."""

    __slots__ = ("_chunks", "_count")

    def __init__(self, partitions: Mapping[int, PartitionRegistration] | None = None) -> None:
        self._chunks: dict[int, _Chunk] = {}
        self._count = 0
        if partitions:
            draft = PartitionMapDraft(self)
            for number in sorted(partitions):
                draft.put(number, partitions[number])
            finished = draft.finish()
            self._chunks, self._count = finished._chunks, finished._count

    @classmethod
    def of(cls, partitions: Mapping[int, PartitionRegistration]) -> "PartitionMap":
        """Return `partitions` as such a map; itself, if it is one."""
        return partitions if isinstance(partitions, cls) else cls(partitions)

    @classmethod
    def _of_chunks(cls, chunks: dict[int, _Chunk], count: int) -> "PartitionMap":
        map_ = cls()
        map_._chunks, map_._count = chunks, count
        return map_

    def __getitem__(self, number: int) -> PartitionRegistration:
        try:
            found = self._chunks[number >> CHUNK_BITS].partitions[number & _MASK]
        except (KeyError, IndexError, TypeError):
            raise KeyError(number) from None
        if found is None:
            raise KeyError(number)
        return found

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return (number for number, _ in self._numbered())

    def _numbered(self) -> Iterator[Numbered]:
        for chunk_number, chunk in self._chunks.items():
            for number, partition in enumerate(chunk.partitions, chunk_number << CHUNK_BITS):
                if partition is not None:
                    yield number, partition

    def items(self) -> ItemsView[int, PartitionRegistration]:
        """Return a view of the numbers and registrations."""
        return _Items(self)

    def values(self) -> ValuesView[PartitionRegistration]:
        """Return a view of the registrations."""
        return _Values(self)

    def needing_work(self) -> Iterator[Numbered]:
        """Yield the partitions that need work: in a healthy topic, none is visited."""
        for chunk_number, chunk in self._chunks.items():
            for place, partition in chunk.needing_work():
                yield (chunk_number << CHUNK_BITS) + place, partition

    def in_sync_on(self, broker_ids: frozenset[BrokerId]) -> Iterator[Numbered]:
        """Yield the partitions in whose ISR any of `broker_ids` is, so that it may lead them."""
        return self._where("isr", broker_ids)

    def replicas_on(self, broker_id: BrokerId) -> Iterator[Numbered]:
        """Yield the partitions of which a broker has a replica."""
        return self._where("replicas", frozenset({broker_id}))

    def _where(self, field: str, broker_ids: frozenset[BrokerId]) -> Iterator[Numbered]:
        for chunk_number, chunk in self._chunks.items():
            if chunk.brokers(field).isdisjoint(broker_ids):
                continue
            for number, partition in enumerate(chunk.partitions, chunk_number << CHUNK_BITS):
                if partition is not None and not broker_ids.isdisjoint(getattr(partition, field)):
                    yield number, partition

    def __repr__(self) -> str:
        return f"PartitionMap({dict(self.items())})"


class _Items(ItemsView[int, PartitionRegistration]):
    """A view of a map that needs no look-up for each entry."""

    _mapping: PartitionMap

    def __iter__(self) -> Iterator[Numbered]:
        return self._mapping._numbered()


class _Values(ValuesView[PartitionRegistration]):
    """A view of a map that needs no look-up for each entry."""

    _mapping: PartitionMap

    def __iter__(self) -> Iterator[PartitionRegistration]:
        return (partition for _, partition in self._mapping._numbered())


class PartitionMapDraft:
    """A map being changed: it copies a chunk once, at its first change."""

    def __init__(self, base: PartitionMap) -> None:
        self._base = base
        self._count = len(base)
        self._open: dict[int, list[PartitionRegistration | None]] = {}

    def get(self, number: int) -> PartitionRegistration | None:
        """Return the registration of a number, or None if there is none."""
        chunk = self._open.get(number >> CHUNK_BITS)
        if chunk is None:
            return self._base.get(number)
        place = number & _MASK
        return chunk[place] if place < len(chunk) else None

    def put(self, number: int, partition: PartitionRegistration) -> None:
        """Set the registration of a number."""
        chunk = self._opened(number >> CHUNK_BITS)
        place = number & _MASK
        if place >= len(chunk):
            chunk.extend([None] * (place + 1 - len(chunk)))
        self._count += chunk[place] is None
        chunk[place] = partition

    def merge(self, changes: Sequence[tuple[int, PartitionChange]]) -> None:
        """Apply changes in order; a change of a number that does not exist is passed over."""
        by_number = dict(changes)
        is_each_once = len(by_number) == len(changes)
        if not is_each_once or len(changes) < MERGED_AT_ONCE_MIN:
            for number, change in changes:
                partition = self.get(number)
                if partition is not None:
                    self.put(number, partition.merge(change))
            return
        found = [(number, self.get(number)) for number in by_number]
        known = [(number, partition) for number, partition in found if partition is not None]
        merged = PartitionRegistration.merge_each(
            [partition for _, partition in known], [by_number[number] for number, _ in known]
        )
        for (number, _), partition in zip(known, merged, strict=True):
            self.put(number, partition)

    def remove(self, number: int) -> PartitionRegistration | None:
        """Take a number out; return what stood there, or None."""
        found = self.get(number)
        if found is not None:
            self._opened(number >> CHUNK_BITS)[number & _MASK] = None
            self._count -= 1
        return found

    def _opened(self, chunk_number: int) -> list[PartitionRegistration | None]:
        chunk = self._open.get(chunk_number)
        if chunk is None:
            chunk = list(self._base._chunks.get(chunk_number, _EMPTY).partitions)
            self._open[chunk_number] = chunk
        return chunk

    def finish(self) -> PartitionMap:
        """Return the map."""
        chunks = dict(self._base._chunks)
        for chunk_number, opened in self._open.items():
            while opened and opened[-1] is None:
                opened.pop()
            if opened:
                chunks[chunk_number] = _Chunk(opened)
            else:
                chunks.pop(chunk_number, None)
        numbers = sorted(chunks)
        if numbers != list(chunks):
            chunks = {number: chunks[number] for number in numbers}
        return PartitionMap._of_chunks(chunks, self._count)
