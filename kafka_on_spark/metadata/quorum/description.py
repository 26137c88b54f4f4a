"""What people are told of the quorum: who leads, in which epoch, how far each voter is.

Source: DescribeQuorumResponse, and `kafka-metadata-quorum describe`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kafka_on_spark.base.errors import (
    ClusterNotFoundError,
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
    ReplicaLostError,
    RootAccessDeniedError,
    RootFullError,
    RootReadOnlyError,
)
from kafka_on_spark.base.ids import Offset, QuorumEpoch
from kafka_on_spark.metadata.quorum.raft import LeaderView
from kafka_on_spark.metadata.quorum.voter_table import (
    NO_EPOCH,
    Voter,
    VoterKey,
    VoterSet,
    VoterTable,
)


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


class Condition(StrEnum):
    """What is wrong with a voter's root."""

    FULL = "full"
    READ_ONLY = "read-only"
    DENIED = "denied"
    AWAY = "away"
    EMPTY = "empty"
    LOST = "lost"
    """It has another table, or one that went back."""

    DAMAGED = "damaged"

    @property
    def is_for_ever(self) -> bool:
        """Whether the voter is to be replaced: it never comes back by itself."""
        return self in (Condition.EMPTY, Condition.LOST, Condition.DAMAGED)


_CONDITIONS: Final[Mapping[type[KafkaOnSparkError], Condition]] = {
    RootFullError: Condition.FULL,
    RootReadOnlyError: Condition.READ_ONLY,
    RootAccessDeniedError: Condition.DENIED,
    ClusterNotFoundError: Condition.EMPTY,
    ReplicaLostError: Condition.LOST,
    CorruptLogError: Condition.DAMAGED,
}


def condition_of(failure: KafkaOnSparkError) -> Condition:
    """Return the condition of a voter whose root fails so."""
    found = (each for error, each in _CONDITIONS.items() if isinstance(failure, error))
    return next(found, Condition.AWAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterDescription:
    """A voter as it was just seen. Of one with a problem the state is None; of one that does not
    answer, epoch and end are, too.

    Attributes:
        epoch: The highest epoch that it has seen.
        lag: How many records of the leader's log it lacks, as far as it follows that; None: it does
            not answer, or follows another leader or none.
        condition: What is wrong with its root; None: it answers, and takes writes.
        problem: The same in a sentence, or None.
    """

    voter: Voter
    leads: bool
    state: VoterState | None
    epoch: QuorumEpoch | None
    log_end_offset: Offset | None
    lag: int | None
    condition: Condition | None
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
    view: LeaderView,
    tables: Mapping[VoterKey, VoterTable],
    failures: Mapping[VoterKey, KafkaOnSparkError],
) -> QuorumDescription:
    """Return what a leader that was confirmed and looks at the voters' tables say. `failures`: why
    voters did not answer, or take no writes."""
    return QuorumDescription(
        leader=view.key,
        epoch=view.epoch,
        high_watermark=view.committed_end,
        voters=describe_voters(view.voters, view, tables, failures),
    )


def describe_voters(
    voters: VoterSet,
    view: LeaderView | None,
    tables: Mapping[VoterKey, VoterTable],
    failures: Mapping[VoterKey, KafkaOnSparkError],
) -> tuple[VoterDescription, ...]:
    """Return each voter by its own table; `view`: the leader, or None if no majority answers."""
    newest = max((each.quorum_epoch for each in tables.values()), default=NO_EPOCH)
    epoch = newest if view is None else view.epoch
    return tuple(
        _described(view, epoch, each, tables.get(each.key), failures.get(each.key))
        for each in voters.voters
    )


def _described(
    view: LeaderView | None,
    epoch: QuorumEpoch,
    voter: Voter,
    table: VoterTable | None,
    failure: KafkaOnSparkError | None,
) -> VoterDescription:
    end, lag, state = None, None, None
    if table is None:
        failure = failure or KafkaStorageError("it does not answer")
    else:
        end = table.log.end_offset
        state = voter_state(table, epoch) if failure is None else None
        if view is not None and (table.quorum_epoch, table.leader) == (view.epoch, view.key):
            lag = max(0, view.log.end_offset - end)
    return VoterDescription(
        voter=voter,
        leads=view is not None and voter.key == view.key,
        state=state,
        epoch=None if table is None else table.quorum_epoch,
        log_end_offset=end,
        lag=lag,
        condition=None if failure is None else condition_of(failure),
        problem=None if failure is None else failure.message,
    )
