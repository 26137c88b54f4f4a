"""Kinds of file 06 about one voter's state: restarts, transitions, votes."""

from dataclasses import replace

from kafka_on_spark.raft.log.lookups import is_log_up_to_date
from kafka_on_spark.raft.log.raft_log import OffsetAndEpoch
from kafka_on_spark.raft.states.election_state import ElectionState
from kafka_on_spark.raft.states.epoch_states import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from kafka_on_spark.raft.states.leader_state import leading
from kafka_on_spark.raft.states.quorum_state import QuorumState, initial_state, own_vote
from kafka_on_spark.raft.states.timing import NEVER
from tests.conformance.adapters.raft.words import FETCH_MS, Times, key_of, voters_of
from tests.conformance.runner import Adapter, CutOffError, IllegalArgumentError, kafka_names


def started(local, voters, times, *, state, epoch, voted_for=None, leader=None, **rest):
    """Return a voter in a state that a vector starts from."""
    key, voters, moment = key_of(local), voters_of(voters), times.moment()
    named = {"epoch": epoch, "high_watermark": rest.pop("high_watermark", None)}
    answers = dict.fromkeys(rest.pop("granting", []), True)
    answers |= dict.fromkeys(rest.pop("rejecting", []), False)
    assert not rest, rest
    # Of an observer, too: a restart draws one.
    named["timer"] = moment.election_timer()
    vote = key_of(voted_for)
    if state == "UNATTACHED":
        found = Unattached(leader_id=leader, voted_key=vote, **named)
    elif state == "PROSPECTIVE":
        tally = answered(own_vote(key, voters), answers)
        found = Prospective(leader_id=leader, voted_key=vote, tally=tally, **named)
    elif state == "CANDIDATE":
        tally = answered(own_vote(key, voters), answers)
        found = Candidate(key=key, tally=tally, **named)
    elif state == "FOLLOWER":
        found = Follower(
            leader_id=leader, voted_key=vote, **named | {"timer": moment.fetch_timer()}
        )
    elif state == "LEADER":
        found = Leader(state=leading(key, epoch, 0, voters, moment))
    elif state == "RESIGNED":
        others = frozenset(each.node_id for each in voters.keys) - {local}
        found = Resigned(key=key, epoch=epoch, unacknowledged=others, timer=named["timer"])
    else:
        raise ValueError(state)
    return QuorumState(key, voters, found)


def answered(tally, answers):
    for voter, granted in answers.items():
        tally = tally.with_vote(voter, is_granted=granted)
    return tally


def told(quorum, times, before=None):
    """Return a state in the vectors' words; `before`: what it was before the step."""
    state, election = quorum.state, quorum.election
    vote = election.voted_key
    persisted = {"epoch": election.epoch}
    if election.leader_id is not None:
        persisted["leader"] = election.leader_id
    if vote is not None:
        persisted["voted_for"] = vote.node_id
    found = {
        "state": state.name,
        "epoch": state.epoch,
        "leader": election.leader_id,
        "voted_for": None if vote is None else vote.node_id,
        "high_watermark": state.high_watermark,
        "persisted": persisted,
    }
    if hasattr(state, "tally"):
        found |= {
            "granting": sorted(state.tally.granted),
            "rejecting": sorted(state.tally.rejected),
            "unrecorded": sorted(state.tally.unrecorded),
        }
    if isinstance(state, Follower):
        is_fresh = state.timer.remaining_ms(times.now_ms) == FETCH_MS
        found["fetch_timer"] = "fresh" if is_fresh else "kept"
    elif not isinstance(state, Leader):
        found["election_timer"] = election_timer(state, times, before)
    if isinstance(state, Resigned):
        found["unacked"] = sorted(state.unacknowledged)
    return found


def election_timer(state, times, before):
    if state.timer == NEVER:
        return "infinite"
    if before is not None and getattr(before.state, "timer", None) == state.timer:
        return "kept"
    return "fresh"


