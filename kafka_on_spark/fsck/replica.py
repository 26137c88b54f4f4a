"""I5, I10, I11, I13, I14, I15, I16, I19, I20, I26, I27: one replica's table, replayed by version.

I5: epochs do not fall. I10: offsets are dense, and commits continue each other. I11: an append is
there once, and a producer's sequences rise. I13: nothing is added under another epoch than the
fence's unless it was fetched. I14: nothing is cut except by adopting a later leadership. I15:
headers add up, the chain computes, and checkpoints agree with the commits. I16: the log start
rises, at most to the log end, and removes only batches below it. I19, I20: the table is that of
this replica and topic. I27: the counters of compaction agree with each other, and rise.

What is kept of a producer whose headers went agrees with them (I11). Entries are compared with
sequences, but not with producer epochs: a run is fenced on leaders only, so a follower may take
what its own old entry would refuse. An id that has expired and come back begins anew: with whatever
sequence somebody vouched for, above all epochs that it has expired with.

The tables do not record whether a payload digest covers timestamps, so an audit can't compute it
again. The digest in a file's name covers its bytes.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kafka_on_spark.base.ids import NO_CHAIN, ChainDigest, Offset, TopicPartition
from kafka_on_spark.fsck.batches import LoggedBatch, Stamp, batches_of
from kafka_on_spark.fsck.findings import FindingList, Place
from kafka_on_spark.fsck.log_content import LogContent
from kafka_on_spark.fsck.trace import EpochSpan, ReplicaTrace
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import epoch_in_name
from kafka_on_spark.log.compaction import COUNTERS, NO_PROGRESS, CompactionProgress
from kafka_on_spark.log.producer_state import ProducersFile
from kafka_on_spark.log.state import ProducerEntries, ProducerEntry, from_halves
from kafka_on_spark.store.delta.history import (
    FileEntry,
    TableCheckpoint,
    TableCommit,
    TableDamage,
    TableStep,
)


class _Removed(NamedTuple):
    """A producer's last append whose header went; its offset and digest, where they must agree."""

    sequence: int
    producer_epoch: int
    base_offset: int | None
    payload_digest: int | None


