"""Replication of the metadata log: what a leader appends, a follower adopts and fetches, and how
far that is committed.

**The tail first**: a decision is only ever appended to a log that is committed to its end (Q9). So
a decision in a log proves that all before it is committed.

Adopting is one commit that raises the epoch, marks the leader and cuts what the leader's log does
not share. **It is due wherever the mark of the epoch is missing, also where the voter has voted in
that epoch**: a vote raises the epoch and cuts nothing.

A log is committed where, for each of a majority of voters, of the newest set in the leader's log,
somebody has seen the leader's epoch, the mark of this leader, and an end that is not below; and the
batch at that end is of the epoch (Raft §5.4.2). Seen at different times is enough. An emptied
voter, one with another directory, and one that can't be read count for nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import takewhile
from types import MappingProxyType

from kafka_on_spark.base.errors import (
    CommitConflictError,
    FencedLeaderEpochError,
    InconsistentClusterError,
    NotLeaderOrFollowerError,
)
from kafka_on_spark.base.ids import Offset, QuorumEpoch
from kafka_on_spark.metadata.quorum.generations import generation_of
from kafka_on_spark.metadata.quorum.raft_log import (
    BatchKind,
    RaftBatch,
    RaftLog,
    common_end,
    find_write,
)
from kafka_on_spark.metadata.quorum.voter_set import VoterKey, VoterSet
from kafka_on_spark.metadata.quorum.voter_table import NO_EPOCH, TableChange, VoterTable


def append(
    leader: VoterTable,
    epoch: QuorumEpoch,
    committed_end: Offset,
    *,
    base_offset: Offset,
    record_count: int,
    write_id: str,
    voters: VoterSet | None = None,
) -> TableChange:
    """Return the commit that appends a decision to the leader's log.

    `epoch`: the one in which `committed_end` was seen to be committed. `base_offset`: the end of
    the image on which it was decided. `write_id`: its writer's name for it. `voters`: the set that
    it puts into force, if it does.

    Raises:
        NotLeaderOrFollowerError: The table leads another epoch by now, or none.
        CommitConflictError: The log has gone on since the decision was made: decide again. Or its
            tail is not committed as yet: whoever finds it ends it first.
    """
    if not leader.leads or leader.quorum_epoch != epoch:
        raise NotLeaderOrFollowerError(
            f"voter {leader.key} does not lead epoch {epoch}: look for the leader again"
        )
    end = leader.log.end_offset
    if committed_end < end or end != base_offset:
        raise CommitConflictError("the metadata log has gone on", expected=base_offset, found=end)
    batch = RaftBatch(end, Offset(end + record_count), epoch, write_id, BatchKind.DECISION, voters)
    return TableChange(appended=(batch,))


class Outcome(Enum):
    """What is known of a write. Until it is, who decided it decides nothing else that it would
    contradict."""

    COMMITTED = "committed"
    LOST = "lost"
    UNKNOWN = "unknown"

    UNTOLD = "untold"
    """The table has merged what stands there, of the same epoch: no look tells any more."""


def outcome_of(log: RaftLog, committed_end: Offset, write: RaftBatch) -> Outcome:
    """Return what became of a write, by a leader's log that is known to be committed up to
    `committed_end`.

    It is committed where it is found below that. It never will be where a batch of a later epoch is
    committed and it is not below: each later leader has that batch, so none has the write. That
    nobody has it now proves nothing: the put may still land, and its epoch's leader be the next.
    """
    found = find_write(log, write.write_id, write.base_offset)
    if found is not None:
        is_committed = found.end_offset <= committed_end
        return Outcome.COMMITTED if is_committed else Outcome.UNKNOWN
    run = log.run_at(write.base_offset)
    if run is not None:
        return Outcome.UNTOLD if run.epoch == write.epoch else Outcome.LOST
    later = log.batch_before(committed_end)
    if later is not None and later.epoch > write.epoch:
        return Outcome.LOST
    return Outcome.UNKNOWN


def follows(voter: VoterTable, leader: VoterTable) -> bool:
    return voter.quorum_epoch == leader.quorum_epoch and voter.leader == leader.key


def adopt(voter: VoterTable, leader: VoterTable) -> TableChange | None:
    """Return the commit by which `voter` adopts `leader`; None: it has.

    Raises:
        NotLeaderOrFollowerError: `leader` leads nothing.
        FencedLeaderEpochError: The voter has seen a later epoch: the leader is deposed.
        InconsistentClusterError: The voter has marked another leader of that epoch, or would lose
            what its own log proves committed: a table went back, or is another cluster's.
    """
    _check_leader(voter, leader)
    if follows(voter, leader):
        return None
    if voter.quorum_epoch == leader.quorum_epoch and voter.leader is not None:
        raise InconsistentClusterError(
            f"epoch {leader.quorum_epoch} has two leaders: voter {voter.key} follows"
            f" {voter.leader}, and {leader.key} leads; a root was restored from a copy:"
            " remove that voter"
        )
    end = common_end(voter.log, leader.log)
    _check_cut(voter, leader, end)
    return TableChange(
        quorum_epoch=leader.quorum_epoch,
        leader=leader.key,
        cut_to=end if end < voter.log.end_offset else None,
    )


def _check_leader(voter: VoterTable, leader: VoterTable) -> None:
    if not leader.leads:
        raise NotLeaderOrFollowerError(
            f"voter {leader.key} leads nothing: look for the leader again"
        )
    if voter.quorum_epoch > leader.quorum_epoch:
        raise FencedLeaderEpochError(
            f"voter {voter.key} is in epoch {voter.quorum_epoch}: the leadership of {leader.key} in"
            f" {leader.quorum_epoch} is over; look for the leader again"
        )


def _check_cut(voter: VoterTable, leader: VoterTable, end: Offset) -> None:
    proved = voter.log.proved_end
    if end >= proved:
        return
    if generation_of(voter.log.end.epoch) < generation_of(leader.quorum_epoch):
        # What it knew when the cluster was forced without it is gone: the leader is well.
        raise InconsistentClusterError(
            f"the root of voter {voter.key} was given up when the cluster was forced, and holds"
            " decisions that are gone: empty it, then add it"
        )
    raise InconsistentClusterError(
        f"voter {voter.key} would be cut to {end}, below {proved}, which its log proves committed:"
        f" the log of {leader.key} went back, or is another cluster's; stop everything"
    )


def fetch(
    voter: VoterTable, leader: VoterTable, *, records_max: int | None = None
) -> TableChange | None:
    """Return the commit by which `voter` appends what it lacks of the leader's log, in order, whole
    batches, at most `records_max` records but at least a batch; None: it lacks nothing of what was
    seen.

    Raises:
        NotLeaderOrFollowerError: The leader leads nothing, or the voter must adopt it first.
        FencedLeaderEpochError: The voter has seen a later epoch.
        InconsistentClusterError: The voter, under the leader's mark, has another log.
    """
    _check_leader(voter, leader)
    if not follows(voter, leader):
        raise NotLeaderOrFollowerError(
            f"voter {voter.key} has not adopted {leader.key} in epoch {leader.quorum_epoch}"
        )
    if is_ahead(voter, leader):
        return None
    end = voter.log.end_offset
    if common_end(voter.log, leader.log) != end:
        raise InconsistentClusterError(
            f"voter {voter.key} follows {leader.key} in epoch {leader.quorum_epoch}, and its log is"
            " no beginning of the leader's: one of both went back; remove the voter that was"
            " restored"
        )
    batches = leader.log.from_offset(end)
    chosen = tuple(_at_most(batches, end, records_max)) or batches[:1]
    return TableChange(appended=chosen) if chosen else None


def write_once(voter: VoterTable, leader: VoterTable) -> TableChange:
    """Return a commit that marks the leader once more, and so changes nothing: whether the root of
    a voter takes commits is seen before others wait for it.

    Raises:
        NotLeaderOrFollowerError: The voter must adopt the leader first.
    """
    _check_leader(voter, leader)
    if not follows(voter, leader):
        raise NotLeaderOrFollowerError(
            f"voter {voter.key} has not adopted {leader.key} in epoch {leader.quorum_epoch}"
        )
    return TableChange(leader=leader.key)


def is_ahead(voter: VoterTable, leader: VoterTable) -> bool:
    """Return whether a voter has more than its leader: the look at the leader is the older one. If
    the voter was looked at first, one of both went back, and is to be removed.
    """
    return follows(voter, leader) and voter.log.end_offset > leader.log.end_offset


def _at_most(
    batches: tuple[RaftBatch, ...], start: Offset, records_max: int | None
) -> Iterator[RaftBatch]:
    if records_max is None:
        return iter(batches)
    return takewhile(lambda each: each.end_offset - start <= records_max, batches)


@dataclass(frozen=True, slots=True)
class LeaderView:
    """A leader's table as of the last look, and how far voters were seen to hold its log.

    Attributes:
        table: The table.
        held: Up to where each voter was seen to hold this leader's log, in this epoch, flushed.
    """

    table: VoterTable
    held: Mapping[VoterKey, Offset]

    @property
    def key(self) -> VoterKey:
        return self.table.key

    @property
    def epoch(self) -> QuorumEpoch:
        return self.table.quorum_epoch

    @property
    def log(self) -> RaftLog:
        return self.table.log

    @property
    def counted_end(self) -> Offset | None:
        """Up to where voters that were seen say that the log is committed; None: too few say so."""
        return counted_end(self.log, self.epoch, self.held)

    @property
    def committed_end(self) -> Offset:
        """Up to where the log is known to be committed: by voters that were seen, or since the log
        goes on with a decision, which is only ever made on what is committed."""
        return Offset(max(self.counted_end or 0, self.log.proved_end))

    @property
    def is_confirmed(self) -> bool:
        """Whether a read that began before this view did may answer: a majority was seen to hold
        the leader's *end* (Q10).

        That a majority's epochs are not above the leader's is not enough: what was acknowledged may
        stand on the leader and on the voter that was not looked at. What the log proves of itself
        is not enough either: a deposed leader's does, too.
        """
        return self.counted_end == self.log.end_offset

    def seen(self, voter: VoterTable) -> "LeaderView":
        """Return the view after a look at a voter's table, all of which is durable.

        A voter in another epoch, or without this leader's mark, is not counted, however much of the
        log it has: it may cut it. What it was seen to hold before stands.
        """
        if voter.quorum_epoch != self.epoch or voter.leader != self.key:
            return self
        if voter.key == self.key:
            return self.led_further(voter)
        end = min(voter.log.end_offset, self.log.end_offset)
        if end <= self.held.get(voter.key, -1):
            return self
        return replace(self, held=MappingProxyType({**self.held, voter.key: Offset(end)}))

    def led_further(self, leader: VoterTable) -> "LeaderView":
        if leader.log.end_offset < self.log.end_offset:
            return self
        held = {**self.held, self.key: leader.log.end_offset}
        return replace(self, table=leader, held=MappingProxyType(held))


def counted_end(log: RaftLog, epoch: QuorumEpoch, held: Mapping[VoterKey, Offset]) -> Offset | None:
    """Return up to where a majority of the voters of a log was seen to hold it, if the batch there
    is of the leader's `epoch` (Raft §5.4.2); None: too few hold so much."""
    end = None if log.voters is None else majority_end(held.get(each) for each in log.voters.keys)
    start = log.epoch_start(epoch)
    return None if end is None or start is None or end <= start else end


