"""Kinds of file 06 about a voter: whom it votes for, whether a candidate wins, whom it follows.

A voter is its table here, and what is asked of it is what a process decides on that table. A voter
of Kafka's that is unattached in the candidate's epoch is a table that has not seen this epoch.
"""

from dataclasses import replace
from typing import ClassVar

from kafka_on_spark.base.errors import (
    FencedLeaderEpochError,
    IllegalStateError,
    InconsistentClusterError,
)
from kafka_on_spark.metadata.quorum.description import VoterState, voter_state
from kafka_on_spark.metadata.quorum.raft import (
    Waiting,
    adopt,
    begin_leadership,
    decide_candidacy,
    decide_vote,
    has_majority,
    may_win,
    stand,
)
from kafka_on_spark.metadata.quorum.voter_table import (
    OffsetAndEpoch,
    VoterSet,
    VoterTable,
    is_log_up_to_date,
)
from tests.conformance.adapters.raft.words import key_of, log_up_to, short_log, standing, voters_of
from tests.conformance.applicability import read_rules
from tests.conformance.runner import Adapter, Answer, CutOffError, IllegalArgumentError

ANYBODY = "any-process-acts"
PROSPECTIVE = "prospective-writes-nothing"
REQUESTS = "no-requests"
RESIGNED = "leads-as-its-table-says"
TIMERS = "no-timers"
UNNAMED_EPOCH = "epochs-come-with-a-vote"
VOTES_STAY = "votes-stay-in-the-table"
# What Kafka's class tells of its timers and of the answers that its process has counted.
REMEMBERED = {
    "election_timer": TIMERS,
    "fetch_timer": TIMERS,
    "granting": REQUESTS,
    "rejecting": REQUESTS,
    "unrecorded": REQUESTS,
    "unacked": REQUESTS,
    "high_watermark": "no-high-watermark-of-a-voter",
}
NOBODY = key_of(99)
RECORDS = 2
KAFKA_STATES = {VoterState.VOTED: "UNATTACHED"}


def told(table, *, epoch, state=None):
    """Return a voter's table in the vectors' words, as of the quorum's `epoch`.

    `state`: the one that a vector gave, where no table shows it.
    """
    found = voter_state(table, epoch)
    leader, vote = table.leader, table.vote
    value = {
        "state": KAFKA_STATES.get(found, found.upper()),
        "epoch": table.quorum_epoch,
        "leader": None if leader is None else leader.node_id,
        "voted_for": None if vote is None else vote.node_id,
    }
    persisted = {
        "epoch": table.quorum_epoch,
        "leader": value["leader"],
        "voted_for": value["voted_for"],
    }
    value["persisted"] = {name: each for name, each in persisted.items() if each is not None}
    left_out = dict(REMEMBERED)
    if table.quorum_epoch != epoch:
        left_out |= dict.fromkeys(("epoch", "persisted"), UNNAMED_EPOCH)
    if state == "PROSPECTIVE":
        left_out["state"] = PROSPECTIVE
    if state == "RESIGNED":
        left_out["state"] = RESIGNED
    if state == "UNATTACHED" and leader is not None:
        left_out["state"] = REQUESTS  # it knows no address of the leader
    if table.leads:
        left_out |= dict.fromkeys(("voted_for", "persisted"), VOTES_STAY)
    if found is VoterState.OBSERVER:
        left_out["state"] = "observers-are-told-apart"
    return Answer(value, left_out)


def table_in(local, voters, *, state, epoch, voted_for=None, leader=None):
    key, vote, leader = key_of(local), key_of(voted_for), key_of(leader)
    log = short_log(RECORDS, voters_of(voters))
    if state in ("CANDIDATE", "LEADER", "RESIGNED"):
        found = standing(key, epoch, log)
        return found if state == "CANDIDATE" else replace(found, leaders=((key, epoch),))
    if vote is None and leader is None:
        return VoterTable(key, max(epoch - 1, 0), log=log)
    votes = () if vote is None else ((vote, epoch),)
    leaders = () if leader is None else ((leader, epoch),)
    return VoterTable(key, epoch, votes, leaders, log)