class ProducerReplay:
    """Replays the producers of one log's batches, in order. `expired_epochs`: with which epochs
    producer ids have expired that came back since.

    Attributes:
        number: The producer-state file that counts; 0: none.
    """

    def __init__(
        self, findings: FindingList, expired_epochs: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        self.number = 0
        self._findings = findings
        self._expired_epochs = expired_epochs or {}
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

    def name_file(self, number: int, version: int | None, *, is_checked: bool = True) -> None:
        """Check and take the number of the file that a commit names."""
        if is_checked and number < self.number:
            self._findings.add(
                "I11",
                f"the number of the producer-state file went back from {self.number} to {number}",
                version=version,
            )
        self.number = number

    def remove(self, batches: Sequence[LoggedBatch], version: int, *, is_named: bool) -> None:
        """Take batches whose headers went; `is_named`: with a commit that names another file."""
        stamped = [(batch, batch.stamp) for batch in batches if batch.stamp is not None]
        if stamped and not is_named and any(self._is_later(stamp) for _, stamp in stamped):
            self._findings.add(
                "I11",
                "headers of producers were removed, and no new producer state was named",
                version=version,
            )
        for batch, stamp in stamped:
            if self._is_later(stamp):
                self._removed[stamp.producer_id] = _Removed(
                    stamp.sequence,
                    stamp.producer_epoch,
                    batch.base_offset,
                    stamp.payload_digest,
                )

    def _is_later(self, stamp: Stamp) -> bool:
        known = self._removed.get(stamp.producer_id)
        if known is None:
            return True
        lives = [self._life(stamp.producer_id, each.producer_epoch) for each in (stamp, known)]
        return (lives[0], stamp.sequence) > (lives[1], known.sequence)

    def _life(self, producer_id: str, producer_epoch: int) -> int:
        """Return how often an id had expired before a run of it began."""
        return sum(each < producer_epoch for each in self._expired_epochs.get(producer_id, ()))

    def compare(self, entries: ProducerEntries, version: int) -> tuple[tuple[str, int], ...]:
        """Compare the file that counts with what was removed; return the producers it lacks, each
        with the newest epoch that was removed."""
        for producer_id, removed in self._removed.items():
            entry = entries.get(producer_id)
            if entry is None or self._is_of_later_life(producer_id, entry, removed):
                continue
            if not _agrees(entry, removed):
                self._findings.add(
                    "I11",
                    f"the producer state says of producer {producer_id!r} what its log never had:"
                    f" its sequence {removed.sequence} stood at offset {removed.base_offset}",
                    version=version,
                    offset=removed.base_offset,
                )
        lacked = sorted(self._removed.keys() - entries.keys())
        return tuple((each, self._removed[each].producer_epoch) for each in lacked)

    def _is_of_later_life(self, producer_id: str, entry: ProducerEntry, removed: _Removed) -> bool:
        lives = [self._life(producer_id, each.producer_epoch) for each in (entry, removed)]
        return lives[0] > lives[1]

    def batch(self, batch: LoggedBatch, version: int) -> None:
        """Check that the next batch is a new append, and remember it."""
        for uuid in batch.uuids:
            if uuid in self._uuids:
                self._findings.add(
                    "I11",
                    f"the segment {uuid} is in the log already, at {self._uuids[uuid]}",
                    version=version,
                    offset=batch.base_offset,
                )
        if batch.stamp is not None:
            self._check_stamp(batch, version)
        self._remember(batch)

    def _check_stamp(self, batch: LoggedBatch, version: int) -> None:
        assert batch.stamp is not None
        producer_id, producer_epoch, sequence, _ = batch.stamp
        life = self._life(producer_id, producer_epoch)
        last, last_epoch = self._last.get(producer_id, (-1, -1))
        removed = self._removed.get(producer_id)
        if life > self._life(producer_id, last_epoch):
            last = -1
        if removed is not None and life <= self._life(producer_id, removed.producer_epoch):
            last = max(last, removed.sequence)
        sentence = None
        if sequence <= last:
            sentence = f"sequence {sequence} of producer {producer_id!r} stands behind {last}"
        elif producer_epoch < last_epoch:
            sentence = (
                f"run {producer_epoch} of producer {producer_id!r} appended after run {last_epoch}"
            )
        if sentence is not None:
            self._findings.add("I11", sentence, version=version, offset=batch.base_offset)

    def _remember(self, batch: LoggedBatch) -> None:
        self._uuids.update(dict.fromkeys(batch.uuids, batch.base_offset))
        if batch.stamp is not None:
            self._last[batch.stamp.producer_id] = (batch.stamp.sequence, batch.stamp.producer_epoch)


def _agrees(entry: ProducerEntry, removed: _Removed) -> bool:
    last = entry.last
    if last is None or last.sequence != removed.sequence or removed.base_offset is None:
        return entry.sequence >= removed.sequence
    return (last.base_offset, last.payload_digest) == (removed.base_offset, removed.payload_digest)


_RISING = ("compacted_below", "tombstones_below", "finished_below")


class CompactionReplay:
    """Follows the counters of one table.

    Attributes:
        progress: How far its log is compacted.
    """

    def __init__(self, findings: FindingList) -> None:
        self.progress = NO_PROGRESS
        self._findings = findings

    def follow(self, counters: Mapping[str, int], version: int, *, may_fall: bool) -> None:
        """Take the counters of a commit. `may_fall`: it begins a leadership, or a log anew."""
        before, after = self.progress, _after(self.progress, counters)
        if after is None:
            said = ", ".join(f"{name} {counters[name]}" for name in _named(counters))
            sentence = f"the counters of compaction contradict each other: {said}"
            self._findings.add("I27", sentence, version=version)
            return
        self.progress = after
        for field in () if may_fall else _RISING:
            was, now = getattr(before, field), getattr(after, field)
            if now < was:
                sentence = f"the counter {COUNTERS[field]} went back from {was} to {now}"
                self._findings.add("I27", sentence, version=version)

    def begin_at(self, counters: Mapping[str, int]) -> None:
        self.progress = _after(NO_PROGRESS, counters) or NO_PROGRESS

    def agrees(self, counters: Mapping[str, int]) -> bool:
        return _after(NO_PROGRESS, counters) == self.progress


def _named(counters: Mapping[str, int]) -> list[str]:
    return [name for name in COUNTERS.values() if name in counters]


def _after(before: CompactionProgress, counters: Mapping[str, int]) -> CompactionProgress | None:
    """Return the progress after a commit; None: its counters contradict each other."""
    if not _named(counters):
        return before
    values = {
        field: Offset(counters.get(name, getattr(before, field)))
        for field, name in COUNTERS.items()
    }
    try:
        return CompactionProgress(**values)
    except AssertionError:
        return None


STARTS_AGAIN: Final = "truncate_fully_and_start_at"

LOG_START_OFFSET: Final = "log-start-offset"
LOG_END_OFFSET: Final = "log-end-offset"
LEADER_EPOCH: Final = "leader-epoch"
CHAIN_HIGH: Final = "chain-high"
CHAIN_LOW: Final = "chain-low"
PRODUCER_STATE: Final = "producer-state"
PRODUCER_DIGEST: Final = "producer-digest"


@dataclass(frozen=True, slots=True)
class LogCounters:
    start: int = 0
    end: int = 0
    fence: int | None = None
    chain: ChainDigest = NO_CHAIN
    producer_digest: int = 0

    def after(self, counters: Mapping[str, int]) -> "LogCounters":
        return LogCounters(
            counters.get(LOG_START_OFFSET, self.start),
            counters.get(LOG_END_OFFSET, self.end),
            counters.get(LEADER_EPOCH, self.fence),
            from_halves(counters[CHAIN_HIGH], counters.get(CHAIN_LOW))
            if CHAIN_HIGH in counters
            else self.chain,
            counters.get(PRODUCER_DIGEST, self.producer_digest),
        )


class ReplicaReplay:
    """Replays the steps of one table's log in order; holds findings and the trace.

    `configuration`: the settings that the table must have. `expired_epochs`: with which epochs
    producer ids have expired that came back since.
    """

    def __init__(
        self,
        address: ReplicaAddress,
        configuration: Mapping[str, str],
        expired_epochs: Mapping[str, Sequence[int]],
    ) -> None:
        self._address = address
        self._configuration = configuration
        self._expired_epochs = expired_epochs
        name = TopicPartition(address.topic, address.key.partition)
        self.findings = FindingList(Place(partition=name, broker_id=address.broker_id))
        self._first_version = 0
        self._version = -1
        self._is_read = False
        self._is_void = False  # the last commit has no bytes
        self._counters = LogCounters()
        self._spans: list[EpochSpan] = []
        self._log = LogContent(self.findings)
        self._producers = ProducerReplay(self.findings, self._expired_epochs)
        self._compaction = CompactionReplay(self.findings)
        self._is_chained = True

    def take(self, step: TableStep) -> None:
        if isinstance(step, TableDamage):
            self.findings.add("I15", step.sentence, version=step.version)
            # After a commit that can't be read, only a checkpoint can say how the log goes on.
            self._is_read = self._is_read and step.is_checkpoint
        elif isinstance(step, TableCheckpoint):
            self._checkpoint(step)
        elif step.version == 0 or self._is_read:
            self._commit(step)

    @property
    def active_entries(self) -> list[FileEntry]:
        return list(self._log.entries.values())

    @property
    def producer_state(self) -> int:
        """The number of the producer-state file that counts; 0: none."""
        return self._producers.number

    @property
    def producers_file(self) -> ProducersFile:
        """That file, with the digest of what is in it, as the newest version says."""
        return ProducersFile(self.producer_state, self._counters.producer_digest)

    @property
    def compaction(self) -> CompactionProgress:
        return self._compaction.progress

    def check_borders(self, path: str, borders: Sequence[tuple[int, ChainDigest]]) -> None:
        """Compare the borders that a merged segment's file keeps with what went into it (I25)."""
        self._log.check_borders(path, borders, self._version, self.compaction.compacted_below)

    def compare_producers(self, entries: ProducerEntries) -> tuple[tuple[str, int], ...]:
        """Compare that file with the log's history; return the producers that it lacks."""
        return self._producers.compare(entries, self._version)

    def trace(self) -> ReplicaTrace:
        lifetimes = self._log.lifetimes
        return ReplicaTrace(
            key=self._address.key,
            broker_id=self._address.broker_id,
            replica_uuid=self._address.replica_uuid,
            is_read=self._is_read,
            is_chained=self._is_chained,
            first_version=self._first_version,
            last_version=self._version,
            log_start_offset=self._counters.start,
            log_end_offset=self._counters.end,
            chain_before=self._counters.chain,
            fence=self._counters.fence,
            lifetimes=tuple(each for each in lifetimes if not each.batch.is_merged),
            merged=tuple(each.batch for each in lifetimes if each.batch.is_merged),
            borders=self._log.borders(self._counters.chain, self._counters.end),
            has_merged_files=any(
                entry.values.get("content_digest") is not None for entry in self.active_entries
            ),
            compaction=self.compaction,
            spans=tuple(self._spans),
            findings=self.findings.all(),
        )

    def _checkpoint(self, step: TableCheckpoint) -> None:
        if self._is_read and self._agrees(step):
            return
        if self._is_read and not self._is_void:
            self._add(
                "I15",
                f"the checkpoint of version {step.version} says another state than the commits up"
                " to it",
            )
            return
        if self._is_read:  # processes go on from what the checkpoint says
            self._add(
                "I15",
                f"the commit of version {step.version} has lost its bytes: the checkpoint of the"
                " same version has what it said",
            )
        self._begin_at(step)

    def _agrees(self, step: TableCheckpoint) -> bool:
        return (
            {file.path for file in step.files} == self._log.entries.keys()
            and step.counters.get(PRODUCER_STATE, 0) == self.producer_state
            and self._compaction.agrees(step.counters)
            and LogCounters().after(step.counters) == self._counters
        )

    def _begin_at(self, step: TableCheckpoint) -> None:
        self._version = self._first_version = step.version
        self._spans.clear()  # how the log went on is not known
        self._producers = ProducerReplay(self.findings, self._expired_epochs)
        self._check_configuration(step.configuration)
        self._log.remove(list(self._log.active), step.version)
        counters = self._counters = LogCounters().after(step.counters)
        self._log.entries = {file.path: file for file in step.files}
        self._producers.name_file(step.counters.get(PRODUCER_STATE, 0), None, is_checked=False)
        self._compaction.begin_at(step.counters)
        batches = self._parsed(step.files)
        expected = batches[0].base_offset if batches else counters.end
        if batches and batches[0].base_offset > counters.start:
            self._add("I10", f"the log begins at {expected}, after its start {counters.start}")
        self._append(batches, expected, is_own=False)
        self._check_end(batches[-1].end_offset if batches else counters.end)
        if counters.fence is not None:
            self._open_span(None)
        self._is_read = True

    def _commit(self, step: TableCommit) -> None:
        self._version = step.version
        self._is_read = True
        self._is_void = step == TableCommit(version=step.version, operation=None)
        if step.configuration is not None:
            self._check_configuration(step.configuration)
            if step.version > 0:
                self._add("I19", "the table was created a second time, over itself")
        before, after = self._counters, self._counters.after(step.counters)
        self._counters = after
        self._check_counters(before, after)
        self._follow_compaction(step, before, after)
        self._check_added(step, after.fence)
        removed, moved, batches = self._taken(step, after)
        is_cut = self._check_removed(removed, after, {each.base_offset for each in batches})
        if step.operation != STARTS_AGAIN:  # that takes its leader's chain
            self._check_chain_before(removed, before, after, is_cut=is_cut)
        kept_out = [] if is_cut else [self._log.active[each] for each in removed]
        self._follow_producers(step, [*moved, *kept_out])
        self._log.remove(removed, step.version)
        if is_cut:
            self._producers.start_over(self._log.active.values(), after.end)
        self._log.name_files(step)
        expected = self._expected_end(before, after, is_cut=is_cut)
        is_fetched = step.operation == "append_fetched"
        self._check_epochs(batches, before, is_fetched=is_fetched)
        self._check_end(self._append(batches, expected, is_own=not is_fetched))
        self._log.check_dropped(before.start, after.start, step.version)
        self._follow_span(before, after)

    def _taken(
        self, step: TableCommit, after: LogCounters
    ) -> tuple[list[int], list[LoggedBatch], list[LoggedBatch]]:
        """Take the files of a commit; return what it takes out of the log (by its numbers), what it
        moves to other files, and what it appends."""
        released, adds = self._log.release(step), self._parsed(step.adds)
        held = dict(self._log.active)
        merged = [each for each in adds if each.is_merged]
        moved = self._log.move(released, merged, step)
        removed = [number for number in released if number not in moved]
        appended = [each for each in adds if not self._log.holds(each.paths[0])]
        return removed, [held[number] for number in moved], appended

    def _follow_compaction(
        self, step: TableCommit, before: LogCounters, after: LogCounters
    ) -> None:
        # An unclean leader's log may end below what was compacted.
        may_fall = step.operation == STARTS_AGAIN or before.fence != after.fence
        self._compaction.follow(step.counters, step.version, may_fall=may_fall)

    def _follow_producers(self, step: TableCommit, removed: Sequence[LoggedBatch]) -> None:
        """Follow the producer state of a commit that removes batches at the front, or none."""
        number = step.counters.get(PRODUCER_STATE, self.producer_state)
        if step.operation == STARTS_AGAIN:
            self._producers.begin_again()
        else:
            is_named = number > self.producer_state
            self._producers.remove(removed, step.version, is_named=is_named)
        self._producers.name_file(number, step.version)

    def _add(self, invariant: str, sentence: str, offset: int | None = None) -> None:
        self.findings.add(invariant, sentence, version=self._version, offset=offset)

    def _parsed(self, entries: Sequence[FileEntry]) -> list[LoggedBatch]:
        batches, flaws = batches_of(entries)
        for flaw in flaws:
            self._add(flaw.invariant, flaw.sentence, flaw.offset)
        return batches

    def _check_configuration(self, found: Mapping[str, str]) -> None:
        for name, expected in self._configuration.items():
            if found.get(name) != expected:
                invariant = "I20" if name in ("kos.topic.id", "kos.partition") else "I19"
                self._add(
                    invariant, f"the table says {name}={found.get(name)}, it must be {expected}"
                )

    def _check_counters(self, before: LogCounters, after: LogCounters) -> None:
        if after.start < before.start:
            self._add("I16", f"the log start went back from {before.start} to {after.start}")
        if after.start > after.end:
            self._add("I16", f"the log start {after.start} is above the log end {after.end}")
        if before.fence is not None and (after.fence is None or after.fence < before.fence):
            self._add("I13", f"the fence went back from {before.fence} to {after.fence}")
        if after.end < before.end and after.fence == before.fence:
            self._add(
                "I14",
                f"the log was cut from {before.end} to {after.end} under one leadership"
                f" ({after.fence}): only adopting a later one may cut",
                after.end,
            )

    def _check_added(self, step: TableCommit, fence: int | None) -> None:
        """A path is added only under the fence in its name, and once (I26). Cleaners rest on it: a
        file that may be deleted once may be deleted for ever."""
        for path in (entry.path for entry in step.adds):
            epoch = epoch_in_name(path)
            if epoch is not None and epoch != fence:
                self._add(
                    "I26",
                    f"the file {path} is added by a commit of leadership {fence}, and may be"
                    " deleted by a cleaner",
                )
            if path in self._log.removed_paths:
                self._add("I26", f"the file {path} is added again, after the table removed it")

    def _check_removed(
        self, removed: Sequence[int], after: LogCounters, added_at: Set[int]
    ) -> bool:
        """Check that batches may be removed; return whether they were cut off the end.

        `added_at`: where what is added begins: a cut inside a merged segment leaves its lower part.
        """
        is_cut = False
        for place in removed:
            batch = self._log.active[place]
            if batch.end_offset <= after.start:
                continue
            # A cut to the log start takes a batch that the start lies in as a whole.
            is_in_part = batch.is_merged and batch.base_offset in added_at
            if batch.base_offset >= after.end or after.end == after.start or is_in_part:
                is_cut = True
            else:
                self._add(
                    "I16",
                    f"the batch [{batch.base_offset}, {batch.end_offset}) was removed, which"
                    f" neither lies below the log start {after.start} nor was cut off the end",
                    batch.base_offset,
                )
        return is_cut

    def _check_chain_before(
        self, removed: Sequence[int], before: LogCounters, after: LogCounters, *, is_cut: bool
    ) -> None:
        """Check the chain digest before the first batch that is kept: that of the last batch that
        was removed at the front, or else the one before."""
        left = [] if is_cut else [self._log.active[place] for place in removed]
        expected = left[-1].chain_digest if left else before.chain
        if after.chain != expected:
            self._add(
                "I15",
                f"the chain digest before the log's first batch is said to be {after.chain}, and"
                f" is {expected}",
                after.start,
            )

    def _expected_end(self, before: LogCounters, after: LogCounters, *, is_cut: bool) -> int:
        """Return where the log ends before what a commit adds."""
        if self._log.last is not None:
            return self._log.last.end_offset
        if is_cut or after.start > before.end:
            return after.start
        return before.end

    def _append(self, batches: Sequence[LoggedBatch], expected: int, *, is_own: bool) -> int:
        for batch in batches:
            last = self._log.last
            # The first batch of an empty log may begin below the log start.
            holds_start = last is None and batch.base_offset < expected < batch.end_offset
            if batch.base_offset != expected and not holds_start:
                self._add(
                    "I10",
                    f"a batch begins at {batch.base_offset}, not where the log ends, {expected}",
                    batch.base_offset,
                )
            if last is not None and batch.leader_epoch < last.leader_epoch:
                self._add(
                    "I5",
                    f"a batch of leadership {batch.leader_epoch} stands behind one of"
                    f" {last.leader_epoch}",
                    batch.base_offset,
                )
            before = self._counters.chain if last is None else last.chain_digest
            topic_id, partition = self._address.key
            if not batch.computes_after(before, topic_id, partition):
                self._add(
                    "I15",
                    f"the chain digest of the batch at {batch.base_offset} is not the one that its"
                    " header and what is before it make: one of both was changed",
                    batch.base_offset,
                )
                self._is_chained = False
            self._producers.batch(batch, self._version)
            self._log.append(batch, self._version, is_own=is_own)
            expected = batch.end_offset
        return expected

    def _check_epochs(
        self, batches: Sequence[LoggedBatch], before: LogCounters, *, is_fetched: bool
    ) -> None:
        for batch in batches:
            epoch = batch.leader_epoch
            if before.fence is None or epoch > before.fence:
                self._add(
                    "I13",
                    f"a batch of leadership {epoch} was added before the table was fenced at it"
                    f" (fence {before.fence})",
                    batch.base_offset,
                )
            elif epoch < before.fence and not is_fetched:
                self._add(
                    "I13",
                    f"a batch was appended by leadership {epoch} to a table fenced at"
                    f" {before.fence}",
                    batch.base_offset,
                )

    def _check_end(self, expected: int) -> None:
        end = self._counters.end
        if end != expected:
            self._add("I10", f"the log says that it ends at {end}, its batches end at {expected}")

    def _open_span(self, end_before: int | None) -> None:
        counters = self._counters
        assert counters.fence is not None
        self._spans.append(
            EpochSpan(
                leader_epoch=counters.fence,
                first_version=self._version,
                last_version=self._version,
                end_before=end_before,
                end_adopted=counters.end,
                start_offset=counters.start,
                end_offset=counters.end,
            )
        )

    def _follow_span(self, before: LogCounters, after: LogCounters) -> None:
        if after.fence is None:
            return
        if after.fence != before.fence:
            self._open_span(before.end)
        else:
            self._spans[-1] = replace(
                self._spans[-1],
                last_version=self._version,
                start_offset=after.start,
                end_offset=after.end,
            )
