"""I11, I15, I16, I19, I20, I25, I27: one replica's table, replayed by version.

The tables do not record whether a payload digest covers timestamps, so it can't be computed again.
A merge moves batches into another file and changes nothing of the log. So a batch that is merged
stays what it was, and replicas are compared by batches, whatever files each of them has.

What is kept of a producer whose headers went agrees with them (I11). Entries are compared with
sequences, but not with producer epochs: a run is fenced on leaders only, so a follower may take
what its own old entry would refuse. An id that has expired and come back begins anew: with whatever
sequence somebody vouched for, above all epochs that it has expired with.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Final, NamedTuple

from kafka_on_spark.base.ids import ChainDigest, Offset, TopicPartition
from kafka_on_spark.fsck.findings import FindingList, Place
from kafka_on_spark.fsck.log_rules import (
    Flaw,
    commit_flaws,
    name_flaws,
    order_flaws,
    replacement_flaws,
)
from kafka_on_spark.fsck.trace import (
    BatchLifetime,
    EpochSpan,
    LoggedBatch,
    ReplicaTrace,
    batches_of,
    is_merged,
)
from kafka_on_spark.log.batch import ProducerStamp
from kafka_on_spark.log.compaction import COUNTERS, NO_PROGRESS, CompactionProgress
from kafka_on_spark.log.evidence import DIRECTORY
from kafka_on_spark.log.producer_state import ProducersFile, next_sequence
from kafka_on_spark.log.replicas import (
    CHAIN_HIGH,
    CHAIN_LOW,
    LEADER_EPOCH,
    LOG_END_OFFSET,
    LOG_START_OFFSET,
    PRODUCER_DIGEST,
    PRODUCER_STATE,
    configuration_of,
)
from kafka_on_spark.log.state import ProducerEntries, ProducerEntry, ReplicaAddress, from_halves
from kafka_on_spark.store.delta.delta_files import (
    FileEntry,
    TableCheckpoint,
    TableCommit,
    TableDamage,
    TableStep,
)

REWRITES: Final = ("merge", "compact")
"""The operations of commits that put a file in the place of others."""

Add = Callable[..., None]
"""Adds a finding at the version that is replayed: an invariant, a sentence, an offset, a path."""


class LogContent:
    """The batches of a log in offset order, the files that hold them, and what it had before.

    `lifetimes` are those of every batch and merged segment that it ever had; the place of each
    there is its number. `active` has what is in the log by number, in offset order.
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
        numbers = set[int]()
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
            for flaw in replacement_flaws(segment, batches, may_lack=step.operation == "compact"):
                self._add(*flaw)
            moved += inside
            if segment.record_count < count:
                self._replace(inside, segment, step.version)
            else:
                self._holders[segment.paths[0]] = inside
        return moved

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
    """A producer's last append whose header went, and where it stood; None: nobody knows."""

    stamp: ProducerStamp
    base_offset: int | None