class QuorumInit(Adapter):
    """Kafka's restart from its quorum-state file."""

    def __init__(self, local, voters, persisted, log_end):
        self.local, self.voters = local, voters
        self.persisted, self.log_end = persisted, log_end
        self.times = Times()
        self.found = {}

    def op_initialize(self):
        given = self.persisted or {"epoch": 0}
        if "error" in given:
            raise CutOffError("votes-are-with-the-log")
        vote = given.get("voted_for")
        election = ElectionState(given["epoch"], given.get("leader"), key_of(vote))
        try:
            quorum = initial_state(
                key_of(self.local),
                voters_of(self.voters),
                election,
                OffsetAndEpoch(*self.log_end),
                self.times.moment(),
            )
            self.found = told(quorum, self.times)
        except AssertionError:
            self.found = {"error": "ILLEGAL_ARGUMENT"}
        except Exception as error:
            self.found = {"error": kafka_names(error)}

    def expected(self):
        return self.found


class Quorum(Adapter):
    """A voter, and what is done to it."""

    def __init__(self, local, voters, start):
        self.times = Times()
        self.quorum = self.before = started(local, voters, self.times, **start)
        self.slept_ms = 0
        self.reduced_ms = None

    @classmethod
    def for_vector(cls, vector):
        if vector.kind == "quorum_transition" and "pre-KIP-996" in vector.tags:
            return QuorumBeforePreVote
        return cls

    @classmethod
    def sorts(cls):
        return (cls, QuorumBeforePreVote)

    def _become(self, transition):
        """Take a transition; a refused one leaves everything, and no timer is fresh by it."""
        self.before, since_ms = self.quorum, self.times.now_ms - self.slept_ms
        self.quorum = transition(self.quorum, self.times.moment())
        self.reduced_ms, self.slept_ms = self._reduced_ms(since_ms), 0
        return told(self.quorum, self.times, self.before)

    def _reduced_ms(self, since_ms):
        """Return how much less is left of the timer than was before the last sleeps."""
        before, after = (getattr(each.state, "timer", None) for each in (self.before, self.quorum))
        if None in (before, after) or NEVER in (before, after):
            return None
        return before.remaining_ms(since_ms) - after.remaining_ms(self.times.now_ms)

    def resolve(self, expectation):
        """A timer that is "kept (remaining reduced by 1000)" is kept, and has that much less."""
        if expectation == f"kept (remaining reduced by {self.reduced_ms})":
            return "kept"
        return expectation

    def op_to_unattached(self, epoch, leader=None):
        return self._become(lambda quorum, now: quorum.become_unattached(epoch, leader, now))

    def op_to_follower(self, epoch, leader, more_endpoints=False):
        count = 2 if more_endpoints else 1
        return self._become(
            lambda quorum, now: quorum.become_follower(epoch, leader, now, endpoints=count)
        )

    def op_to_prospective(self):
        return self._become(lambda quorum, now: quorum.become_prospective(now))

    def op_to_candidate(self):
        return self._become(lambda quorum, now: quorum.become_candidate(now))

    def op_to_leader(self, epoch_start_offset):
        return self._become(lambda quorum, now: quorum.become_leader(epoch_start_offset, now))

    def op_to_resigned(self):
        return self._become(lambda quorum, now: quorum.become_resigned((), now))

    def op_to_voted(self, epoch, candidate):
        """Kafka 3's Voted: unattached in that epoch, with the vote."""

        def voted(quorum, now):
            if epoch > quorum.epoch:
                quorum = quorum.become_unattached(epoch, None, now)
            return quorum.with_vote_for(epoch, key_of(candidate), now)

        return self._become(voted)

    def op_add_vote(self, epoch, candidate):
        return self._become(lambda quorum, now: quorum.with_vote_for(epoch, key_of(candidate), now))

    def op_add_vote_as_unattached(self, epoch, candidate):
        """Kafka's operation for an unattached voter alone; ours is one for both states."""
        if isinstance(self.quorum.state, Unattached):
            return self.op_add_vote(epoch, candidate)
        return {"error": "ILLEGAL_STATE"}

    def op_record_vote(self, voter, granted):
        before = self.quorum
        try:
            self._become(lambda quorum, now: quorum.with_answer(voter, is_granted=granted))
        except AssertionError as error:
            raise IllegalArgumentError from error
        return voter in before.state.tally.unrecorded

    def op_has_remote_leader(self):
        self.before = self.quorum
        return self.quorum.has_remote_leader

    def op_can_grant_vote(self, candidate, log_up_to_date, pre_vote=False):
        self.before = self.quorum
        return self.quorum.can_grant_vote(
            key_of(candidate), is_log_up_to_date=log_up_to_date, is_pre_vote=pre_vote
        )

    def op_sleep(self, ms):
        self.times.now_ms += ms
        self.slept_ms += ms
        self.before = self.quorum

    def expected(self):
        return told(self.quorum, self.times, self.before)