class QuorumInit(Adapter):
    """Kafka's restart from its quorum-state file: which state a table shows."""

    def __init__(self, local, voters, persisted, log_end):
        self.local, self.voters, self.persisted = local, voters, persisted
        self.log_end = OffsetAndEpoch(*log_end)
        self.found = Answer({})

    def op_initialize(self):
        given = self.persisted or {"epoch": 0}
        if "error" in given or given["epoch"] < self.log_end.epoch:
            raise CutOffError("votes-are-with-the-log")
        leader, vote = given.get("leader"), given.get("voted_for")
        if self.local not in self.voters:
            raise CutOffError("observers-are-told-apart")
        if leader == self.local:
            raise CutOffError(RESIGNED)
        if leader is not None and leader not in self.voters:
            raise CutOffError(REQUESTS)  # its address is not known
        epoch = given["epoch"]
        table = VoterTable(
            key_of(self.local),
            epoch,
            () if vote is None else ((key_of(vote), epoch),),
            () if leader is None else ((key_of(leader), epoch),),
            log_up_to(*self.log_end, voters_of(self.voters)),
        )
        self.found = told(table, epoch=epoch)

    def expected(self):
        return self.found


class VoteGrants(Adapter):
    """Whom a voter grants its vote."""

    @classmethod
    def for_setup(cls, setup):
        return LogGrants if "local_log" in setup else VotersGrants

    @classmethod
    def sorts(cls):
        return (VotersGrants, LogGrants)


class VotersGrants(VoteGrants):
    """By its table."""

    def __init__(self, local, voters, state, epoch, voted_for=None, leader=None):
        if local not in voters:
            raise CutOffError("observers-are-told-apart")
        self.state, self.epoch = state, epoch
        self.voters = voters_of(voters)
        self.table = table_in(
            local, voters, state=state, epoch=epoch, voted_for=voted_for, leader=leader
        )

    def op_can_grant_vote(self, candidate, log_up_to_date, pre_vote=False):
        vote = self.table.vote
        if vote is not None and vote.directory_id is None:
            return Answer(left_out={"": "a-directory-each"})
        return would_grant(
            self.table, key_of(candidate), self.epoch, self.state, log_up_to_date, pre_vote
        )

    def expected(self):
        return told(self.table, epoch=self.epoch, state=self.state)


def would_grant(table, candidate, epoch, state, is_up_to_date, is_pre_vote):
    """Ask for a vote in `epoch`, or whether the voter hears of no leader (a pre-vote)."""
    if candidate.node_id == table.key.node_id:
        return Answer(left_out={"": REQUESTS})  # nobody asks itself
    voters = table.log.voters
    if not is_pre_vote:
        log = short_log(RECORDS if is_up_to_date else RECORDS - 1, voters)
        return decide_vote(table, standing(candidate, epoch, log)).is_granted
    if state == "LEADER":
        return Answer(left_out={"": ANYBODY})  # whose root fails: who waits is not answered by it
    log = short_log(RECORDS + 1 if is_up_to_date else RECORDS - 1, voters)
    asking = VoterTable(candidate, table.quorum_epoch, log=log)
    two = VoterSet.of([replace(voters.voters[0], key=each) for each in (table.key, candidate)])
    waiting = Waiting(0, epoch, {table.key: table.log.end_offset})
    chosen = decide_candidacy(two, {table.key: table, candidate: asking}, waiting)
    return chosen is not None and chosen.key == candidate


class LogGrants(VoteGrants):
    """By its log."""

    def __init__(self, local_log):
        log = local_log
        if not isinstance(log, dict):
            log = dict(zip(("last_epoch", "end_offset"), log, strict=True))
        self.end = OffsetAndEpoch(log["end_offset"], log["last_epoch"])

    def op_log_up_to_date(self, last_epoch, end_offset):
        return is_log_up_to_date(OffsetAndEpoch(end_offset, last_epoch), self.end)