class ProducerReplay:
    """Replays the producers of one log's batches, in order. `expired_epochs`: with which epochs
    producer ids have expired that came back since."""

    def __init__(self, add: Add, expired_epochs: Mapping[str, Sequence[int]]) -> None:
        self._add = add
        self._expired_epochs = expired_epochs
        self._removed: dict[str, _Removed] = {}
        self._last: dict[str, LoggedBatch] = {}
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
            self._removed[producer_id] = removed._replace(base_offset=None)

    def remove(self, batches: Iterable[LoggedBatch], *, is_named: bool) -> None:
        """Take batches whose headers went; `is_named`: with a commit that names another file."""
        sentence = "headers of producers were removed, and no new producer state was named"
        for batch in batches:
            stamp = batch.stamp
            if stamp is not None and self._is_later(stamp):
                self._removed[stamp.producer_id] = _Removed(stamp, batch.base_offset)
                if not is_named:
                    self._add("I11", sentence)

    def _is_later(self, stamp: ProducerStamp) -> bool:
        known = self._removed.get(stamp.producer_id)
        if known is None:
            return True
        life, before = (self._life(each, stamp.producer_id) for each in (stamp, known.stamp))
        return (life, stamp.sequence) > (before, known.stamp.sequence)

    def _life(self, run: ProducerStamp | ProducerEntry, producer_id: str) -> int:
        """Return how often an id had expired before a run of it began."""
        expired = self._expired_epochs.get(producer_id, ())
        return sum(each < run.producer_epoch for each in expired)

    def compare(self, entries: ProducerEntries) -> tuple[tuple[str, int], ...]:
        """Compare the file that counts with what was removed; return the producers it lacks, each
        with the newest epoch that was removed."""
        for producer_id, removed in self._removed.items():
            entry = entries.get(producer_id)
            if entry is None:
                continue
            life = self._life(removed.stamp, producer_id)
            if self._life(entry, producer_id) <= life and not _agrees(entry, removed):
                sentence = (
                    f"the producer state says of producer {producer_id!r} what its log never had:"
                    f" its sequence {removed.stamp.sequence} stood at offset {removed.base_offset}"
                )
                self._add("I11", sentence, removed.base_offset)
        lacked = sorted(self._removed.keys() - entries.keys())
        return tuple((each, self._removed[each].stamp.producer_epoch) for each in lacked)

    def append(self, batch: LoggedBatch) -> None:
        """Check that the next batch is a new append, and remember it."""
        for uuid in batch.uuids:
            if uuid in self._uuids:
                sentence = f"the segment {uuid} is in the log already, at {self._uuids[uuid]}"
                self._add("I11", sentence, batch.base_offset)
        if batch.stamp is not None:
            self._check_stamp(batch.stamp, batch.base_offset)
        self._remember(batch)

    def _check_stamp(self, stamp: ProducerStamp, offset: int) -> None:
        producer_id, sequence = stamp.producer_id, stamp.sequence
        last_batch, removed = self._last.get(producer_id), self._removed.get(producer_id)
        previous = None if last_batch is None else last_batch.stamp
        known = [each for each in (previous, removed and removed.stamp) if each is not None]
        life = self._life(stamp, producer_id)
        of_life = (each.sequence for each in known if self._life(each, producer_id) >= life)
        last = max(of_life, default=-1)
        if sequence <= last:
            sentence = f"sequence {sequence} of producer {producer_id!r} stands behind {last}"
            self._add("I11", sentence, offset)
        elif previous is not None and stamp.producer_epoch < previous.producer_epoch:
            run = f"run {stamp.producer_epoch} of producer {producer_id!r}"
            self._add("I11", f"{run} appended after run {previous.producer_epoch}", offset)
        elif last_batch is not None and previous is not None and previous.sequence == last:
            expected = next_sequence(last, last_batch.record_count, sequence)
            if stamp.is_consecutive and sequence != expected:
                sentence = f"sequence {sequence} of producer {producer_id!r} is not {expected}"
                self._add("I11", f"{sentence}, which follows", offset)

    def _remember(self, batch: LoggedBatch) -> None:
        self._uuids.update(dict.fromkeys(batch.uuids, batch.base_offset))
        if batch.stamp is not None:
            self._last[batch.stamp.producer_id] = batch


def _agrees(entry: ProducerEntry, removed: _Removed) -> bool:
    last, (stamp, base_offset) = entry.last, removed
    if last is None or last.sequence != stamp.sequence or base_offset is None:
        return entry.sequence >= stamp.sequence
    return (last.base_offset, last.payload_digest) == (base_offset, stamp.payload_digest)


STARTS_AGAIN: Final = "truncate_fully_and_start_at"
FETCHED: Final = "append_fetched"
_RISING: Final = ("compacted_below", "tombstones_below", "finished_below")


class LogCounters(NamedTuple):
    """The counters of a table; its compaction is None if they contradict each other."""

    log_start_offset: int
    log_end_offset: int
    leader_epoch: int | None
    chain: ChainDigest
    producers: ProducersFile
    compaction: CompactionProgress | None


def _log_counters(values: Mapping[str, int]) -> LogCounters:
    try:
        compaction = CompactionProgress(
            **{field: Offset(values.get(name, 0)) for field, name in COUNTERS.items()}
        )
    except AssertionError:
        compaction = None
    return LogCounters(
        log_start_offset=values.get(LOG_START_OFFSET, 0),
        log_end_offset=values.get(LOG_END_OFFSET, 0),
        leader_epoch=values.get(LEADER_EPOCH),
        chain=from_halves(values.get(CHAIN_HIGH), values.get(CHAIN_LOW)),
        producers=ProducersFile(values.get(PRODUCER_STATE, 0), values.get(PRODUCER_DIGEST, 0)),
        compaction=compaction,
    )


