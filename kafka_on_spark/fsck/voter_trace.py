"""I10, I15, Q1, Q2, Q4, Q7, Q8: voters' tables, replayed commit by commit, and held against each
other.

A commit loses no row: it appends files, the first where the log ended or where the commit cuts it,
or merges files into one with the same rows; the counter of the log's end says where it ends (I10).
The simulation of the quorum ends with the same checks.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import NamedTuple

from kafka_on_spark.base.ids import ImpossibleValueError, Offset, QuorumEpoch
from kafka_on_spark.fsck.findings import FindingList, Place
from kafka_on_spark.metadata.quorum.voter_table import (
    EMPTY_LOG,
    NO_EPOCH,
    BatchKind,
    Mark,
    RaftBatch,
    RaftLog,
    VoterKey,
    VoterSet,
    has_write,
    log_of,
)


def appended_flaws(
    key: VoterKey,
    epoch: QuorumEpoch,
    leaders: Collection[VoterKey],
    log: Collection[RaftBatch],
    appended: Sequence[RaftBatch],
    *,
    begins: bool,
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the leadership under which a voter takes batches behind `log`.
    `epoch`: that it is in, with the `leaders` that it has marked in it. `begins`: it marks
    itself."""
    if begins and (
        [each.epoch for each in appended] != [epoch] or any(each.epoch >= epoch for each in log)
    ):
        yield "Q8", f"it leads epoch {epoch} without that epoch's no-op"
    highest = max((each.epoch for each in log), default=NO_EPOCH)
    for batch in appended:
        where = f"the batch at {batch.base_offset} is of epoch {batch.epoch}"
        if batch.epoch < highest:
            yield "Q4", f"{where}, the one before it of {highest}"
        highest = max(highest, batch.epoch)
        if batch.epoch > epoch:
            yield "Q4", f"{where}, and the voter in {epoch}"
        elif key in leaders and batch.epoch != epoch:
            yield "Q4", f"{where}, and its writer leads {epoch}"
        elif batch.epoch > NO_EPOCH and not leaders:
            yield "Q8", f"{where}, and the voter has marked no leader in {epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterCommit:
    """A commit on a voter's table, or its whole state as a checkpoint says it.

    Attributes:
        is_merge: It changes no row.
        log_end: Where it says that the log ends; None: it does not.
        added: The headers of the files that it adds, by their names.
    """

    version: int
    is_checkpoint: bool = False
    is_merge: bool = False
    quorum_epoch: QuorumEpoch | None = None
    log_end: int | None = None
    votes: tuple[Mark, ...] = ()
    leaders: tuple[Mark, ...] = ()
    added: Mapping[str, tuple[RaftBatch, ...]] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


class SeenBatch(NamedTuple):
    """A batch that a voter has, or had before it was cut; UNKNOWN: what a merge has hidden."""

    base_offset: int
    write_id: str
    epoch_before: int


UNKNOWN = -1
BatchEnd = tuple[QuorumEpoch, Offset]


