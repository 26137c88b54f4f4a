"""Elections: when one is due, who stands in which epoch, who votes for it, and how it leads.

A process that can't use the leader's root asks before it disturbs anybody (pre-vote, KIP-996): a
majority of voters must be readable, and none of them have taken a batch of this leader since it
began to wait. Any process may hold an election, for any voter, and end one that another began:
votes name voters and not processes. So processes that wait for the same leader elect together; each
with an epoch of its own, they would undo each other's elections.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import IllegalStateError, QuorumUnavailableError
from kafka_on_spark.base.ids import Offset, QuorumEpoch
from kafka_on_spark.metadata.quorum.generations import check_generation, generation_of
from kafka_on_spark.metadata.quorum.raft_log import BatchKind, RaftBatch, is_log_up_to_date
from kafka_on_spark.metadata.quorum.voter_set import VoterKey, VoterSet
from kafka_on_spark.metadata.quorum.voter_table import TableChange, VoterTable, best_log


@dataclass(frozen=True, slots=True)
class VoteDecision:
    """What a voter answers a candidate.

    Attributes:
        is_granted: Whether the candidate has its vote, once `change` is committed.
        change: What says so in the voter's table; None: it stands there, or there is none.
    """

    is_granted: bool
    change: TableChange | None = None


def stand(table: VoterTable, epoch: QuorumEpoch) -> TableChange:
    """Return a candidacy's first commit, on the candidate's own table: the epoch, and the vote for
    itself. It ends the candidate's log until it leads or follows.

    Raises:
        IllegalStateError: The voter has seen that epoch.
        InconsistentClusterError: It is an epoch of a later generation of the cluster than the
            voter's, which was given up.
    """
    if epoch <= table.quorum_epoch:
        raise IllegalStateError(
            f"voter {table.key} has seen epoch {table.quorum_epoch} and can't stand in {epoch}:"
            " stand in a later one"
        )
    check_generation(generation_of(table.quorum_epoch), generation_of(epoch))
    return TableChange(quorum_epoch=epoch, vote=table.key)


def decide_vote(voter: VoterTable, candidate: VoterTable) -> VoteDecision:
    """Decide whether `voter` votes for `candidate`, whose table is seen *after* it stood.

    Only in an epoch that is new to the voter: who has seen it has its answer in its table, so a
    vote is given once, and a commit that changes nothing is left out. The vote raises the epoch
    and cuts nothing.
    """
    epoch = candidate.quorum_epoch
    if not candidate.is_candidate or voter.quorum_epoch > epoch:
        return VoteDecision(False)
    if voter.quorum_epoch == epoch:
        return VoteDecision(voter.vote == candidate.key)
    if not is_log_up_to_date(candidate.log.end, voter.log.end):
        return VoteDecision(False)
    return VoteDecision(True, TableChange(quorum_epoch=epoch, vote=candidate.key))


def has_majority(candidate: VoterTable, votes: Iterable[VoterKey]) -> bool:
    """Return whether `votes`, of the candidate's epoch and flushed, are a majority's: of the newest
    set of voters in the candidate's log."""
    voters = candidate.log.voters
    return voters is not None and voters.is_majority({*votes, candidate.key})


def begin_leadership(
    candidate: VoterTable, votes: Iterable[VoterKey], write_id: str
) -> TableChange:
    """Return the commit with which a leadership begins: the leader's mark *and* the epoch's no-op.

    Nothing else makes either (Q8).

    Raises:
        IllegalStateError: The voter is no candidate any more, or `votes` are no majority's.
    """
    if not candidate.is_candidate or not has_majority(candidate, votes):
        raise IllegalStateError(
            f"voter {candidate.key} can't lead epoch {candidate.quorum_epoch}: it stands no more,"
            " or has no majority of votes; read the tables again"
        )
    end = candidate.log.end_offset
    no_op = RaftBatch(end, type(end)(end + 1), candidate.quorum_epoch, write_id, BatchKind.NO_OP)
    return TableChange(leader=candidate.key, appended=(no_op,))


BACKOFF_BASE_MS: Final = 100
"""Source: KafkaRaftClient.RETRY_BACKOFF_BASE_MS."""

