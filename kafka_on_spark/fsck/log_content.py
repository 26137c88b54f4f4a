"""I25: what one replica's log holds, and in which files, as its commits say.

Apart from the replay of commits: a merge moves batches into another file and changes nothing of the
log. So a batch that is merged stays what it was, and replicas are compared by batches, whatever
files each of them has.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kafka_on_spark.base.ids import ChainDigest
from kafka_on_spark.fsck.batches import LoggedBatch
from kafka_on_spark.fsck.findings import FindingList
from kafka_on_spark.fsck.trace import BatchLifetime
from kafka_on_spark.store.delta.history import FileEntry, TableCommit

REWRITES: Final = ("merge", "compact")
"""The operations of commits that put a file in the place of others."""


class LogContent:
    """The batches of a log in offset order, the files that hold them, and what it had before.

    Attributes:
        entries: The table's files by name.
        lifetimes: Every batch and merged segment that it ever had, each under its number.
        active: What is in the log, by its number, in offset order.
        removed_paths: Names of files that it has removed.
    """

    def __init__(self, findings: FindingList) -> None:
        self.entries: dict[str, FileEntry] = {}
        self.lifetimes: list[BatchLifetime] = []
        self.active: dict[int, LoggedBatch] = {}
        self.removed_paths: set[str] = set()
        self._holders: dict[str, list[int]] = {}
        self._findings = findings

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
        self.lifetimes.append(
            BatchLifetime(
                batch=batch,
                added_version=version,
                removed_version=None,
                is_own=is_own,
            )
        )

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
                self._add("I15", f"the file {path} is removed, which is not in the log", step)
            numbers.update(self._holders.pop(path, ()))
        released = [each for each in self.active if each in numbers] if numbers else []
        for number in released:
            batch = self.active[number]
            if any(path in self._holders for path in batch.paths):
                self._add("I15", "a part of a batch was removed", step, batch.base_offset)
        return released

    def move(
        self,
        released: Sequence[int],
        merged: Sequence[LoggedBatch],
        step: TableCommit,
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
            self._check_merged(segment, batches, step)
            moved += inside
            if segment.record_count < sum(each.record_count for each in batches):
                self._replace(inside, segment, step.version)
            else:
                self._holders[segment.paths[0]] = inside
        return moved

    def name_files(self, step: TableCommit) -> None:
        for entry in step.adds:
            if entry.path in self.entries:
                self._add("I15", f"the file {entry.path} is added a second time", step)
            self.entries[entry.path] = entry

    def check_dropped(self, before: int, after: int, version: int) -> None:
        """Check that what a log start has passed is gone with the commit that moved it (I16): a
        file with all its batches. One that has a batch above the log start stays whole."""
        number = next(iter(self.active), None)
        if number is None or before >= after or self.active[number].end_offset > after:
            return
        inside = next((each for each in self._holders.values() if number in each), [number])
        if all(self.active[each].end_offset <= after for each in inside):
            base, end = self.active[number].base_offset, self.active[number].end_offset
            sentence = f"the batch [{base}, {end}) is kept, and lies below the log start {after}"
            self._findings.add("I16", sentence, version=version, offset=base)

    def check_borders(
        self,
        path: str,
        borders: Sequence[tuple[int, ChainDigest]],
        version: int,
        compacted_below: int,
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
        self._findings.add("I25", sentence, version=version, offset=base, path=path)

    def _check_merged(
        self,
        segment: LoggedBatch,
        inside: Sequence[LoggedBatch],
        step: TableCommit,
    ) -> None:
        first, last = inside[0], inside[-1]
        covered = (first.base_offset, last.end_offset, last.chain_digest)
        epochs = {segment.leader_epoch, *(each.leader_epoch for each in inside)}
        if covered != (segment.base_offset, segment.end_offset, segment.chain_digest) or (
            len(epochs) > 1
        ):
            self._add(
                "I25",
                f"the merged segment [{segment.base_offset}, {segment.end_offset}) took the place"
                f" of [{first.base_offset}, {last.end_offset}) of leaderships"
                f" {', '.join(map(str, sorted(epochs)))}, or has another chain digest at its end",
                step,
                segment.base_offset,
            )
        count = sum(each.record_count for each in inside)
        if segment.record_count > count:
            sentence = "a merged segment has more records than went into it"
            self._add("I25", sentence, step, segment.base_offset)
        elif segment.record_count < count and step.operation != "compact":
            sentence = (
                f"a merged segment has {segment.record_count} records, and {count} went into it:"
                " only compaction removes any"
            )
            self._add("I25", sentence, step, segment.base_offset)

    def _replace(self, numbers: Sequence[int], segment: LoggedBatch, version: int) -> None:
        """Have a merged segment in the place of batches whose records went in part."""
        number = len(self.lifetimes)
        self.lifetimes.append(
            BatchLifetime(
                batch=segment,
                added_version=version,
                removed_version=None,
                is_own=False,
            )
        )
        self._holders[segment.paths[0]] = [number]
        content: dict[int, LoggedBatch] = {}
        for each, batch in self.active.items():
            if each == numbers[0]:
                content[number] = segment
            content[each] = batch
        self.active = content
        self.remove(numbers, version)

    def _add(
        self, invariant: str, sentence: str, step: TableCommit, offset: int | None = None
    ) -> None:
        self._findings.add(invariant, sentence, version=step.version, offset=offset)
