"""A voter's table as of one version: its log, its counters, and a change to commit on it.

**Voters.** A voter is a metadata root and not a process: its key names the node and the directory,
since a root that was emptied and made again is another voter (KIP-853). Source: VoterSet,
ReplicaKey.

**The log** is the headers of its batches, from the first one on; records are not here. The quorum
asks only where a batch ends, in which epoch it was appended, by which write, and whether it is a
decision. Old batches stand as *runs*: what a table has merged is committed, so nobody asks for the
borders in it. A log is then as long as its table has files. Where two logs part is looked up by
epoch, as Raft does. Unlike in a partition's log (log/truncation.py), an epoch above all ends at the
log end and is answered with the newest epoch. Source: KafkaMetadataLog.endOffsetForEpoch,
ReplicatedLog.validateOffsetAndEpoch.

**The counters** are `quorum-epoch` (the highest epoch seen), ``vote/<node>:<directory>``: the epoch
in which the voter voted for that one, and ``leader/<node>:<directory>``: the epoch in which it
follows (or is) that leader. They are only raised. Vote or leader "of the epoch" is the one whose
number is `quorum-epoch`; none is none.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Final, NamedTuple

from kafka_on_spark.base.errors import (
    ClusterNotFoundError,
    CorruptLogError,
    DuplicateVoterError,
    InvalidRequestError,
    KafkaStorageError,
    ReplicaLostError,
    VoterNotFoundError,
)
from kafka_on_spark.base.ids import DirectoryId, NodeId, Offset, QuorumEpoch, ensure


class VoterKey(NamedTuple):
    node_id: NodeId
    directory_id: DirectoryId

    def __str__(self) -> str:
        return f"{self.node_id}:{self.directory_id}"


@dataclass(frozen=True, slots=True)
class Voter:
    key: VoterKey
    root: str = ""

    def __str__(self) -> str:
        return f"{self.key}:{self.root}"

    @classmethod
    def parse(cls, text: str) -> "Voter":
        """Return the voter that `str` wrote."""
        node_id, directory_id, root = text.split(":", 2)
        return cls(VoterKey(NodeId(int(node_id)), DirectoryId(directory_id)), root)


@dataclass(frozen=True)
class VoterSet:
    """The voters in force, in ascending order of their ids, which are unique."""

    voters: tuple[Voter, ...]

    def __post_init__(self) -> None:
        ids = [each.key.node_id for each in self.voters]
        ensure(ids == sorted(set(ids)), self)

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> "VoterSet":
        return cls(tuple(sorted(voters, key=lambda each: each.key.node_id)))

    @cached_property
    def keys(self) -> tuple[VoterKey, ...]:
        return tuple(each.key for each in self.voters)

    @cached_property
    def majority(self) -> int:
        return majority_of(len(self.voters))

    def voter_of(self, node_id: NodeId) -> Voter | None:
        return next((each for each in self.voters if each.key.node_id == node_id), None)

    def named(self, name: int | str) -> Voter:
        """Return the voter of an id, or of an id and a directory with a colon between."""
        node_id, _, directory_id = str(name).partition(":")
        if isinstance(name, bool) or not node_id.isdecimal():
            raise InvalidRequestError(
                f"{name!r} names no voter: give its id, such as 2, or id:directory, as"
                " `metadata-quorum describe --replication` shows them"
            )
        found = self.voter_of(NodeId(int(node_id)))
        if found is None or directory_id not in ("", found.key.directory_id):
            raise VoterNotFoundError(
                f"{name} is no voter: the voters are {', '.join(map(str, self.voters))}"
            )
        return found

    def is_majority(self, keys: Iterable[VoterKey]) -> bool:
        return len({*keys}.intersection(self.keys)) >= self.majority

    def with_voter(self, voter: Voter) -> "VoterSet":
        """Return the set with one voter more.

        Raises:
            DuplicateVoterError: A voter of that id is there, be it another directory's.
        """
        found = self.voter_of(voter.key.node_id)
        if found is not None and found.key == voter.key:
            raise DuplicateVoterError(f"{voter.root} is voter {voter.key.node_id} already")
        if found is not None:
            # Two roots were prepared at once. The voter is well: it is not to be removed.
            raise DuplicateVoterError(
                f"{voter.root} was prepared as voter {voter.key.node_id}, which {found.root} is by"
                " now: empty it, then add it"
            )
        return VoterSet.of((*self.voters, voter))

    def without_voter(self, key: VoterKey) -> "VoterSet":
        """Return the set without one voter.

        Raises:
            VoterNotFoundError: No voter has exactly this id and directory, or it is the only one.
        """
        found = self.voter_of(key.node_id)
        if found is None or found.key != key:
            raise VoterNotFoundError(
                f"{key} is no voter: the voters are {', '.join(map(str, self.keys))}"
            )
        if len(self.voters) == 1:
            raise VoterNotFoundError(f"{key} is the only voter: add another one first")
        return VoterSet(tuple(each for each in self.voters if each != found))


def majority_of(count: int) -> int:
    return count // 2 + 1


class OffsetAndEpoch(NamedTuple):
    """A place in a log: an exclusive end, and the epoch of the batch before it."""

    offset: Offset
    epoch: QuorumEpoch


NO_EPOCH: Final = QuorumEpoch(0)
"""Before the first election."""

LOG_BEGINNING: Final = OffsetAndEpoch(Offset(0), NO_EPOCH)
"""Where each log begins: it is kept whole."""


class BatchKind(Enum):
    """What a batch is to the quorum."""

    NO_OP = "no-op"
    """The `LeaderChangeRecord` with which an epoch begins (Raft §8)."""

    DECISION = "decision"
    """Anything else: it was decided on a log that was committed to its end."""

    RUN = "run"
    """Several batches of one epoch that a table has merged: all of them are committed."""


@dataclass(frozen=True, slots=True)
class RaftBatch:
    """A batch's header, or that of a run of batches.

    Attributes:
        write_id: Its writer's name for it, unique: who wonders what became of it looks for this. A
            run has that of its last batch.
        voters: The voters that its `VotersRecord` names, the last one of a run; None: it has none.
    """

    base_offset: Offset
    end_offset: Offset
    epoch: QuorumEpoch
    write_id: str
    kind: BatchKind = BatchKind.DECISION
    voters: VoterSet | None = None

    def __post_init__(self) -> None:
        ensure(0 <= self.base_offset < self.end_offset, self)
        ensure(self.epoch >= 0, self)


@dataclass(frozen=True)
class RaftLog:
    """A log: dense from offset 0 to its end, epochs never fall. Votes are given by its `end`.

    Attributes:
        voters: The newest set of voters, committed or not: it is in force when appended (KIP-853).
    """

    batches: tuple[RaftBatch, ...] = ()
    end: OffsetAndEpoch = field(init=False, repr=False, compare=False)
    end_offset: Offset = field(init=False, repr=False, compare=False)
    voters_batch: RaftBatch | None = field(init=False, repr=False, compare=False)
    voters: VoterSet | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Of a long log only the newest batch is new.
        for earlier, later in zip(self.batches[-2:-1], self.batches[-1:], strict=False):
            ensure(earlier.end_offset == later.base_offset, self.batches[-2:])
            ensure(earlier.epoch <= later.epoch, self.batches[-2:])
        end = LOG_BEGINNING
        for last in self.batches[-1:]:
            ensure(self.batches[0].base_offset == 0, self.batches[0])
            end = OffsetAndEpoch(last.end_offset, last.epoch)
        object.__setattr__(self, "end", end)
        object.__setattr__(self, "end_offset", end.offset)
        voters_batch, voters = None, None
        for each in reversed(self.batches):
            if each.voters is not None:
                voters_batch, voters = each, each.voters
                break
        object.__setattr__(self, "voters_batch", voters_batch)
        object.__setattr__(self, "voters", voters)

    def root_of(self, key: VoterKey) -> str | None:
        """Return the root that the newest set with this voter, or former voter, registers."""
        for batch in reversed(self.batches):
            voter = None if batch.voters is None else batch.voters.voter_of(key.node_id)
            if voter is not None and voter.key == key:
                return voter.root
        return None

    @property
    def proved_end(self) -> Offset:
        """Up to where the log itself proves that it was committed: a decision is only ever made
        on a log that is committed to its end, so all before the last one is. So far a voter's
        table may merge its files."""
        for each in reversed(self.batches):
            if each.kind is BatchKind.RUN:
                return each.end_offset
            if each.kind is BatchKind.DECISION:
                return each.base_offset
        return Offset(0)

    def epoch_start(self, epoch: QuorumEpoch) -> Offset | None:
        place = bisect_left(self.batches, epoch, key=lambda each: each.epoch)
        if place == len(self.batches) or self.batches[place].epoch != epoch:
            return None
        return self.batches[place].base_offset

    def first_epoch_from(self, epoch: QuorumEpoch) -> QuorumEpoch | None:
        place = bisect_left(self.batches, epoch, key=lambda each: each.epoch)
        return self.batches[place].epoch if place < len(self.batches) else None

    def count_to(self, offset: int) -> int:
        return bisect_right(self.batches, offset, key=lambda each: each.end_offset)

    def epoch_before(self, offset: Offset) -> QuorumEpoch:
        """Return the epoch of the record before `offset`; beyond the end, that of the last one."""
        if offset >= self.end_offset:
            return self.end.epoch
        return self.batches[self.count_to(offset - 1)].epoch if offset > 0 else NO_EPOCH

    def batch_before(self, offset: Offset) -> RaftBatch | None:
        found = self.batches[: self.count_to(offset)]
        return found[-1] if found and found[-1].end_offset == offset else None

    def run_at(self, offset: Offset) -> RaftBatch | None:
        for found in self.batches[self.count_to(offset) :]:
            return found if found.kind is BatchKind.RUN else None
        return None

    def from_offset(self, offset: Offset) -> tuple[RaftBatch, ...]:
        """Return the batches from the border `offset` on, oldest first. A border within a run is
        none of this log's, but may be another's with the same batches: then the rest of the run
        comes first."""
        found = self.batches[self.count_to(offset) :]
        run = self.run_at(offset)
        return found if run is None else (replace(run, base_offset=offset), *found[1:])

    def appended(self, batch: RaftBatch) -> "RaftLog":
        ensure(batch.base_offset == self.end_offset, (batch, self.end))
        return replace(self, batches=(*self.batches, batch))

    def border_before(self, offset: Offset) -> Offset:
        """Return the last border that is not above `offset`; `offset` itself within a run, since
        the voter's table knows the borders there."""
        if offset >= self.end_offset:
            return self.end_offset
        found = self.batches[self.count_to(offset)]
        return offset if found.kind is BatchKind.RUN else found.base_offset

    def cut_to(self, offset: Offset) -> "RaftLog":
        """Return the log without what stands from `offset` on: a batch goes as a whole."""
        return replace(self, batches=self.batches[: self.count_to(offset)])