class VoterTrace:
    """One voter's history, and what is wrong with it alone.

    Attributes:
        version: The newest that was replayed; -1: none was.
        is_damaged: A commit could not be read, and no checkpoint after it says what came of it.
        known_above: Votes and marks of the epochs above this are all known; those of others may
            have been cleaned.
        seen: Its batches, by epoch and end; those that were cut, too.
    """

    def __init__(self, key: VoterKey) -> None:
        self.key = key
        self.findings = FindingList(Place(voter_id=key.node_id))
        self.version = -1
        self.known_above = QuorumEpoch(-1)
        self.votes: defaultdict[QuorumEpoch, set[VoterKey]] = defaultdict(set)
        self.leaders: defaultdict[QuorumEpoch, set[VoterKey]] = defaultdict(set)
        self.seen: dict[BatchEnd, SeenBatch] = {}
        self.epoch = NO_EPOCH
        self.files: dict[str, tuple[RaftBatch, ...]] = {}
        self._log_end: int | None = None
        self.is_damaged = False

    @property
    def leader(self) -> VoterKey | None:
        return next(iter(self.leaders.get(self.epoch, ())), None)

    @property
    def log(self) -> RaftLog:
        """Its log; empty where its batches contradict each other, which has a finding."""
        try:
            return log_of(sorted(self._batches(), key=lambda each: each.base_offset))
        except ImpossibleValueError:
            return EMPTY_LOG

    def take(self, commit: VoterCommit) -> None:
        is_first = commit.is_checkpoint
        if is_first and self.version >= 0 and not self.is_damaged:
            if (commit.added, commit.log_end) != (self.files, self._log_end):
                sentence = "says another state than the commits up to it"
                self._add("I15", f"the checkpoint of version {commit.version} {sentence}")
            return
        if is_first:  # or the first that tells again
            self.files.clear()
            self.is_damaged = False
        self.version = commit.version
        epoch = self.epoch if commit.quorum_epoch is None else commit.quorum_epoch
        if epoch < self.epoch:
            self._add("Q4", f"its epoch falls from {self.epoch} to {epoch}")
        self.epoch = max(epoch, self.epoch)
        if is_first or self.is_damaged:
            self.known_above = self.epoch
        self._take_marks(commit, is_first=is_first)
        if commit.is_merge:
            self._merge(commit)
        else:
            self._change_log(commit, is_first=is_first)
        self._check_end(commit.log_end)

    def _change_log(self, commit: VoterCommit, *, is_first: bool) -> None:
        self._cut(commit.removed)
        appended = [batch for file in commit.added.values() for batch in file]
        appended.sort(key=lambda each: each.base_offset)
        is_known = not (is_first or self.is_damaged)
        if is_known:
            begins = any(mark == (self.key, self.epoch) for mark in commit.leaders)
            leaders, log = self.leaders.get(self.epoch, ()), [*self._batches()]
            flaws = appended_flaws(self.key, self.epoch, leaders, log, appended, begins=begins)
            for flaw in flaws:
                self._add(*flaw)
        last = self._last
        for batch in appended:
            end = 0 if last is None else last.end_offset
            if is_known and batch.base_offset != end:
                self._add("I10", f"a batch begins at {batch.base_offset}, the log ended at {end}")
            self._see(batch, last)
            last = batch
        self.files |= commit.added

    def _check_end(self, said: int | None) -> None:
        self._log_end = self._log_end if said is None else said
        last = self._last
        end = 0 if last is None else last.end_offset
        if self._log_end not in (None, end) and not self.is_damaged:
            words = f"the log says that it ends at {self._log_end}, its batches end at {end}"
            self._add("I10", words)

    def _add(self, invariant: str, sentence: str) -> None:
        self.findings.add(invariant, sentence, version=self.version)

    def _take_marks(self, commit: VoterCommit, *, is_first: bool) -> None:
        kinds = (
            (commit.votes, self.votes, "gives two votes", "a vote"),
            (commit.leaders, self.leaders, "follows two leaders", "a mark"),
        )
        for marks, known, twice, one in kinds:
            for key, epoch in marks:
                if not is_first and epoch != self.epoch:
                    self._add("Q4", f"{one} is of epoch {epoch}, the voter is in {self.epoch}")
                known[epoch].add(key)
                if len(known[epoch]) > 1:
                    names = ", ".join(map(str, sorted(known[epoch])))
                    self._add("Q1", f"it {twice} in epoch {epoch}: {names}")

    @property
    def _last(self) -> RaftBatch | None:
        ends = [file[-1] for file in self.files.values()]
        return max(ends, key=lambda each: each.end_offset, default=None)

    def _cut(self, removed: Iterable[str]) -> None:
        gone = [name for name in removed if name in self.files]
        if not gone:
            return
        log, start = self.log, min(self.files[name][0].base_offset for name in gone)
        for name in gone:
            del self.files[name]
        if start < log.proved_end:
            proved = f"{log.proved_end}, which its log proves committed"
            self._add("Q2", f"it is cut to {start}, below {proved}")

    def _batches(self) -> Iterable[RaftBatch]:
        return (each for file in self.files.values() for each in file)

    def _merge(self, commit: VoterCommit) -> None:
        log = self.log
        for name in commit.removed:
            self.files.pop(name, None)
        self.files |= commit.added
        for batch in (each for file in commit.added.values() for each in file):
            if batch.end_offset > log.proved_end:
                sentence = f"what ends at {batch.end_offset} is merged, and the log proves only"
                self._add("Q2", f"{sentence} {log.proved_end} committed")
            self._see(batch, None)

    def _see(self, batch: RaftBatch, before: RaftBatch | None) -> None:
        """Note a batch, and check that nothing else was at its place in its epoch."""
        end = (batch.epoch, batch.end_offset)
        known = self.seen.get(end)
        if known is not None and known.write_id != batch.write_id:
            self._add("Q7", two_writes(batch.epoch, batch.end_offset))
        if known is not None:
            return  # a run tells less than what was merged
        is_run = batch.kind is BatchKind.RUN
        base = UNKNOWN if is_run else int(batch.base_offset)
        is_known = not is_run and before is not None and before.end_offset == batch.base_offset
        epoch_before = int(before.epoch) if before is not None and is_known else UNKNOWN
        self.seen[end] = SeenBatch(base, batch.write_id, epoch_before)


