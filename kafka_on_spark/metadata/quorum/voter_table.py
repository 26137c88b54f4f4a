"""A voter's table as of one version: its counters and its log, and a change to commit on it.

The counters are `quorum-epoch` (the highest epoch seen), ``vote/<node>:<directory>`` = the epoch in
which the voter voted for that one, and ``leader/<node>:<directory>`` = the epoch in which it
follows (or is) that leader. They are only raised. Vote or leader "of the epoch" is the one
whose number is `quorum-epoch`; none is none.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kafka_on_spark.base.errors import (
    ClusterNotFoundError,
    CorruptLogError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import Offset, QuorumEpoch, ensure
from kafka_on_spark.metadata.quorum.raft_log import EMPTY_LOG, RaftBatch, RaftLog, has_write
from kafka_on_spark.metadata.quorum.voter_set import VoterKey

UNREADABLE: Final = (ClusterNotFoundError, CorruptLogError, KafkaStorageError, ReplicaLostError)
"""Why a voter can't be read; another one may."""

NO_EPOCH: Final = QuorumEpoch(0)
"""Before the first election."""

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
        quorum_epoch: The epoch, raised to this.
        vote: Whom the voter votes for in that epoch, or in the one that it is in.
        leader: Whom it marks as that epoch's leader.
        cut_to: The log loses everything from this offset on.
        appended: Batches at the log's end, after the cut.
    """

    quorum_epoch: QuorumEpoch | None = None
    vote: VoterKey | None = None
    leader: VoterKey | None = None
    cut_to: Offset | None = None
    appended: tuple[RaftBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class VoterTable:
    """One version of a voter's table.

    Attributes:
        key: Whose it is: the table's configuration says so.
        quorum_epoch: The highest epoch that it has seen.
        votes: Its votes, of every epoch in which it gave one; a voter's newest stands.
        leaders: The leaders that it has marked, likewise.
        log: Its log.
        version: Which version it is; versions that say the same are equal.
    """

    key: VoterKey
    quorum_epoch: QuorumEpoch = NO_EPOCH
    votes: tuple[Mark, ...] = ()
    leaders: tuple[Mark, ...] = ()
    log: RaftLog = EMPTY_LOG
    version: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        for marks in (self.votes, self.leaders):
            epochs = [epoch for _, epoch in marks]
            ensure(len(set(epochs)) == len(epochs), marks)
            ensure(max(epochs, default=0) <= self.quorum_epoch, (self.quorum_epoch, marks))
        ensure(self.log.end.epoch <= self.quorum_epoch, (self.quorum_epoch, self.log.end))

    @property
    def vote(self) -> VoterKey | None:
        return _of_epoch(self.votes, self.quorum_epoch)

    @property
    def leader(self) -> VoterKey | None:
        """Whom it follows, or that it leads, in its epoch."""
        return _of_epoch(self.leaders, self.quorum_epoch)

    @property
    def leads(self) -> bool:
        """Whether it leads its epoch. A vote for itself leads nothing."""
        return self.leader == self.key

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
        return VoterTable(
            self.key,
            epoch,
            _marked(self.votes, change.vote, epoch),
            _marked(self.leaders, change.leader, epoch),
            _changed(self.log, change),
            self.version + 1,
        )


def _changed(log: RaftLog, change: TableChange) -> RaftLog:
    if change.cut_to is not None:
        log = log.cut_to(change.cut_to)
    for batch in change.appended:
        log = log.appended(batch)
    return log


def _of_epoch(marks: tuple[Mark, ...], epoch: QuorumEpoch) -> VoterKey | None:
    return next((key for key, marked in marks if marked == epoch), None)


def _marked(marks: tuple[Mark, ...], key: VoterKey | None, epoch: QuorumEpoch) -> tuple[Mark, ...]:
    if key is None:
        return marks
    ensure(_of_epoch(marks, epoch) in (None, key), (marks, key, epoch))
    others = tuple(mark for mark in marks if mark[0] != key)
    return tuple(sorted((*others, (key, epoch)), key=lambda mark: (mark[1], mark[0].node_id)))


def best_log(tables: Iterable[VoterTable]) -> VoterTable:
    """Return the table whose log is best: by last epoch, then end, then the lowest id."""
    return max(
        tables,
        key=lambda each: (each.log.end.epoch, each.log.end.offset, -each.key.node_id),
    )