def log_of(headers: Iterable[RaftBatch]) -> RaftLog:
    """Return the log of batches that don't say which are no-ops: an epoch begins with its no-op,
    and with nothing else (Q8).

    Raises:
        ImpossibleValueError: They don't follow each other.
    """
    batches: list[RaftBatch] = []
    for batch in headers:
        is_first = batch.epoch > (batches[-1].epoch if batches else 0)
        is_no_op = is_first and batch.kind is not BatchKind.RUN
        batches.append(replace(batch, kind=BatchKind.NO_OP) if is_no_op else batch)
    return RaftLog(tuple(batches))


EMPTY_LOG: Final = RaftLog()
"""A log that nothing was ever written to."""


def end_offset_for_epoch(log: RaftLog, epoch: QuorumEpoch) -> OffsetAndEpoch:
    """Return where `epoch`, or the largest epoch below it that `log` has, ends. An epoch that is
    older than all is answered with itself and the log's beginning."""
    newest = log.end.epoch
    if epoch >= newest:
        return log.end
    place = bisect_right(log.batches, epoch, key=lambda each: each.epoch)
    at = log.batches[place].base_offset if log.batches else log.end_offset
    return OffsetAndEpoch(at, log.batches[place - 1].epoch if place else epoch)


def validate_offset_and_epoch(
    log: RaftLog, offset: Offset, epoch: QuorumEpoch
) -> OffsetAndEpoch | None:
    """Return to where a follower whose log ends at `offset`, with a last batch of `epoch`, is to
    cut it first, by a leader's `log`; None: it may go on from there.
    """
    end = end_offset_for_epoch(log, epoch)
    is_valid = offset == 0 or (end.epoch == epoch and end.offset >= offset)
    return None if is_valid else end