class QuorumBeforePreVote(Quorum):
    """A voter of a Kafka without pre-votes: it stands as if it had been told that it would win."""

    def op_to_candidate(self):
        def stood(quorum, now):
            if not isinstance(quorum.state, Prospective):
                quorum = quorum.become_prospective(now)
            return quorum.become_candidate(now)

        return self._become(stood)


class VoteGrants(Adapter):
    """Whom a voter grants its vote."""

    @classmethod
    def for_setup(cls, setup):
        return LogGrants if "local_log" in setup else VotersGrants

    @classmethod
    def sorts(cls):
        return (VotersGrants, LogGrants)


class VotersGrants(VoteGrants):
    """By its state."""

    def __init__(self, local, voters, state, epoch, voted_for=None, leader=None):
        self.times = Times()
        named = {"state": state, "epoch": epoch, "voted_for": voted_for, "leader": leader}
        self.quorum = started(local, voters, self.times, **named)

    def op_can_grant_vote(self, candidate, log_up_to_date, pre_vote=False):
        return self.quorum.can_grant_vote(
            key_of(candidate), is_log_up_to_date=log_up_to_date, is_pre_vote=pre_vote
        )

    def expected(self):
        return told(self.quorum, self.times, self.quorum)


class LogGrants(VoteGrants):
    """By its log."""

    def __init__(self, local_log):
        self.log = local_log

    def op_log_up_to_date(self, last_epoch, end_offset):
        mine = self.log
        end = (
            mine
            if isinstance(mine, dict)
            else dict(zip(("last_epoch", "end_offset"), mine, strict=True))
        )
        return is_log_up_to_date(
            OffsetAndEpoch(end_offset, last_epoch),
            OffsetAndEpoch(end["end_offset"], end["last_epoch"]),
        )


class CandidateVotes(Adapter):
    """A candidate that counts its votes."""

    def __init__(self, local, voters, epoch):
        self.local, self.voters, self.epoch = local, voters, epoch
        self.candidate = None
        if local in voters:
            self.candidate = started(local, voters, Times(), state="CANDIDATE", epoch=epoch)

    def op_construct(self):
        try:
            started(self.local, self.voters, Times(), state="CANDIDATE", epoch=self.epoch)
        except AssertionError as error:
            raise IllegalArgumentError from error

    def op_record_vote(self, voter, granted):
        was_unrecorded = voter in self.candidate.state.tally.unrecorded
        try:
            self.candidate = self.candidate.with_answer(voter, is_granted=granted)
        except AssertionError as error:
            raise IllegalArgumentError from error
        return was_unrecorded

    def op_status(self):
        tally = self.candidate.state.tally
        return {
            "granted": tally.is_granted,
            "rejected": tally.is_rejected,
            "unrecorded": sorted(tally.unrecorded),
        }

    def expected(self):
        return self.op_status() if self.candidate is not None else {}


class FollowerHighWatermark(Adapter):
    """A follower's high watermark."""

    def __init__(self):
        named = {"state": "FOLLOWER", "epoch": 1, "leader": 1}
        self.quorum = started(0, [0, 1], Times(), **named)

    def op_update_hw(self, value):
        before = self.quorum.state
        try:
            after = before.with_high_watermark(value)
        except AssertionError as error:
            raise IllegalArgumentError from error
        self.quorum = replace(self.quorum, state=after)
        # Kafka's answer to a first update to nothing is that it is one.
        return {"updated": value is None or after != before}

    def expected(self):
        return {"high_watermark": self.quorum.state.high_watermark}