class Electorate:
    """A candidate, and the tables of all voters, its own among them."""

    def __init__(self, candidate, voters):
        self.candidate = candidate
        log, before = candidate.log, candidate.quorum_epoch - 1
        self.tables = {each: VoterTable(each, before, log=log) for each in voters.keys}
        self.tables[candidate.key] = candidate

    def record(self, voter, granted):
        """Have a voter vote, for the candidate or for another; return whether it had not before."""
        key = key_of(voter)
        if key not in self.tables:
            return Answer(left_out={"": REQUESTS})  # no table that counts
        table, epoch = self.tables[key], self.candidate.quorum_epoch
        other = standing(NOBODY, epoch, self.candidate.log)
        decision = decide_vote(table, self.candidate if granted else other)
        if not decision.is_granted:
            raise IllegalArgumentError
        if decision.change is None:
            return False
        self.tables[key] = table.apply(decision.change)
        return True

    @property
    def votes(self):
        epoch, key = self.candidate.quorum_epoch, self.candidate.key
        found = self.tables.values()
        return [each.key for each in found if each.quorum_epoch == epoch and each.vote == key]

    @property
    def is_granted(self):
        return has_majority(self.candidate, self.votes)

    @property
    def is_rejected(self):
        return not may_win(self.candidate, list(self.tables.values()))

    @property
    def unrecorded(self):
        epoch = self.candidate.quorum_epoch
        return [key.node_id for key, each in self.tables.items() if each.quorum_epoch < epoch]


class CandidateVotes(Adapter):
    """A candidate whose votes are counted."""

    def __init__(self, local, voters, epoch):
        self.is_voter = local in voters
        found = voters_of(voters)
        self.all = Electorate(standing(key_of(local), epoch, short_log(RECORDS, found)), found)

    def op_construct(self):
        return Answer(left_out={"": ANYBODY, "error": ANYBODY})

    def op_record_vote(self, voter, granted):
        return self.all.record(voter, granted)

    def op_status(self):
        return {
            "granted": self.all.is_granted,
            "rejected": self.all.is_rejected,
            "unrecorded": sorted(self.all.unrecorded),
        }

    def expected(self):
        return self.op_status() if self.is_voter else {}


class Quorum(Adapter):
    """A voter, and the commits that are made on its table.

    What a vector does to a process in between, no commit does: there a vector ends for us.
    """

    CUT_OFF: ClassVar = {
        "to_unattached": UNNAMED_EPOCH,
        "to_prospective": PROSPECTIVE,
        "to_resigned": RESIGNED,
        "sleep": TIMERS,
    }

    stands_from = frozenset({"PROSPECTIVE"})

    def __init__(self, local, voters, start):
        if local not in voters:
            raise CutOffError("observers-are-told-apart")
        given = dict(start)
        granting, rejecting = given.pop("granting", ()), given.pop("rejecting", ())
        given.pop("high_watermark", None)
        self.state, self.epoch = given["state"], given["epoch"]
        self.voters = voters_of(voters)
        self.all = None
        self._become(table_in(local, voters, **given), self.state)
        for granted, nodes in ((True, granting), (False, rejecting)):
            for node in nodes:
                if node != local:
                    self.all.record(node, granted)

    @classmethod
    def for_vector(cls, vector):
        return QuorumBeforePreVote if "pre-KIP-996" in vector.tags else cls

    @classmethod
    def sorts(cls):
        return (cls, QuorumBeforePreVote)

    def _become(self, table, state):
        self.table, self.state = table, state
        self.epoch = max(self.epoch, table.quorum_epoch)
        self.all = Electorate(table, self.voters) if table.is_candidate else None

    def _answer(self):
        return told(self.table, epoch=self.epoch, state=self.state)

    def op_to_candidate(self):
        if self.state not in self.stands_from:
            raise CutOffError(ANYBODY)
        self._become(self.table.apply(stand(self.table, self.epoch + 1)), "CANDIDATE")
        return self._answer()

    def op_to_leader(self, epoch_start_offset):
        votes = () if self.all is None else self.all.votes
        self._become(self.table.apply(begin_leadership(self.table, votes, "no-op")), "LEADER")
        return self._answer()

    def op_to_follower(self, epoch, leader, more_endpoints=False):
        key = key_of(leader)
        if key == self.table.key or more_endpoints:
            raise CutOffError(REQUESTS)
        if epoch == 0:
            raise CutOffError(UNNAMED_EPOCH)  # before the first election
        if self.state == "RESIGNED" and epoch == self.epoch:
            raise CutOffError(RESIGNED)
        log = short_log(RECORDS, self.voters)
        led = replace(standing(key, epoch, log), leaders=((key, epoch),))
        try:
            change = adopt(self.table, led)
        except (FencedLeaderEpochError, InconsistentClusterError) as error:
            raise IllegalStateError("refused") from error
        if change is None:  # it follows already: nothing is committed, where Kafka refuses
            return Answer(left_out={"": ANYBODY})
        self._become(self.table.apply(change), "FOLLOWER")
        return self._answer()

    def op_to_voted(self, epoch, candidate):
        return self._vote(epoch, key_of(candidate))

    def op_add_vote(self, epoch, candidate):
        return self._vote(epoch, key_of(candidate), is_in_its_epoch=True)

    def op_add_vote_as_unattached(self, epoch, candidate):
        return self.op_add_vote(epoch, candidate)

    def _vote(self, epoch, key, *, is_in_its_epoch=False):
        if key == self.table.key:
            raise CutOffError(REQUESTS)
        if epoch == 0 or (is_in_its_epoch and epoch > self.epoch):
            raise CutOffError(UNNAMED_EPOCH)
        decision = decide_vote(self.table, standing(key, epoch, self.table.log))
        if not decision.is_granted:
            raise IllegalStateError("refused")
        if decision.change is None:  # it has voted so: nothing is committed, where Kafka refuses
            return Answer(left_out={"": ANYBODY})
        self._become(self.table.apply(decision.change), "UNATTACHED")
        return self._answer()

    def op_record_vote(self, voter, granted):
        if self.all is None:
            raise CutOffError(PROSPECTIVE)
        return self.all.record(voter, granted)

    def op_has_remote_leader(self):
        return self.table.leader is not None and not self.table.leads

    def op_can_grant_vote(self, candidate, log_up_to_date, pre_vote=False):
        return would_grant(
            self.table, key_of(candidate), self.epoch, self.state, log_up_to_date, pre_vote
        )

    def expected(self):
        return self._answer()


