"""What people are told of the quorum: who leads, in which epoch, how far each voter is.

Source: DescribeQuorumResponse, and `kafka-metadata-quorum describe`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kafka_on_spark.base.ids import Offset, QuorumEpoch
from kafka_on_spark.metadata.quorum.raft import LeaderView
from kafka_on_spark.metadata.quorum.voter_table import Voter, VoterKey, VoterTable


class VoterState(StrEnum):
    """Kafka's states of a voter, as a table shows them.

    No table shows Prospective: a process that asks whether a voter would be elected writes nothing.
    """

    UNATTACHED = "Unattached"
    """Its epoch has no leader that it knows, and it has voted for nobody in it."""

    VOTED = "Voted"
    """The same, with a vote for another."""

    CANDIDATE = "Candidate"
    """It has voted for itself in its epoch, and knows no leader of it."""

    LEADER = "Leader"
    FOLLOWER = "Follower"

    RESIGNED = "Resigned"
    """It led its epoch, and there is a later one: it is to follow the leader of that."""

    OBSERVER = "Observer"
    """It is not a voter by its own log: it is empty, or has not copied the change that added it."""


def voter_state(table: VoterTable, newest_epoch: QuorumEpoch) -> VoterState:
    """Return the state that a voter's table shows. `newest_epoch`: the quorum's.

    Source: QuorumState, where a Voted of Kafka 3 is an Unattached of Kafka 4 that has voted.
    """
    voters = table.log.voters
    if voters is None or table.key not in voters.keys:
        return VoterState.OBSERVER
    if table.leads:
        return VoterState.LEADER if table.quorum_epoch >= newest_epoch else VoterState.RESIGNED
    if table.leader is not None:
        return VoterState.FOLLOWER
    if table.is_candidate:
        return VoterState.CANDIDATE
    return VoterState.UNATTACHED if table.vote is None else VoterState.VOTED


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterDescription:
    """A voter as it was just seen. Of one that does not answer state, epoch and end are None.

    Attributes:
        epoch: The highest epoch that it has seen.
        lag: How many records of the leader's log it lacks, as far as it follows that; None: it does
            not answer, or follows another leader or none.
        problem: Why it does not answer, or None.
    """

    voter: Voter
    leads: bool
    state: VoterState | None
    epoch: QuorumEpoch | None
    log_end_offset: Offset | None
    lag: int | None
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The quorum as one process has just seen it: its voters by their ids, and up to where the log
    is committed (`high_watermark`)."""

    leader: VoterKey
    epoch: QuorumEpoch
    high_watermark: Offset
    voters: tuple[VoterDescription, ...]

    @property
    def lag_max(self) -> int | None:
        """The largest lag of a voter; None: one of them does not follow."""
        lags = [each.lag for each in self.voters if each.lag is not None]
        return max(lags, default=0) if len(lags) == len(self.voters) else None


def describe(
    view: LeaderView, tables: Mapping[VoterKey, VoterTable], problems: Mapping[VoterKey, str]
) -> QuorumDescription:
    """Return what a leader that was confirmed and looks at the voters' tables say. `problems`: why
    voters did not answer."""
    return QuorumDescription(
        leader=view.key,
        epoch=view.epoch,
        high_watermark=view.committed_end,
        voters=tuple(
            _described(view, each, tables.get(each.key), problems.get(each.key))
            for each in view.voters.voters
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
        state=None if table is None or problem else voter_state(table, view.epoch),
        epoch=None if table is None else table.quorum_epoch,
        log_end_offset=end,
        lag=max(0, view.log.end_offset - end) if follows and end is not None else None,
        problem=problem or ("it does not answer" if table is None else None),
    )
