"""Which batch of a log has a file, without a look at every batch: a log may have thousands.

It follows from the batches alone. A log carries it from one state to the next as it grows; the
newest batches are not in it yet, and whoever asks looks at those one by one.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from kafka_on_spark.log.batch import uuid_in_name
from kafka_on_spark.log.merged_segment import LogPart

UNINDEXED_MAX: Final = 64
"""Batches that a log grows by before they are taken in: that copies the index."""


@dataclass(frozen=True, slots=True)
class FileIndex:
    """The files of the first batches of a log.

    Attributes:
        count: How many batches it covers.
        places: The newest of these that has a file, by the file's uuid; 0 is the first of the log.
        others: Those of which a newer one has a file of the same uuid: none, in a sound log.
    """

    count: int = 0
    places: Mapping[str, int] = field(default_factory=dict)
    others: tuple[int, ...] = ()

    def places_of(self, uuids: Collection[str], batches: Sequence[LogPart]) -> Iterator[int]:
        """Yield the places of the `batches`, of which these are the first, that have any of some
        files, the newest first."""
        for place in range(len(batches) - 1, self.count - 1, -1):
            for segment in batches[place].segments:  # written out: this is most of an append
                if uuid_in_name(segment.file_name) in uuids:
                    yield place
                    break
        found = {self.places[uuid] for uuid in uuids if uuid in self.places}
        found |= {place for place in self.others if not uuids_of(batches[place]).isdisjoint(uuids)}
        yield from sorted(found, reverse=True)

    def grown(self, batches: Sequence[LogPart]) -> Self:
        """Return the index of `batches`, which begin with those that it covers, unless few lack."""
        if len(batches) - self.count <= UNINDEXED_MAX:
            return self
        places, others = dict(self.places), set(self.others)
        for place in range(self.count, len(batches)):
            for uuid in uuids_of(batches[place]):
                older = places.get(uuid)
                others |= set() if older is None else {older}
                places[uuid] = place
        return type(self)(len(batches), places, tuple(sorted(others)))


NO_FILES: Final = FileIndex()
"""Covers no batch."""


def uuids_of(batch: LogPart) -> set[str]:
    """Return the uuids of a batch's files."""
    return {uuid_in_name(segment.file_name) for segment in batch.segments}
