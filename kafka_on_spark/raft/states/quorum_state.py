"""One voter's quorum state and its transitions: Kafka's, in Kafka's order of checks.

A transition returns the state after it; what of it is durable is `election`. One that Raft does not
have is refused with IllegalStateError and changes nothing. Source: QuorumState (4.1).
"""

from dataclasses import dataclass, replace
from typing import NoReturn

from kafka_on_spark.errors import IllegalStateError, ensure
from kafka_on_spark.ids import NodeId, Offset, QuorumEpoch
from kafka_on_spark.raft.log.raft_log import OffsetAndEpoch
from kafka_on_spark.raft.states.election_state import ElectionState
from kafka_on_spark.raft.states.epoch_states import (
    Candidate,
    EpochState,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from kafka_on_spark.raft.states.leader_state import leading
from kafka_on_spark.raft.states.tally import Tally
from kafka_on_spark.raft.states.timing import NEVER, Moment, Timer
from kafka_on_spark.raft.voter_set import VoterKey, VoterSet


@dataclass(frozen=True, slots=True)
class QuorumState:
    """One voter's, or observer's, state.

    Attributes:
        key: Its own; None: it has no id, and can only watch.
        voters: The newest set of voters that it knows.
        state: The state it is in.
    """

    key: VoterKey | None
    voters: VoterSet
    state: EpochState

    @property
    def epoch(self) -> QuorumEpoch:
        """The epoch it is in."""
        return self.state.epoch

    @property
    def election(self) -> ElectionState:
        """What is durable of it."""
        return self.state.election

    @property
    def is_voter(self) -> bool:
        """Whether it is in the set of voters; else it is an observer."""
        return self.key is not None and self.voters.is_voter(self.key)

    @property
    def has_remote_leader(self) -> bool:
        """Whether it knows a leader of its epoch, other than itself."""
        leader = self.election.leader_id
        return leader is not None and (self.key is None or leader != self.key.node_id)

    def can_grant_vote(
        self, candidate: VoterKey, *, is_log_up_to_date: bool, is_pre_vote: bool
    ) -> bool:
        """Return whether `candidate` gets its vote, or pre-vote, of this epoch."""
        return self.state.grants(
            candidate, is_log_up_to_date=is_log_up_to_date, is_pre_vote=is_pre_vote
        )

    def become_unattached(
        self, epoch: QuorumEpoch, leader_id: NodeId | None, moment: Moment
    ) -> "QuorumState":
        """Return it without a leader to follow, in a later epoch, or in its own after a lost
        pre-vote, where a vote that it gave stays given.

        Raises:
            IllegalStateError: The epoch is older, or is its own and it did not ask for pre-votes.
        """
        same = epoch == self.epoch
        if epoch < self.epoch or (same and not isinstance(self.state, Prospective)):
            self._refuse("unattached", epoch)
        state = Unattached(
            epoch=epoch,
            leader_id=leader_id,
            voted_key=self.election.voted_key if same else None,
            high_watermark=self.state.high_watermark,
            timer=self._unattached_timer(moment),
        )
        return replace(self, state=state)

    def _unattached_timer(self, moment: Moment) -> Timer:
        """Return the election timer: the one that runs goes on, so that nobody is kept from
        standing by the epochs of others."""
        if not self.is_voter:
            return NEVER
        match self.state:
            case Candidate() | Unattached() | Resigned():
                return self.state.timer
            case Prospective() if not self.state.tally.is_rejected:
                return self.state.timer
        return moment.election_timer()

    def with_vote_for(
        self, epoch: QuorumEpoch, candidate: VoterKey, moment: Moment
    ) -> "QuorumState":
        """Return it with a vote for another voter in its own epoch: it waits anew for its time to
        stand, since the other has as good a chance.

        Raises:
            IllegalStateError: It has voted, is neither unattached nor prospective, the epoch is not
                its own, the candidate is itself, or it has no id.
        """
        if self.key is None or candidate.node_id == self.key.node_id or epoch != self.epoch:
            self._refuse(f"one with a vote for {candidate}", epoch)
        state, timer = self.state, moment.election_timer()
        if not isinstance(state, Unattached | Prospective) or state.voted_key is not None:
            self._refuse(f"one with a vote for {candidate}", epoch)
        if isinstance(state, Prospective):
            tally = own_vote(self.key, self.voters)
            return replace(
                self, state=replace(state, voted_key=candidate, timer=timer, tally=tally)
            )
        return replace(self, state=replace(state, voted_key=candidate, timer=timer))

    def become_follower(
        self, epoch: QuorumEpoch, leader_id: NodeId, moment: Moment, *, endpoints: int = 1
    ) -> "QuorumState":
        """Return it following the leader of `epoch`; `endpoints`: how many addresses are known.

        Raises:
            IllegalStateError: The epoch is older, the leader is itself, or its epoch has a leader
                already, of which as many addresses are known.
        """
        is_itself = self.key is not None and leader_id == self.key.node_id
        same = epoch == self.epoch
        if is_itself or epoch < self.epoch or (same and self._keeps_leader(endpoints)):
            self._refuse(f"a follower of {leader_id}", epoch)
        state = Follower(
            epoch=epoch,
            leader_id=leader_id,
            endpoints=endpoints,
            # Else it could vote twice in one epoch.
            voted_key=self.election.voted_key if same else None,
            high_watermark=self.state.high_watermark,
            timer=moment.fetch_timer(),
        )
        return replace(self, state=state)

    def _keeps_leader(self, endpoints: int) -> bool:
        if isinstance(self.state, Follower):
            return self.state.endpoints >= endpoints
        return isinstance(self.state, Leader)

    def become_prospective(self, moment: Moment) -> "QuorumState":
        """Return it asking for pre-votes, in the same epoch, with the leader and the vote that it
        knows.

        Raises:
            IllegalStateError: It is no voter, leads, or asks already.
        """
        key, state = self.key, self.state
        if key is None or not self.is_voter or isinstance(state, Leader | Prospective):
            self._refuse("prospective", self.epoch)
        return replace(
            self,
            state=Prospective(
                epoch=self.epoch,
                leader_id=self.election.leader_id,
                voted_key=self.election.voted_key,
                high_watermark=state.high_watermark,
                timer=moment.election_timer(),
                tally=own_vote(key, self.voters),
                retries=state.retries + 1 if isinstance(state, Candidate) else 1,
            ),
        )

    def become_candidate(self, moment: Moment) -> "QuorumState":
        """Return it standing in the next epoch, with its own vote.

        Raises:
            IllegalStateError: It is no voter, or has not asked for pre-votes.
        """
        key, state = self.key, self.state
        if key is None or not self.is_voter or not isinstance(state, Prospective):
            self._refuse("a candidate", self.epoch)
        return replace(
            self,
            state=Candidate(
                key=key,
                epoch=QuorumEpoch(self.epoch + 1),
                high_watermark=state.high_watermark,
                timer=moment.election_timer(),
                tally=own_vote(key, self.voters),
                retries=state.retries,
            ),
        )

    def become_leader(self, epoch_start_offset: Offset, moment: Moment) -> "QuorumState":
        """Return it leading its epoch, whose no-op begins at `epoch_start_offset`.

        The high watermark that it knew is forgotten: a majority must have reached the epoch's start
        before anything counts as committed (Raft §5.4.2).

        Raises:
            IllegalStateError: It is no candidate with a majority of votes, or no voter.
        """
        key, state = self.key, self.state
        if key is None or not self.is_voter or not isinstance(state, Candidate):
            self._refuse("a leader", self.epoch)
        if not state.tally.is_granted:
            self._refuse("a leader without a majority of votes", self.epoch)
        led = leading(key, state.epoch, epoch_start_offset, self.voters, moment)
        return replace(self, state=Leader(state=led))

    def become_resigned(self, successors: tuple[NodeId, ...], moment: Moment) -> "QuorumState":
        """Return it without its leadership; `successors` should stand first.

        Raises:
            IllegalStateError: It does not lead.
        """
        key = self.key
        if key is None or not isinstance(self.state, Leader):
            self._refuse("resigned", self.epoch)
        return replace(
            self, state=_resigned(key, self.epoch, self.voters, moment, successors=successors)
        )

    def with_answer(self, voter: NodeId, *, is_granted: bool) -> "QuorumState":
        """Return it with the answer of a voter that it asked for its vote, or pre-vote.

        Raises:
            IllegalStateError: It has not asked.
            ImpossibleValueError: The voter is none, or takes its vote back.
        """
        if self.key is None or not isinstance(self.state, Prospective | Candidate):
            self._refuse("one that counts votes", self.epoch)
        state = self.state.with_vote(self.key.node_id, voter, is_granted=is_granted)
        return replace(self, state=state)

    def _refuse(self, what: str, epoch: QuorumEpoch) -> NoReturn:
        raise IllegalStateError(
            f"a voter that is {self.state.name.lower()} in epoch {self.epoch} can't become {what}"
            f" in epoch {epoch}: read its table again"
        )


def own_vote(key: VoterKey, voters: VoterSet) -> Tally:
    """Return a tally that begins with the vote of `key` for itself.

    Raises:
        ImpossibleValueError: It is no voter.
    """
    ensure(voters.is_voter(key), key)
    ids = frozenset(each.node_id for each in voters.keys)
    return Tally(ids, granted=frozenset({key.node_id}))


def initial_state(
    key: VoterKey | None,
    voters: VoterSet,
    election: ElectionState,
    log_end: OffsetAndEpoch,
    moment: Moment,
) -> QuorumState:
    """Return the state of a voter as its table has it: Kafka's after a restart.

    Who led is resigned, so that it votes for nobody else in that epoch. Who stood is a candidate
    still. A log of a later epoch outdates the election state. Source: QuorumState.initialize.

    Raises:
        IllegalStateError: A vote is recorded, and there is no id that gave it.
        ImpossibleValueError: It has voted for itself, and is no voter.
    """
    if key is None and election.voted_key is not None:
        raise IllegalStateError(
            "a vote is recorded for a voter that has no id: read its table again"
        )
    if election.epoch < log_end.epoch:
        election = ElectionState(log_end.epoch)
    return QuorumState(key, voters, _initial(key, voters, election, moment))


def _initial(
    key: VoterKey | None, voters: VoterSet, election: ElectionState, moment: Moment
) -> EpochState:
    if key is not None and election.is_leader(key):
        return _resigned(key, election.epoch, voters, moment)
    if key is not None and election.is_voted_candidate(key):
        return Candidate(
            key=key,
            epoch=election.epoch,
            timer=moment.election_timer(),
            tally=own_vote(key, voters),
        )
    if election.leader_id is not None and voters.voter_of(election.leader_id) is not None:
        return Follower(
            epoch=election.epoch,
            leader_id=election.leader_id,
            voted_key=election.voted_key,
            timer=moment.fetch_timer(),
        )
    return Unattached(
        epoch=election.epoch,
        leader_id=election.leader_id,
        voted_key=election.voted_key,
        timer=moment.election_timer(),
    )


def _resigned(
    key: VoterKey,
    epoch: QuorumEpoch,
    voters: VoterSet,
    moment: Moment,
    *,
    successors: tuple[NodeId, ...] = (),
) -> Resigned:
    others = frozenset(each.node_id for each in voters.keys) - {key.node_id}
    return Resigned(
        key=key,
        epoch=epoch,
        unacknowledged=others,
        preferred_successors=successors,
        timer=moment.election_timer(),
    )