def majority_end(ends: Iterable[Offset | None]) -> Offset | None:
    """Return up to where a majority of voters has a log; None: a majority is not known.

    `ends`: of every voter, None where nothing is known. What it says is committed only where the
    batch at that end is of the leader's epoch (Raft §5.4.2).
    """
    ordered = sorted(ends, key=lambda end: 1 if end is None else -end)
    return ordered[len(ordered) // 2] if ordered else None


def view_of(table: VoterTable) -> LeaderView | None:
    """Return what a look at one table says, all of which is durable; None: it leads nothing."""
    if not table.leads:
        return None
    held = MappingProxyType({table.key: table.log.end_offset})
    return LeaderView(table, held)


def leader_among(tables: Mapping[VoterKey, VoterTable]) -> LeaderView | None:
    """Return the newest leader that `tables` show, and who of them holds its log, all of which is
    durable; None: they show none, or not its own table, or that leads no more.

    Raises: as `newest_leader`.
    """
    key = newest_leader(tables)
    view = None if key is None or key not in tables else view_of(tables[key])
    for each in tables.values():
        view = None if view is None else view.seen(each)
    return view


def newest_leader(tables: Mapping[VoterKey, VoterTable]) -> VoterKey | None:
    """Return the leader of the highest epoch that any of `tables` has marked, be it readable or
    not; None: none has.

    Raises:
        InconsistentClusterError: Two lead that epoch.
    """
    epoch, keys = leaders_of_the_newest_epoch(tables)
    if len(keys) > 1:
        raise InconsistentClusterError(
            f"epoch {epoch} has two leaders, voters {' and '.join(map(str, sorted(keys)))}: a root"
            " was restored from a copy, or the cluster was forced at two places; stop everything,"
            " choose one of both, and empty the root of the other"
        )
    return next(iter(keys), None)


def leaders_of_the_newest_epoch(
    tables: Mapping[VoterKey, VoterTable],
) -> tuple[QuorumEpoch, frozenset[VoterKey]]:
    """Return the highest epoch that any of `tables` has marked a leader of, and whom they have
    marked; no more than one, unless the cluster is broken."""
    marks = [(epoch, key) for each in tables.values() for key, epoch in each.leaders]
    newest = max((epoch for epoch, _ in marks), default=NO_EPOCH)
    return newest, frozenset(key for epoch, key in marks if epoch == newest)
