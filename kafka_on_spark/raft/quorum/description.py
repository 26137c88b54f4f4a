"""What people are told of the quorum: who leads, in which epoch, how far each voter is.

Source: DescribeQuorumResponse, and `kafka-metadata-quorum describe`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_on_spark.ids import Offset, QuorumEpoch
from kafka_on_spark.notebook import Shown
from kafka_on_spark.raft.quorum.leader_view import LeaderView
from kafka_on_spark.raft.tables.voter_table import VoterTable
from kafka_on_spark.raft.voter_set import Voter, VoterKey


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterDescription:
    """A voter as it was just seen.

    Attributes:
        voter: Which one, and its root.
        leads: Whether it leads.
        epoch: The highest epoch that it has seen; None: it does not answer.
        log_end_offset: Where its log ends; None: it does not answer.
        lag: How many records of the leader's log it lacks, as far as it follows that; None: it does
            not answer, or follows another leader or none.
        problem: Why it does not answer, or None.
    """

    voter: Voter
    leads: bool
    epoch: QuorumEpoch | None
    log_end_offset: Offset | None
    lag: int | None
    problem: str | None

    @property
    def role(self) -> str:
        """What it does: "leads", "follows", "waits" (it answers and follows nobody, or another
        leader) or "lost" (it can't be read)."""
        if self.problem is not None:
            return "lost"
        if self.leads:
            return "leads"
        return "waits" if self.lag is None else "follows"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription(Shown):
    """The quorum as one process has just seen it.

    Attributes:
        leader: The voter that leads.
        epoch: The leader's epoch.
        high_watermark: Up to where the log is committed.
        voters: All of them, by their ids.
    """

    leader: VoterKey
    epoch: QuorumEpoch
    high_watermark: Offset
    voters: tuple[VoterDescription, ...]

    @property
    def lag_max(self) -> int | None:
        """The largest lag of a voter; None: one of them does not follow."""
        lags = [each.lag for each in self.voters]
        return (
            max((lag for lag in lags if lag is not None), default=0) if None not in lags else None
        )


def describe(
    view: LeaderView, tables: Mapping[VoterKey, VoterTable], problems: Mapping[VoterKey, str]
) -> QuorumDescription:
    """Return what a leader that was confirmed and looks at the voters' tables say. `problems`: why
    voters did not answer."""
    voters = view.log.voters
    assert voters is not None, "who leads has counted its voters"
    return QuorumDescription(
        leader=view.key,
        epoch=view.epoch,
        high_watermark=view.committed_end,
        voters=tuple(
            _described(view, each, tables.get(each.key), problems.get(each.key))
            for each in voters.voters
        ),
    )


def _described(
    view: LeaderView, voter: Voter, table: VoterTable | None, problem: str | None
) -> VoterDescription:
    follows = table is not None and (table.quorum_epoch, table.leader) == (view.epoch, view.key)
    end = None if table is None else table.log.end_offset
    return VoterDescription(
        voter=voter,
        leads=voter.key == view.key,
        epoch=None if table is None else table.quorum_epoch,
        log_end_offset=end,
        lag=max(0, view.log.end_offset - end) if follows and end is not None else None,
        problem=problem or ("it does not answer" if table is None else None),
    )