def common_end(mine: RaftLog, leaders: RaftLog) -> Offset:
    """Return up to where `mine` is the beginning of the leader's log.

    The walk of KIP-279 by epochs, however many there are between, and from there down to the
    highest border at which both have the same write: a table that was set back may part inside an
    epoch.
    """
    asked = mine.end
    for _ in range(len(mine.batches) + 1):
        parted = validate_offset_and_epoch(leaders, asked.offset, asked.epoch)
        if parted is None:
            break
        known = end_offset_for_epoch(mine, parted.epoch)
        asked = OffsetAndEpoch(Offset(min(known.offset, parted.offset, asked.offset)), known.epoch)
    for each in reversed(mine.batches):
        if each.end_offset <= asked.offset and has_write(leaders, each):
            return each.end_offset
    return Offset(0)


def has_write(log: RaftLog, batch: RaftBatch) -> bool:
    """Return whether a log has a batch of another one, at the same place.

    Where the batch ends within a run, its epoch tells, as Raft's log matching has it: one leader
    wrote all of an epoch. What the write was is not known any more.
    """
    found = log.batch_before(batch.end_offset)
    if found is not None:
        return (found.epoch, found.write_id) == (batch.epoch, batch.write_id)
    run = log.run_at(Offset(batch.end_offset - 1))
    return run is not None and run.epoch == batch.epoch


