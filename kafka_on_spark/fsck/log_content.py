"""I11, I15, I16, I25: what one replica's log has held, as its commits say: batches, in which files
they are, and producers.

Apart from the replay of commits: a merge moves batches into another file and changes nothing of the
log. So a batch that is merged stays what it was, and replicas are compared by batches, whatever
files each of them has.

What is kept of a producer whose headers went agrees with them (I11). Entries are compared with
sequences, but not with producer epochs: a run is fenced on leaders only, so a follower may take
what its own old entry would refuse. An id that has expired and come back begins anew: with whatever
sequence somebody vouched for, above all epochs that it has expired with.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from kafka_on_spark.base.ids import ChainDigest
from kafka_on_spark.fsck.trace import BatchLifetime, LoggedBatch, Stamp
from kafka_on_spark.log.state import ProducerEntries, ProducerEntry
from kafka_on_spark.store.delta.delta_files import FileEntry, TableCommit

REWRITES: Final = ("merge", "compact")
"""The operations of commits that put a file in the place of others."""


class Add(Protocol):
    """Adds a finding at the version that is replayed."""

    def __call__(
        self, invariant: str, sentence: str, offset: int | None = None, path: str | None = None
    ) -> None: ...


class LogContent:
    """The batches of a log in offset order, the files that hold them, and what it had before.

    Attributes:
        entries: The table's files by name.
        lifetimes: Every batch and merged segment that it ever had, each under its number.
        active: What is in the log, by its number, in offset order.
        removed_paths: Names of files that it has removed.
    """

    def __init__(self, add: Add) -> None:
        self.entries: dict[str, FileEntry] = {}
        self.lifetimes: list[BatchLifetime] = []
        self.active: dict[int, LoggedBatch] = {}
        self.removed_paths: set[str] = set()
        self._holders: dict[str, list[int]] = {}
        self._add = add

    @property
    def last(self) -> LoggedBatch | None:
        return next(reversed(self.active.values())) if self.active else None

    def borders(self, chain_before: ChainDigest, log_end_offset: int) -> dict[int, ChainDigest]:
        """Return where batches end, and the log's chain digest there."""
        batches = list(self.active.values())
        first = batches[0].base_offset if batches else log_end_offset
        return {**{each.end_offset: each.chain_digest for each in batches}, first: chain_before}

    def holds(self, path: str) -> bool:
        return path in self._holders

    def append(self, batch: LoggedBatch, version: int, *, is_own: bool) -> None:
        number = len(self.lifetimes)
        self.active[number] = batch
        self._holders.update((path, [number]) for path in batch.paths)
        self.lifetimes.append(BatchLifetime(batch=batch, added_version=version, is_own=is_own))

    def remove(self, numbers: Sequence[int], version: int) -> None:
        for number in numbers:
            del self.active[number]
            self.lifetimes[number] = replace(self.lifetimes[number], removed_version=version)

    def release(self, step: TableCommit) -> list[int]:
        """Take the files that a commit removes; return the numbers of the batches in them."""
        self.removed_paths |= set(step.removes)
        numbers: set[int] = set()
        for path in step.removes:
            if self.entries.pop(path, None) is None:
                self._add("I15", f"the file {path} is removed, which is not in the log")
            numbers.update(self._holders.pop(path, ()))
        released = [each for each in self.active if each in numbers] if numbers else []
        for batch in map(self.active.__getitem__, released):
            if any(path in self._holders for path in batch.paths):
                self._add("I15", "a part of a batch was removed", batch.base_offset)
        return released

    def move(
        self, released: Sequence[int], merged: Iterable[LoggedBatch], step: TableCommit
    ) -> list[int]:
        """Return the numbers of batches that a commit moves into merged segments (I25).

        If records went, the segment takes the place of its batches. A segment that begins where
        nothing was released was fetched, and is appended as a batch is; what a cut leaves of one
        takes the place of what lies wholly in it.
        """
        moved: list[int] = []
        is_cut = step.operation not in REWRITES
        for segment in merged:
            inside = [
                number
                for number in released
                if segment.base_offset <= self.active[number].base_offset < segment.end_offset
                and not (is_cut and self.active[number].end_offset > segment.end_offset)
            ]
            if not inside:
                continue
            batches = [self.active[number] for number in inside]
            count = sum(each.record_count for each in batches)
            self._check_merged(segment, batches, count, may_lack=step.operation == "compact")
            moved += inside
            if segment.record_count < count:
                self._replace(inside, segment, step.version)
            else:
                self._holders[segment.paths[0]] = inside
        return moved

    def name_files(self, entries: Iterable[FileEntry]) -> None:
        for entry in entries:
            if entry.path in self.entries:
                self._add("I15", f"the file {entry.path} is added a second time")
            self.entries[entry.path] = entry

    def check_dropped(self, before: int, after: int) -> None:
        """Check that what a log start has passed is gone with the commit that moved it (I16): a
        file with all its batches. One that has a batch above the log start stays whole."""
        number = next(iter(self.active), None)
        if number is None or before >= after or self.active[number].end_offset > after:
            return
        inside = next((each for each in self._holders.values() if number in each), [number])
        if all(self.active[each].end_offset <= after for each in inside):
            base, end = self.active[number].base_offset, self.active[number].end_offset
            sentence = f"the batch [{base}, {end}) is kept, and lies below the log start {after}"
            self._add("I16", sentence, base)

    def check_borders(
        self, path: str, borders: Sequence[tuple[int, ChainDigest]], compacted_below: int
    ) -> None:
        """Compare the borders in a merged segment's file with what went into it, as far as that is
        known (I25); `compacted_below`: what ends there may have lost them."""
        batches = [self.lifetimes[each].batch for each in self._holders.get(path, ())]
        if not batches:
            return
        base, end = batches[0].base_offset, batches[-1].end_offset
        sentence = f"the merged segment [{base}, {end}) keeps other borders than the log had there"
        if any(each.is_merged for each in batches):
            if borders or end <= compacted_below:
                return
            sentence = f"the merged segment [{base}, {end}) keeps no border, and is not compacted"
        elif list(borders) == [(f.end_offset, f.chain_digest) for b in batches for f in b.segments]:
            return
        self._add("I25", sentence, base, path)

    def _check_merged(
        self, segment: LoggedBatch, inside: Sequence[LoggedBatch], count: int, *, may_lack: bool
    ) -> None:
        first, last = inside[0], inside[-1]
        covered = (first.base_offset, last.end_offset, last.chain_digest)
        epochs = {segment.leader_epoch, *(each.leader_epoch for each in inside)}
        said = (segment.base_offset, segment.end_offset, segment.chain_digest)
        if covered != said or len(epochs) > 1:
            self._add(
                "I25",
                f"the merged segment [{segment.base_offset}, {segment.end_offset}) took the place"
                f" of [{first.base_offset}, {last.end_offset}) of leaderships"
                f" {', '.join(map(str, sorted(epochs)))}, or has another chain digest at its end",
                segment.base_offset,
            )
        if segment.record_count > count:
            sentence = "a merged segment has more records than went into it"
            self._add("I25", sentence, segment.base_offset)
        elif segment.record_count < count and not may_lack:
            sentence = (
                f"a merged segment has {segment.record_count} records, and {count} went into it:"
                " only compaction removes any"
            )
            self._add("I25", sentence, segment.base_offset)

    def _replace(self, numbers: Sequence[int], segment: LoggedBatch, version: int) -> None:
        """Have a merged segment in the place of batches whose records went in part."""
        active = list(self.active.items())
        place = list(self.active).index(numbers[0])
        self.active.clear()
        self.active.update(active[:place])
        self.append(segment, version, is_own=False)
        self.active.update(active[place:])
        self.remove(numbers, version)


