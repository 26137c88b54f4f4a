"""What one process has seen of a leader and of who follows it: how far the log is committed.

For each of a majority of voters, of the newest set in the leader's log, somebody has seen the
leader's epoch, the mark of this leader, and an end that is not below; and the batch at that end is
of the epoch (Raft §5.4.2). Seen at different times is enough. An emptied voter, one with another
directory, and one that can't be read count for nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from kafka_on_spark.base.errors import InconsistentClusterError
from kafka_on_spark.base.ids import Offset, QuorumEpoch
from kafka_on_spark.metadata.quorum.raft_log import RaftLog
from kafka_on_spark.metadata.quorum.voter_set import VoterKey
from kafka_on_spark.metadata.quorum.voter_table import NO_EPOCH, VoterTable


@dataclass(frozen=True, slots=True)
class LeaderView:
    """A leader's table as of one look, and how far voters were seen to hold it since.

    Attributes:
        key: The leader.
        epoch: The epoch that it leads.
        log: Its log, as of the last look at its table.
        held: Up to where each voter was seen to hold this leader's log, in this epoch, flushed.
    """

    key: VoterKey
    epoch: QuorumEpoch
    log: RaftLog
    held: Mapping[VoterKey, Offset]

    @property
    def counted_end(self) -> Offset | None:
        """Up to where voters that were seen say that the log is committed; None: too few say so."""
        voters = self.log.voters
        if voters is None:
            return None
        end = majority_end(self.held.get(each) for each in voters.keys)
        start = self.log.epoch_start(self.epoch)
        if end is None or start is None or end <= start:
            return None
        return end

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
        """Return the view after another look at the leader's table."""
        if leader.log.end_offset < self.log.end_offset:
            return self
        held = {**self.held, self.key: leader.log.end_offset}
        return replace(self, log=leader.log, held=MappingProxyType(held))


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
    return LeaderView(table.key, table.quorum_epoch, table.log, held)


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