def is_snapshot_of(log: RaftLog, snapshot: OffsetAndEpoch) -> bool:
    """Return whether a snapshot is of `log`: it ends where a batch of that does, and the record
    before that end is of the snapshot's epoch.

    A snapshot is a file beside a log. Others may lie there: of a generation of the cluster that was
    given up, whose end another log has passed since. An epoch belongs to one generation, and what
    was committed in an epoch up to an offset is one history.
    """
    at = snapshot.offset
    if not 0 < at <= log.end_offset or log.border_before(at) != at:
        return False
    return log.epoch_before(at) == snapshot.epoch


def is_log_up_to_date(candidate: OffsetAndEpoch, voter: OffsetAndEpoch) -> bool:
    """By the last epoch, then by the end (Raft §5.4.1)."""
    return (candidate.epoch, candidate.offset) >= (voter.epoch, voter.offset)


def find_write(log: RaftLog, write_id: str, from_offset: Offset) -> RaftBatch | None:
    """Return the batch of a write at or above `from_offset`, or None. Of a run only the last one
    is found."""
    later = log.batches[log.count_to(from_offset) :]
    return next((each for each in later if each.write_id == write_id), None)


def runs_of(batches: Iterable[RaftBatch]) -> tuple[RaftBatch, ...]:
    """Return adjacent batches, oldest first, as runs: one an epoch, and one up to each change of
    voters, whose border who discovers voters compares.

    Only what is committed is merged, so no cut falls into a run, and what two logs share of one is
    told by its epoch.
    """
    runs: list[RaftBatch] = []
    for batch in batches:
        if runs and runs[-1].epoch == batch.epoch and runs[-1].voters is None:
            runs[-1] = replace(batch, base_offset=runs[-1].base_offset, kind=BatchKind.RUN)
        else:
            runs.append(replace(batch, kind=BatchKind.RUN))
    return tuple(runs)


UNREADABLE: Final = (ClusterNotFoundError, CorruptLogError, KafkaStorageError, ReplicaLostError)
"""Why a voter can't be read; another one may."""

Mark = tuple[VoterKey, QuorumEpoch]
"""A counter that names a voter, and its value."""