class _Removed(NamedTuple):
    """A producer's last append whose header went; its offset and digest, where they must agree."""

    sequence: int
    producer_epoch: int
    base_offset: int | None
    payload_digest: int | None


class ProducerReplay:
    """Replays the producers of one log's batches, in order. `expired_epochs`: with which epochs
    producer ids have expired that came back since."""

    def __init__(self, add: Add, expired_epochs: Mapping[str, Sequence[int]]) -> None:
        self._add = add
        self._expired_epochs = expired_epochs
        self._removed: dict[str, _Removed] = {}
        self._last: dict[str, tuple[int, int]] = {}  # sequence and producer epoch
        self._uuids: dict[str, int] = {}  # base offset of each segment's batch

    def start_over(self, batches: Iterable[LoggedBatch], end_offset: int) -> None:
        """Forget the batches that were cut off at `end_offset`: `batches` are left."""
        self._last.clear()
        self._uuids.clear()
        for producer_id, removed in list(self._removed.items()):
            if removed.base_offset is None or removed.base_offset >= end_offset:
                del self._removed[producer_id]
        for batch in batches:
            self._remember(batch)

    def begin_again(self) -> None:
        """Forget where the appends stood whose headers went: the log is its leader's from now."""
        for producer_id, removed in self._removed.items():
            self._removed[producer_id] = removed._replace(base_offset=None, payload_digest=None)

    def remove(self, batches: Iterable[LoggedBatch], *, is_named: bool) -> None:
        """Take batches whose headers went; `is_named`: with a commit that names another file."""
        is_told = is_named
        for batch in batches:
            stamp = batch.stamp
            if stamp is None or not self._is_later(stamp):
                continue
            self._removed[stamp.producer_id] = _Removed(
                stamp.sequence, stamp.producer_epoch, batch.base_offset, stamp.payload_digest
            )
            if not is_told:
                sentence = "headers of producers were removed, and no new producer state was named"
                self._add("I11", sentence)
                is_told = True

    def _is_later(self, stamp: Stamp) -> bool:
        known = self._removed.get(stamp.producer_id)
        if known is None:
            return True
        epochs = (stamp.producer_epoch, known.producer_epoch)
        life, known_life = (self._life(stamp.producer_id, each) for each in epochs)
        return (life, stamp.sequence) > (known_life, known.sequence)

    def _life(self, producer_id: str, epoch: int) -> int:
        """Return how often an id had expired before a run of it began."""
        return sum(each < epoch for each in self._expired_epochs.get(producer_id, ()))

    def compare(self, entries: ProducerEntries) -> tuple[tuple[str, int], ...]:
        """Compare the file that counts with what was removed; return the producers it lacks, each
        with the newest epoch that was removed."""
        for producer_id, removed in self._removed.items():
            entry = entries.get(producer_id)
            if entry is None:
                continue
            life = self._life(producer_id, entry.producer_epoch)
            is_later = life > self._life(producer_id, removed.producer_epoch)
            if not is_later and not _agrees(entry, removed):
                self._add(
                    "I11",
                    f"the producer state says of producer {producer_id!r} what its log never had:"
                    f" its sequence {removed.sequence} stood at offset {removed.base_offset}",
                    removed.base_offset,
                )
        lacked = sorted(self._removed.keys() - entries.keys())
        return tuple((each, self._removed[each].producer_epoch) for each in lacked)

    def append(self, batch: LoggedBatch) -> None:
        """Check that the next batch is a new append, and remember it."""
        for uuid in batch.uuids:
            if uuid in self._uuids:
                sentence = f"the segment {uuid} is in the log already, at {self._uuids[uuid]}"
                self._add("I11", sentence, batch.base_offset)
        if batch.stamp is not None:
            self._check_stamp(batch.stamp, batch.base_offset)
        self._remember(batch)

    def _check_stamp(self, stamp: Stamp, offset: int) -> None:
        producer_id, producer_epoch, sequence, _ = stamp
        life, removed = self._life(producer_id, producer_epoch), self._removed.get(producer_id)
        last, last_epoch = self._last.get(producer_id, (-1, -1))
        if life > self._life(producer_id, last_epoch):
            last = -1
        if removed is not None and life <= self._life(producer_id, removed.producer_epoch):
            last = max(last, removed.sequence)
        if sequence <= last:
            sentence = f"sequence {sequence} of producer {producer_id!r} stands behind {last}"
            self._add("I11", sentence, offset)
        elif producer_epoch < last_epoch:
            sentence = (
                f"run {producer_epoch} of producer {producer_id!r} appended after run {last_epoch}"
            )
            self._add("I11", sentence, offset)

    def _remember(self, batch: LoggedBatch) -> None:
        self._uuids.update(dict.fromkeys(batch.uuids, batch.base_offset))
        if batch.stamp is not None:
            self._last[batch.stamp.producer_id] = (batch.stamp.sequence, batch.stamp.producer_epoch)


def _agrees(entry: ProducerEntry, removed: _Removed) -> bool:
    last = entry.last
    if last is None or last.sequence != removed.sequence or removed.base_offset is None:
        return entry.sequence >= removed.sequence
    return (last.base_offset, last.payload_digest) == (removed.base_offset, removed.payload_digest)