class QuorumBeforePreVote(Quorum):
    """A voter of a Kafka without pre-votes: it stands from any state in which it does not lead."""

    stands_from = frozenset({"UNATTACHED", "VOTED", "CANDIDATE", "FOLLOWER", "RESIGNED"})


class RaftClient(Adapter):
    """A client of Kafka's. What a voter answers a candidate is asked of its table."""

    @classmethod
    def for_vector(cls, vector):
        is_whole = "persisted" not in vector.setup or any(map(_is_of_a_client, vector.steps))
        return WholeClient if is_whole else AskedForVotes

    @classmethod
    def sorts(cls):
        return (AskedForVotes, WholeClient)


OF_CLIENTS = {op for kind, op in read_rules().ops if kind == "raft_client"}


def _is_of_a_client(step):
    """Return whether a step does not ask for a vote, or by a request that is wrong in itself."""
    if step["op"] in OF_CLIENTS or {"voter", "cluster_id"} & step.keys():
        return True
    is_vote = step["op"] == "vote_request"
    return is_vote and not (
        0 <= step["last_epoch"] < step["candidate_epoch"] and step["last_offset"] >= 0
    )


class WholeClient(RaftClient):
    """One that sends and answers requests, and waits."""

    def __init__(
        self,
        voters=None,
        local=None,
        persisted=None,
        state=None,
        epoch=None,
        log_end_offset=0,
        log=None,
        max_backoff_ms=None,
    ):
        raise CutOffError(REQUESTS)


class AskedForVotes(RaftClient):
    """One that has begun with what its quorum-state file says, and an empty log."""

    def __init__(self, voters, local, persisted):
        leader, vote = persisted.get("leader"), persisted.get("voted_for")
        is_own = local in (leader, vote)
        state = ("LEADER" if leader == local else "CANDIDATE") if is_own else "UNATTACHED"
        found = {} if is_own else {"leader": leader, "voted_for": vote}
        self.epoch, self.state = persisted["epoch"], state
        table = table_in(local, voters, state=state, epoch=self.epoch, **found)
        self.table = replace(table, log=short_log(0, voters_of(voters)))

    def op_vote_request(
        self, candidate_epoch, candidate, last_epoch, last_offset, voter=None, cluster_id=None
    ):
        log = log_up_to(last_offset, last_epoch)
        decision = decide_vote(self.table, standing(key_of(candidate), candidate_epoch, log))
        if decision.change is not None:
            self.table = self.table.apply(decision.change)
        is_old = candidate_epoch < self.epoch
        self.epoch = max(self.epoch, candidate_epoch)
        answer = self.expected()
        answer.value["granted"] = decision.is_granted
        if is_old:
            answer.left_out["error"] = REQUESTS
        return answer

    def expected(self):
        return told(self.table, epoch=self.epoch, state=self.state)