def two_writes(epoch: int, end_offset: int) -> str:
    return f"two writes of epoch {epoch} end at {end_offset}"


class VoterFlaw(NamedTuple):
    """Something that must not be, between voters; `key`: the one that it is about, or all."""

    invariant: str | None
    key: VoterKey | None
    sentence: str


def voter_flaws(traces: Sequence[VoterTrace]) -> Iterator[VoterFlaw]:
    """Yield how the histories of voters contradict each other, whenever each was read."""
    yield from _leader_flaws(traces)
    yield from _matching_flaws(traces)
    yield from _proof_flaws(traces)
    yield from _vote_flaws(traces)


def _leader_flaws(traces: Sequence[VoterTrace]) -> Iterator[VoterFlaw]:
    leaders: defaultdict[QuorumEpoch, set[VoterKey]] = defaultdict(set)
    for trace in traces:
        for epoch, found in trace.leaders.items():
            leaders[epoch] |= found
    for epoch, found in sorted(leaders.items()):
        if len(found) > 1:
            names = ", ".join(map(str, sorted(found)))
            yield VoterFlaw("Q1", None, f"epoch {epoch} has {len(found)} leaders: {names}")


def _matching_flaws(traces: Sequence[VoterTrace]) -> Iterator[VoterFlaw]:
    known: dict[BatchEnd, tuple[SeenBatch, VoterKey]] = {}
    for trace in traces:
        for end, batch in trace.seen.items():
            other, key = known.setdefault(end, (batch, trace.key))
            words = f"on voters {key} and {trace.key}"
            if other.write_id != batch.write_id or _differs(other.base_offset, batch.base_offset):
                yield VoterFlaw("Q7", trace.key, f"{two_writes(*end)}, {words}")
            elif _differs(other.epoch_before, batch.epoch_before):
                epochs = f"{other.epoch_before} and one of {batch.epoch_before}, {words}"
                sentence = f"the batch of epoch {end[0]} that ends at {end[1]} follows one of epoch"
                yield VoterFlaw("Q7", trace.key, f"{sentence} {epochs}")


def _differs(one: int, other: int) -> bool:
    return UNKNOWN not in (one, other) and one != other


def _proof_flaws(traces: Sequence[VoterTrace]) -> Iterator[VoterFlaw]:
    logs = [(trace.key, trace.log) for trace in traces]
    for (key, log), (other, longer) in permutations(logs, 2):
        proved = log.batch_before(log.proved_end)
        if proved is None or longer.proved_end < log.proved_end or has_write(longer, proved):
            continue
        words = f"what voter {key} proves committed up to {log.proved_end}"
        yield VoterFlaw("Q2", other, f"{words} is not what is in the log of voter {other}")