def goes_on_from(seen: "VoterTable", found: "VoterTable") -> bool:
    """Return whether `found` is a later version of the same table as `seen`.

    Its epoch never falls, nor does a vote or a mark. What the log proved committed stays; as long
    as the epoch and its leader do, so does the rest (Q4).
    """
    if found.version < seen.version or found.quorum_epoch < seen.quorum_epoch:
        return False
    if found.version == seen.version and found != seen:
        return False
    is_same_term = (found.quorum_epoch, found.leader) == (seen.quorum_epoch, seen.leader)
    if found.quorum_epoch == seen.quorum_epoch and seen.leader not in (None, found.leader):
        return False
    kept_end = seen.log.end_offset if is_same_term else seen.log.proved_end
    last = seen.log.cut_to(kept_end).batches[-1:]
    return all(has_write(found.log, batch) for batch in last)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """One conditional commit on a voter's table. What is None or empty stays as it is.

    Attributes:
        vote: Whom the voter votes for in that epoch, or in the one that it is in.
        leader: Whom it marks as that epoch's leader.
        cut_to: The log loses everything from this offset on, before `appended`.
    """

    quorum_epoch: QuorumEpoch | None = None
    vote: VoterKey | None = None
    leader: VoterKey | None = None
    cut_to: Offset | None = None
    appended: tuple[RaftBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class VoterTable:
    """One version of a voter's table; versions that say the same are equal.

    Attributes:
        quorum_epoch: The highest epoch that it has seen.
        votes: Its votes, of every epoch in which it gave one, oldest first.
        leaders: The leaders that it has marked, likewise.
        vote: Whom it has voted for in its epoch.
        leader: Whom it follows, or that it leads, in its epoch.
        leads: Whether it leads its epoch. A vote for itself leads nothing.
    """

    key: VoterKey
    quorum_epoch: QuorumEpoch = NO_EPOCH
    votes: tuple[Mark, ...] = ()
    leaders: tuple[Mark, ...] = ()
    log: RaftLog = EMPTY_LOG
    version: int = field(default=0, compare=False)
    vote: VoterKey | None = field(init=False, repr=False, compare=False)
    leader: VoterKey | None = field(init=False, repr=False, compare=False)
    leads: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, marks in (("vote", self.votes), ("leader", self.leaders)):
            last = -1
            for _, epoch in marks:
                ensure(last < epoch <= self.quorum_epoch, (self.quorum_epoch, marks))
                last = epoch
            is_of_epoch = marks and last == self.quorum_epoch
            object.__setattr__(self, name, marks[-1][0] if is_of_epoch else None)
        object.__setattr__(self, "leads", self.leader == self.key)
        ensure(self.log.end.epoch <= self.quorum_epoch, (self.quorum_epoch, self.log.end))

    @property
    def is_candidate(self) -> bool:
        """Whether it has voted for itself in its epoch, and nobody leads that as yet."""
        return self.vote == self.key and self.leader is None

    def apply(self, change: TableChange) -> "VoterTable":
        """Return the table after `change`.

        Raises:
            ImpossibleValueError: A counter would fall, or a vote or leader of an epoch be another.
        """
        epoch = self.quorum_epoch if change.quorum_epoch is None else change.quorum_epoch
        ensure(epoch >= self.quorum_epoch, (self.quorum_epoch, change))
        log = self.log if change.cut_to is None else self.log.cut_to(change.cut_to)
        for batch in change.appended:
            log = log.appended(batch)
        return VoterTable(
            self.key,
            epoch,
            self.votes if change.vote is None else _marked(self.votes, change.vote, epoch),
            self.leaders if change.leader is None else _marked(self.leaders, change.leader, epoch),
            log,
            self.version + 1,
        )


def _marked(marks: tuple[Mark, ...], key: VoterKey, epoch: QuorumEpoch) -> tuple[Mark, ...]:
    newest = marks[-1:]
    ensure(all(marked < epoch or other == key for other, marked in newest), (marks, key, epoch))
    return (*(mark for mark in marks if mark[0] != key), (key, epoch))


def best_log(tables: Iterable[VoterTable]) -> VoterTable:
    """Return the table whose log is best: by last epoch, then end, then the lowest id."""
    return max(
        tables, key=lambda each: (each.log.end.epoch, each.log.end.offset, -each.key.node_id)
    )


def newest_voters(tables: Iterable[VoterTable]) -> VoterSet | None:
    """Return the set of voters by the best log of `tables`, not by the newest `VotersRecord`: what
    is committed is in it, and another may end with a change of voters that came to nothing."""
    named = [each for each in tables if each.log.voters is not None]
    return best_log(named).log.voters if named else None