class ReplicaReplay:
    """Replays the steps of one table's log in order. `expired_epochs`: with which epochs producer
    ids have expired that came back since."""

    def __init__(
        self, address: ReplicaAddress, expired_epochs: Mapping[str, Sequence[int]]
    ) -> None:
        self._address = address
        self._expired_epochs = expired_epochs
        name = TopicPartition(address.topic, address.key.partition)
        self.findings = FindingList(Place(partition=name, broker_id=address.broker_id))
        self._trace = ReplicaTrace(broker_id=address.broker_id, replica_uuid=address.replica_uuid)
        self._is_void = False  # the last commit has no bytes
        self._has_leaders_file = False  # a producer state came with segments of a leader
        self._values: dict[str, int] = {}
        self.counters = _log_counters({})
        self.log = LogContent(self._add)
        self.producers = ProducerReplay(self._add, expired_epochs)

    @property
    def compaction(self) -> CompactionProgress:
        return self.counters.compaction or NO_PROGRESS

    def take(self, step: TableStep) -> None:
        if isinstance(step, TableDamage):
            self.findings.add("I15", step.sentence, version=step.version)
            # After a commit that can't be read, only a checkpoint can say how the log goes on.
            self._trace.is_read &= step.is_checkpoint
        elif isinstance(step, TableCheckpoint):
            self._checkpoint(step)
        elif step.version == 0 or self._trace.is_read:
            self._commit(step)

    def trace(self) -> ReplicaTrace:
        lifetimes, counters = self.log.lifetimes, self.counters
        return replace(
            self._trace,
            log_start_offset=counters.log_start_offset,
            log_end_offset=counters.log_end_offset,
            leader_epoch=counters.leader_epoch,
            lifetimes=tuple(each for each in lifetimes if not each.batch.is_merged),
            merged=tuple(each.batch for each in lifetimes if each.batch.is_merged),
            borders=self.log.borders(counters.chain, counters.log_end_offset),
            has_merged_files=any(map(is_merged, self.log.entries.values())),
            compaction=self.compaction,
            findings=self.findings.all(),
        )

    def _checkpoint(self, step: TableCheckpoint) -> None:
        trace = self._trace
        if trace.is_read:
            paths = {file.path for file in step.files}
            is_same = _log_counters(step.counters) == self.counters
            if is_same and paths == self.log.entries.keys():
                return
            sentence = "says another state than the commits up to it"
            self._add("I15", f"the checkpoint of version {step.version} {sentence}")
            if not self._is_void:
                return
            # The commit has lost its bytes; processes go on from what the checkpoint says.
        trace.last_version = trace.first_version = step.version
        trace.is_read = True
        trace.spans.clear()  # how the log went on is not known
        self.producers = ProducerReplay(self._add, self._expired_epochs)
        self._check_configuration(step.configuration)
        self.log.remove(list(self.log.active), step.version)
        self.log.entries = {file.path: file for file in step.files}
        self._values = dict(step.counters)
        self.counters = _log_counters(self._values)
        self._append(self._parsed(step.files), self.counters.log_start_offset, is_own=False)
        self._follow_span(None)

    def _commit(self, step: TableCommit) -> None:
        self._trace.last_version, self._trace.is_read = step.version, True
        self._is_void = step == TableCommit(version=step.version, operation=None)
        if step.configuration is not None:
            self._check_configuration(step.configuration)
            if step.version > 0:
                self._add("I19", "the table was created a second time, over itself")
        before, after = self.counters, self._counters_after(step)
        self.counters = after
        if after.producers.number < before.producers.number:
            numbers = f"{before.producers.number} to {after.producers.number}"
            self._add("I11", f"the number of the producer-state file went back from {numbers}")
        names = [entry.path for entry in step.adds]
        known = {*self.log.removed_paths.intersection(names), *(self.log.entries.keys() & names)}
        self._add_all(name_flaws(names, after.leader_epoch, known))
        self._change_log(step, before, after)
        self.log.check_dropped(before.log_start_offset, after.log_start_offset)
        self._follow_span(before)

    def _change_log(self, step: TableCommit, before: LogCounters, after: LogCounters) -> None:
        """Take the files of a commit: what it takes out of the log, moves to others, appends."""
        released, adds = self.log.release(step), self._parsed(step.adds)
        held = dict(self.log.active)
        moved = self.log.move(released, [each for each in adds if each.is_merged], step)
        removed = [number for number in released if number not in moved]
        appended = [each for each in adds if not self.log.holds(each.paths[0])]
        is_cut = self._check_removed(removed, after, {each.base_offset for each in appended})
        left = [] if is_cut else [held[number] for number in removed]
        if step.operation == STARTS_AGAIN:  # that takes its leader's chain
            self.producers.begin_again()
        else:
            self._check_chain_before(left, before, after)
            is_named = after.producers.number > before.producers.number
            self._has_leaders_file |= is_named and step.operation == FETCHED
            gone = [*(held[number] for number in moved), *left]
            # The file that a leader's merged segments came with may cover these already, and so do
            # all later ones, since entries never go back.
            self.producers.remove(gone, is_named=is_named or self._has_leaders_file)
        self.log.remove(removed, step.version)
        if is_cut:
            self.producers.start_over(self.log.active.values(), after.log_end_offset)
        self.log.entries |= {entry.path: entry for entry in step.adds}
        is_fetched = step.operation == FETCHED
        self._add_all(commit_flaws(before, after, appended, is_fetched=is_fetched))
        start, end = after.log_start_offset, before.log_end_offset
        if self.log.last is not None:
            end = self.log.last.end_offset
        elif is_cut or start > end:
            end = start
        self._append(appended, end, is_own=not is_fetched)

    def _add(
        self, invariant: str, sentence: str, offset: int | None = None, path: str | None = None
    ) -> None:
        version = self._trace.last_version
        self.findings.add(invariant, sentence, version=version, offset=offset, path=path)

    def _add_all(self, flaws: Iterable[Flaw]) -> None:
        for flaw in flaws:
            self._add(*flaw)

    def _parsed(self, entries: Sequence[FileEntry]) -> list[LoggedBatch]:
        batches, flaws = batches_of(entries)
        self._add_all(flaws)
        return batches

    def _check_configuration(self, found: Mapping[str, str]) -> None:
        for name, expected in configuration_of(self._address.identity).items():
            if name != DIRECTORY and found.get(name) != expected:  # a copy has the original's
                invariant = "I20" if name in ("kos.topic.id", "kos.partition") else "I19"
                sentence = f"the table says {name}={found.get(name)}, it must be {expected}"
                self._add(invariant, sentence)

    def _counters_after(self, step: TableCommit) -> LogCounters:
        """Return the counters after a commit, with its compaction checked (I27)."""
        self._values |= step.counters
        before, after = self.counters, _log_counters(self._values)
        if after.compaction is None:
            said = [name for name in COUNTERS.values() if name in step.counters]
            if said:
                words = ", ".join(f"{name} {step.counters[name]}" for name in said)
                self._add("I27", f"the counters of compaction contradict each other: {words}")
            return after._replace(compaction=before.compaction)
        # An unclean leader's log may end below what was compacted.
        may_fall = step.operation == STARTS_AGAIN or before.leader_epoch != after.leader_epoch
        for field in () if may_fall else _RISING:
            was, now = getattr(self.compaction, field), getattr(after.compaction, field)
            if now < was:
                self._add("I27", f"the counter {COUNTERS[field]} went back from {was} to {now}")
        return after

    def _check_removed(
        self, removed: Sequence[int], after: LogCounters, added_at: Set[int]
    ) -> bool:
        """Check that batches may be removed; return whether they were cut off the end. `added_at`:
        where what is added begins: a cut inside a merged segment leaves its lower part."""
        is_cut, start, end = False, after.log_start_offset, after.log_end_offset
        for batch in map(self.log.active.__getitem__, removed):
            if batch.end_offset <= start:
                continue
            # A cut to the log start takes a batch that the start lies in as a whole.
            is_in_part = batch.is_merged and batch.base_offset in added_at
            if batch.base_offset >= end or end == start or is_in_part:
                is_cut = True
            else:
                removed_batch = f"the batch [{batch.base_offset}, {batch.end_offset}) was removed"
                sentence = f"{removed_batch}, neither below the log start {start} nor off the end"
                self._add("I16", sentence, batch.base_offset)
        return is_cut

    def _check_chain_before(
        self, left: Sequence[LoggedBatch], before: LogCounters, after: LogCounters
    ) -> None:
        """Check the chain digest before the first batch that is kept: that of the last batch that
        was removed at the front, or else the one before."""
        expected = left[-1].chain_digest if left else before.chain
        if after.chain != expected:
            sentence = f"the chain digest before the log's first batch is said to be {after.chain}"
            self._add("I15", f"{sentence}, and is {expected}", after.log_start_offset)

    def _append(self, batches: Sequence[LoggedBatch], expected: int, *, is_own: bool) -> None:
        end = self.counters.log_end_offset
        self._add_all(order_flaws(batches, last=self.log.last, expected=expected, end=end))
        for batch in batches:
            last = self.log.last
            before = self.counters.chain if last is None else last.chain_digest
            if not batch.computes_after(before, *self._address.key):
                sentence = f"the chain digest of the batch at {batch.base_offset} is not the one"
                made = "that its header and what is before it make: one of both was changed"
                self._add("I15", f"{sentence} {made}", batch.base_offset)
                self._trace.is_chained = False
            self.producers.append(batch)
            self.log.append(batch, self._trace.last_version, is_own=is_own)

    def _follow_span(self, before: LogCounters | None) -> None:
        """Take the newest version under its fence. `before`: the counters before it; None: those of
        a checkpoint that the history goes on from."""
        counters, trace = self.counters, self._trace
        if counters.leader_epoch is None:
            return
        if before is None or before.leader_epoch != counters.leader_epoch:
            adopted = EpochSpan(
                leader_epoch=counters.leader_epoch,
                first_version=trace.last_version,
                end_before=None if before is None else before.log_end_offset,
                end_adopted=counters.log_end_offset,
            )
            trace.spans.append(adopted)
        span = trace.spans[-1]
        span.last_version, span.start_offset = trace.last_version, counters.log_start_offset
        span.end_offset = counters.log_end_offset