_EXPONENT_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a process remembers since the leader's root began to fail.

    Attributes:
        since_ms: When its looks *or commits* there began to fail, by its own monotonic clock.
        epoch: The leader's epoch; 0: no leader is known.
        ends: Where each voter's log ended then, of those that answered: by looks since, not by what
            was seen before.
    """

    since_ms: int
    epoch: QuorumEpoch
    ends: Mapping[VoterKey, Offset]


@dataclass(frozen=True, slots=True)
class Candidacy:
    """A voter that is to stand, and the epoch that it stands in."""

    key: VoterKey
    epoch: QuorumEpoch


def is_election_due(waiting: Waiting | None, now_ms: int, fetch_timeout_ms: int) -> bool:
    """Return whether the leader's root has failed for `controller.quorum.fetch.timeout.ms`.

    None: it does not fail. The time only says when to ask; nothing rests on it for safety.
    """
    return waiting is not None and now_ms - waiting.since_ms >= fetch_timeout_ms


def decide_candidacy(
    voters: VoterSet, readable: Mapping[VoterKey, VoterTable], waiting: Waiting
) -> Candidacy | None:
    """Decide who stands; None: nobody, since a voter still hears the leader or another leads, or
    since no log says who votes: the creation of the cluster was cut off.

    The candidate is the readable voter with the best log, in the epoch after the highest that was
    seen; or one with as good a log that stands there, if it may still win.

    Raises:
        QuorumUnavailableError: No majority of the voters can be read.
    """
    tables = [readable[each] for each in voters.keys if each in readable]
    if not voters.is_majority(each.key for each in tables):
        raise QuorumUnavailableError(
            f"{len(tables)} of {len(voters.voters)} voters of the metadata quorum answer, a"
            f" majority is {voters.majority}: make more of their roots reachable",
            answering=", ".join(str(each.key) for each in tables) or "none",
        )
    best = best_log(tables)
    if best.log.voters is None or any(hears_leader(each, waiting) for each in tables):
        return None
    standing = (each for each in tables if each.log.end == best.log.end and may_win(each, tables))
    joined = next(standing, None)
    if joined is not None:
        return Candidacy(joined.key, joined.quorum_epoch)
    return Candidacy(best.key, next_epoch(tables))


def may_win(candidate: VoterTable, tables: Sequence[VoterTable]) -> bool:
    """Return whether a candidate that stood may get a majority's votes in its epoch, of `tables`,
    its own among them: none of them has seen a later epoch, and enough have no other vote.

    A process is about to end that election, or died; who joins it needs no other epoch.
    """
    if not candidate.is_candidate or next_epoch(tables) != candidate.quorum_epoch + 1:
        return False
    granted = (each.key for each in tables if decide_vote(each, candidate).is_granted)
    return has_majority(candidate, granted)


def hears_leader(voter: VoterTable, waiting: Waiting) -> bool:
    """Return whether a voter shows that there is a leader: it has taken a batch of this one since,
    or follows one of a later epoch."""
    if voter.leader is None:
        return False
    if voter.quorum_epoch > waiting.epoch:
        return True
    then = waiting.ends.get(voter.key)
    return then is not None and voter.log.end_offset > then and voter.quorum_epoch == waiting.epoch


def newest_voters(tables: Iterable[VoterTable]) -> VoterSet | None:
    """Return the set of voters by the best log of `tables`; None: none names any.

    By the best log, and not by the newest `VotersRecord`: what is committed is in it, and another
    may end with a change of voters that came to nothing.
    """
    named = [each for each in tables if each.log.voters is not None]
    return best_log(named).log.voters if named else None


def next_epoch(tables: Iterable[VoterTable]) -> QuorumEpoch:
    """Return the epoch after the highest that any of `tables` has seen."""
    return QuorumEpoch(1 + max((each.quorum_epoch for each in tables), default=0))


def is_stranded(voter: VoterTable, leader: VoterTable) -> bool:
    """Return whether a voter is above the leader's epoch without a leader: a candidate died.

    Where that lasts for the fetch timeout, the leader itself is elected again, in an epoch above:
    else the voter would be lost to the quorum, and nobody would say so.
    """
    return leader.leads and voter.quorum_epoch > leader.quorum_epoch and voter.leader is None


def retry_backoff_ms(retries: int, drawn: float, backoff_max_ms: int) -> int:
    """Return how long a candidate waits after its election number `retries` failed.

    `drawn`: a number in [0, 1). Source: KafkaRaftClient.binaryExponentialElectionBackoffMs.
    """
    assert retries > 0
    steps = int(drawn * (2 << min(_EXPONENT_MAX, retries - 1)))
    return min(BACKOFF_BASE_MS * steps, backoff_max_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """Times in ms, of a process's own monotonic clock.

    Attributes:
        fetch_timeout_ms: A leader whose root fails for so long is replaced. Source:
            ``controller.quorum.fetch.timeout.ms``.
        election_timeout_ms: So long votes are waited for. Source:
            ``controller.quorum.election.timeout.ms``.
        election_backoff_max_ms: Between elections that fail. Source:
            ``controller.quorum.election.backoff.max.ms``.
        answer_timeout_ms: A voter that does not answer for so long is left out of an answer.
        commit_ms: What a commit takes: a tail's writer has so long before another ends the tail.
        patience_ms: Beyond both timeouts, before a call says that there is no quorum.
    """

    fetch_timeout_ms: int = 2000
    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    answer_timeout_ms: int = 1000
    commit_ms: int = 50
    patience_ms: int = 3000

    @classmethod
    def of(cls, settings: Settings) -> "QuorumSettings":
        """Return what the cluster's settings say."""
        return cls(
            fetch_timeout_ms=settings.integer("controller.quorum.fetch.timeout.ms"),
            election_timeout_ms=settings.integer("controller.quorum.election.timeout.ms"),
            election_backoff_max_ms=settings.integer("controller.quorum.election.backoff.max.ms"),
        )

    @property
    def call_timeout_ms(self) -> int:
        """How long a call waits for a leader that a majority confirms."""
        return self.fetch_timeout_ms + self.election_timeout_ms + self.patience_ms


AskSettings = Callable[[], QuorumSettings]
"""Says how patient to be, each time anew: the settings are in the log that is waited for."""
