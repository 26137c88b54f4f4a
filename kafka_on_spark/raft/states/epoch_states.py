"""The states that a voter can be in, in one epoch. Kafka 3's Voted is Unattached with a vote.

A state says what is durable of it (`election`), which timer runs, and whom it grants a vote. An
observer is in no state of its own: it is Unattached or Follower and no voter.
Source: EpochState and its classes.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from kafka_on_spark.errors import ensure
from kafka_on_spark.ids import NodeId, Offset, QuorumEpoch
from kafka_on_spark.raft.states.election_state import ElectionState
from kafka_on_spark.raft.states.leader_state import LeaderState
from kafka_on_spark.raft.states.tally import Tally
from kafka_on_spark.raft.states.timing import Timer
from kafka_on_spark.raft.states.vote_grants import grants_pre_vote, grants_vote
from kafka_on_spark.raft.voter_set import VoterKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Unattached:
    """No leader to follow: it waits for one, or for its time to stand.

    Attributes:
        epoch: Its epoch.
        leader_id: The epoch's leader, where it is known but can't be reached.
        voted_key: Whom it voted for.
        high_watermark: The highest it has known; None: none.
        timer: The election timeout; never, for an observer.
    """

    name: ClassVar[str] = "UNATTACHED"
    epoch: QuorumEpoch
    leader_id: NodeId | None = None
    voted_key: VoterKey | None = None
    high_watermark: Offset | None = None
    timer: Timer

    @property
    def election(self) -> ElectionState:
        """What is durable of it."""
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def grants(self, candidate: VoterKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        """Return whether it grants `candidate` a vote, or a pre-vote."""
        if is_pre_vote:
            return grants_pre_vote(is_log_up_to_date=is_log_up_to_date, hears_leader=False)
        return grants_vote(self.election, candidate, is_log_up_to_date=is_log_up_to_date)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospective:
    """It asks whether it would be elected, and raises no epoch before (KIP-996).

    Attributes: as of Unattached; `tally` counts the pre-votes, its own among them; `retries` its
    elections in a row.
    """

    name: ClassVar[str] = "PROSPECTIVE"
    epoch: QuorumEpoch
    leader_id: NodeId | None = None
    voted_key: VoterKey | None = None
    high_watermark: Offset | None = None
    timer: Timer
    tally: Tally
    retries: int = 1

    @property
    def election(self) -> ElectionState:
        """What is durable of it: the same as before."""
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def grants(self, candidate: VoterKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        """Return whether it grants `candidate` a vote, or a pre-vote."""
        if is_pre_vote:
            return grants_pre_vote(is_log_up_to_date=is_log_up_to_date, hears_leader=False)
        return grants_vote(self.election, candidate, is_log_up_to_date=is_log_up_to_date)

    def with_vote(self, local: NodeId, voter: NodeId, *, is_granted: bool) -> "Prospective":
        """Return it with one pre-vote more; a pre-vote may change either way.

        Raises:
            ImpossibleValueError: The voter is none, or it refuses itself.
        """
        ensure(is_granted or voter != local, voter)
        return replace(self, tally=self.tally.with_vote(voter, is_granted=is_granted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """It has voted for itself in a new epoch, and asks for votes.

    Attributes: as of Prospective; `key` is its own, which is durable as its vote.
    """

    name: ClassVar[str] = "CANDIDATE"
    key: VoterKey
    epoch: QuorumEpoch
    high_watermark: Offset | None = None
    timer: Timer
    tally: Tally
    retries: int = 1

    def __post_init__(self) -> None:
        ensure(self.key.node_id in self.tally.granted, self)

    @property
    def election(self) -> ElectionState:
        """What is durable of it."""
        return ElectionState(self.epoch, None, self.key)

    def grants(self, candidate: VoterKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        """Return whether it grants a pre-vote; its vote is its own."""
        return is_pre_vote and grants_pre_vote(
            is_log_up_to_date=is_log_up_to_date, hears_leader=False
        )

    def with_vote(self, local: NodeId, voter: NodeId, *, is_granted: bool) -> "Candidate":
        """Return it with one vote more. A vote does not change.

        Raises:
            ImpossibleValueError: The voter is none, or had answered otherwise.
        """
        other = self.tally.rejected if is_granted else self.tally.granted
        ensure(voter not in other, (voter, local))
        return replace(self, tally=self.tally.with_vote(voter, is_granted=is_granted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """It leads its epoch; `state` is what it knows of its followers."""

    name: ClassVar[str] = "LEADER"
    state: LeaderState

    @property
    def epoch(self) -> QuorumEpoch:
        """Its epoch."""
        return self.state.epoch

    @property
    def high_watermark(self) -> Offset | None:
        """Of its own epoch: what was known before does not count."""
        return self.state.high_watermark

    @property
    def election(self) -> ElectionState:
        """What is durable of it."""
        return ElectionState(self.epoch, self.state.key.node_id)

    def grants(self, candidate: VoterKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        """Return False: there is a leader."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """It fetches from the leader of its epoch.

    Attributes:
        endpoints: How many addresses of the leader are known: more of them replace fewer.
        has_fetched: Whether a fetch from this leader has succeeded: it then hears one.
        timer: The fetch timeout.
    """

    name: ClassVar[str] = "FOLLOWER"
    epoch: QuorumEpoch
    leader_id: NodeId
    endpoints: int = 1
    voted_key: VoterKey | None = None
    high_watermark: Offset | None = None
    timer: Timer
    has_fetched: bool = False

    @property
    def election(self) -> ElectionState:
        """What is durable of it."""
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def grants(self, candidate: VoterKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        """Return whether it grants a pre-vote; its epoch has a leader, so it votes for nobody."""
        return is_pre_vote and grants_pre_vote(
            is_log_up_to_date=is_log_up_to_date, hears_leader=self.has_fetched
        )

    def with_high_watermark(self, high_watermark: Offset | None) -> "Follower":
        """Return it with the leader's high watermark, which never falls nor is forgotten.

        Raises:
            ImpossibleValueError: It would.
        """
        known = self.high_watermark
        ensure(known is None or high_watermark is not None, (known, high_watermark))
        ensure(known is None or (high_watermark or 0) >= known, (known, high_watermark))
        return replace(self, high_watermark=high_watermark)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resigned:
    """It has led this epoch and leads it no more: so it votes for nobody else in it.

    Attributes:
        key: Its own.
        unacknowledged: Voters that do not know yet that it resigned.
        preferred_successors: The voters that should stand first, best log first.
        timer: The election timeout.
    """

    name: ClassVar[str] = "RESIGNED"
    key: VoterKey
    epoch: QuorumEpoch
    unacknowledged: frozenset[NodeId] = frozenset()
    preferred_successors: tuple[NodeId, ...] = ()
    timer: Timer
    high_watermark: ClassVar[None] = None

    @property
    def election(self) -> ElectionState:
        """What is durable of it: it is named as the leader still."""
        return ElectionState(self.epoch, self.key.node_id)

    def grants(self, candidate: VoterKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        """Return whether it grants a pre-vote."""
        return is_pre_vote and grants_pre_vote(
            is_log_up_to_date=is_log_up_to_date, hears_leader=False
        )


EpochState = Unattached | Prospective | Candidate | Leader | Follower | Resigned
