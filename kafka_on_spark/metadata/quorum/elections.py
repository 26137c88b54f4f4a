"""When an election is due, who stands, and in which epoch.

A process that can't use the leader's root asks before it disturbs anybody (pre-vote, KIP-996): a
majority of voters must be readable, and none of them have taken a batch of this leader since it
began to wait. Any process may hold an election, for any voter, and end one that another began:
votes name voters and not processes. So processes that wait for the same leader elect together; each
with an epoch of its own, they would undo each other's elections.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.errors import QuorumUnavailableError
from kafka_on_spark.base.ids import Offset, QuorumEpoch
from kafka_on_spark.metadata.quorum.candidacy import decide_vote, has_majority
from kafka_on_spark.metadata.quorum.voter_set import VoterKey, VoterSet
from kafka_on_spark.metadata.quorum.voter_table import VoterTable

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


def best_log(tables: Iterable[VoterTable]) -> VoterTable:
    """Return the table whose log is best: by last epoch, then end, then the lowest id."""
    return max(
        tables,
        key=lambda each: (each.log.end.epoch, each.log.end.offset, -each.key.node_id),
    )


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