def _vote_flaws(traces: Sequence[VoterTrace]) -> Iterator[VoterFlaw]:
    """Yield leaders that not enough voters voted for: one that did went back, or none did."""
    by_key = {trace.key: trace for trace in traces}
    for trace in traces:
        for epoch in sorted(trace.leaders):
            if trace.key not in trace.leaders[epoch] or epoch <= trace.known_above:
                continue
            voters = _voters_in(trace.log, epoch)
            if voters is None or not set(voters.keys) <= by_key.keys():
                continue  # who could have voted is not here
            if any(by_key[key].known_above >= epoch for key in voters.keys):
                continue
            votes = [key for key in voters.keys if trace.key in by_key[key].votes.get(epoch, ())]
            if not voters.is_majority(votes):
                names = ", ".join(map(str, votes)) or "nobody"
                sentence = f"it leads epoch {epoch} by the votes of {names}: no majority"
                yield VoterFlaw("Q8", trace.key, sentence)


def _voters_in(log: RaftLog, epoch: QuorumEpoch) -> VoterSet | None:
    """Return who votes in the election of an epoch; None: the log does not say any more. A no-op
    that names voters is that of a new generation, which they alone elect."""
    start = log.epoch_start(epoch)
    no_op = next((each for each in log.batches if each.base_offset == start), None)
    if start is None or no_op is None or no_op.kind is BatchKind.RUN:
        return None
    return no_op.voters or log.cut_to(start).voters


def committed_flaws(
    voters: VoterSet | None, batch: RaftBatch, traces: Sequence[VoterTrace]
) -> Iterator[VoterFlaw]:
    """Yield whether no majority holds the last batch that a log proves committed. `voters`: the
    newest in that log; None: it names none. `traces`: what could be read after that log was."""
    held = [each.key for each in traces if has_write(each.log, batch)]
    if voters is None or voters.is_majority(held):
        return
    unread = {*voters.keys} - {each.key for each in traces}
    proved_end = batch.end_offset
    names = ", ".join(map(str, held))
    if voters.is_majority([*held, *unread]):
        sentence = (
            f"whether a majority holds the log up to {proved_end} is not known: of the voters"
        )
        yield VoterFlaw(None, None, f"{sentence} that could be read only {names} hold it")
        return
    holders = f"only {names} of {len(voters.voters)} voters hold it: one went back, or was emptied"
    yield VoterFlaw("Q2", None, f"the log is committed up to {proved_end}, and {holders}")


def following_flaws(leader: VoterTrace, others: Sequence[VoterTrace]) -> Iterator[VoterFlaw]:
    """Yield where the leader, read after `others`, has less than who follows it, or another log."""
    log, end = leader.log, leader.log.end_offset
    for other in others:
        if (other.epoch, other.leader) != (leader.epoch, leader.key):
            continue
        last = other.log.batches[-1:]
        if other.log.end_offset > end:
            where = f"in epoch {leader.epoch} up to {other.log.end_offset}"
            sentence = f"voter {other.key} follows it {where}, and its own log ends at {end}"
            yield VoterFlaw("Q2", leader.key, f"{sentence}: it went back")
        elif not all(has_write(log, batch) for batch in last):
            ends = f"what its log ends with at {other.log.end_offset} is not in the leader's"
            sentence = f"it follows voter {leader.key} in epoch {leader.epoch}, and {ends}"
            yield VoterFlaw("Q7", other.key, sentence)


def content_flaws(
    mine: Mapping[int, str], others: Mapping[int, str], key: VoterKey, of: VoterKey
) -> Iterator[VoterFlaw]:
    """Yield the committed batches of voter `key` whose records differ from those of voter `of`:
    both as digests by where a batch begins."""
    for base_offset in sorted(mine.keys() & others.keys()):
        if mine[base_offset] != others[base_offset]:
            sentence = f"the batch at {base_offset} has other records than on voter {of}"
            yield VoterFlaw("Q7", key, sentence)
