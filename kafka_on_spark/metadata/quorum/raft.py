"""The rules of Raft on voters' tables: who votes for whom, what is appended and adopted, and how
far that is committed.

**The tail first**: a decision is only ever appended to a log that is committed to its end (Q9). So
a decision in a log proves that all before it is committed.

Adopting is one commit that raises the epoch, marks the leader and cuts what the leader's log does
not share. **It is due wherever the mark of the epoch is missing, also where the voter has voted in
that epoch**: a vote raises the epoch and cuts nothing.

A log is committed where, for each of a majority of voters, of the newest set in the leader's log,
somebody has seen the leader's epoch, the mark of this leader, and an end that is not below; and the
batch at that end is of the epoch (Raft §5.4.2). Seen at different times is enough. An emptied
voter, one with another directory, and one that can't be read count for nothing.

A process that can't use the leader's root asks before it disturbs anybody (pre-vote, KIP-996): a
majority of voters must be readable, and none of them have taken a batch of this leader since it
began to wait. Processes that wait for the same leader elect together: with an epoch of its own,
each would undo the others' elections. Each generation of a cluster has epochs of its own, above
those of all before it (design note 9).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Final, NewType

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import (
    CommitConflictError,
    FencedLeaderEpochError,
    IllegalStateError,
    InconsistentClusterError,
    NotLeaderOrFollowerError,
    QuorumUnavailableError,
)
from kafka_on_spark.base.ids import Offset, QuorumEpoch
from kafka_on_spark.metadata.quorum.voter_table import (
    NO_EPOCH,
    BatchKind,
    RaftBatch,
    RaftLog,
    TableChange,
    VoterKey,
    VoterSet,
    VoterTable,
    best_log,
    common_end,
    find_write,
    is_log_up_to_date,
)

Generation = NewType("Generation", int)
"""How often the cluster was forced; 0: never."""

EPOCHS_OF_A_GENERATION: Final = 100_000_000
"""An election a second takes three years for them. The first digits of an epoch are people's sign
of its generation."""


def generation_of(epoch: QuorumEpoch) -> Generation:
    return Generation(epoch // EPOCHS_OF_A_GENERATION)


def check_generation(known: Generation, found: Generation) -> None:
    """Check that a root is not of a later generation than this process's metadata.

    Raises:
        InconsistentClusterError: It is: this process is of a cluster that people gave up.
    """
    if found > known:
        raise InconsistentClusterError(
            f"a root is of generation {found} of the cluster and this process of {known}: the"
            " cluster was forced; stop this process and open the cluster anew",
            known=known,
            found=found,
        )


def check_generations(tables: Iterable[VoterTable], epoch: QuorumEpoch | None = None) -> None:
    """Check that the newest generation of the cluster that `tables` show began at one voter, and
    is the one of a leader's `epoch`.

    Raises:
        InconsistentClusterError: The cluster was forced since that epoch. Or the generation began
            at two voters, neither of which answered where the other was forced: neither log goes on
            from the other.
    """
    newest = Generation(0)
    began: dict[QuorumEpoch, VoterKey] = {}
    for table in tables:
        found = generation_of(table.quorum_epoch)
        if found > newest:
            newest, began = found, {}
        if found == newest > 0:
            first = table.log.first_epoch_from(QuorumEpoch(newest * EPOCHS_OF_A_GENERATION))
            if first is not None:
                began.setdefault(first, table.key)
    if epoch is not None:
        check_generation(generation_of(epoch), newest)
    if len(began) > 1:
        (first, one), (other_first, other), *_ = sorted(began.items())
        raise InconsistentClusterError(
            f"the cluster was forced at two places: voter {one} goes on since epoch {first}, and"
            f" voter {other} since epoch {other_first}, each alone; stop everything, choose one of"
            " both, empty the root of the other, and take it off all lists of metadata roots"
        )


def append(
    leader: VoterTable,
    epoch: QuorumEpoch,
    committed_end: Offset,
    *,
    base_offset: Offset,
    record_count: int,
    write_id: str,
    voters: VoterSet | None = None,
) -> TableChange:
    """Return the commit that appends a decision to the leader's log.

    `epoch`: the one in which `committed_end` was seen to be committed. `base_offset`: the end of
    the image on which it was decided. `voters`: the set that it puts into force, if it does.

    Raises:
        NotLeaderOrFollowerError: The table leads another epoch by now, or none.
        CommitConflictError: The log has gone on since the decision was made: decide again. Or its
            tail is not committed as yet: whoever finds it ends it first.
    """
    if not leader.leads or leader.quorum_epoch != epoch:
        raise NotLeaderOrFollowerError(
            f"voter {leader.key} does not lead epoch {epoch}: look for the leader again"
        )
    end = leader.log.end_offset
    if committed_end < end or end != base_offset:
        raise CommitConflictError("the metadata log has gone on", expected=base_offset, found=end)
    batch = RaftBatch(end, Offset(end + record_count), epoch, write_id, BatchKind.DECISION, voters)
    return TableChange(appended=(batch,))


class Outcome(Enum):
    """What is known of a write."""

    COMMITTED = "committed"
    LOST = "lost"
    UNKNOWN = "unknown"
    UNTOLD = "untold"
    """The table has merged what stands there, of the same epoch: no look tells any more."""


def outcome_of(log: RaftLog, committed_end: Offset, write: RaftBatch) -> Outcome:
    """Return what became of a write, by a leader's log that is known to be committed up to
    `committed_end`.

    It is committed where it is found below that. It never will be where a batch of a later epoch is
    committed and it is not below: each later leader has that batch, so none has the write. That
    nobody has it now proves nothing: the put may still land, and its epoch's leader be the next.
    """
    found = find_write(log, write.write_id, write.base_offset)
    if found is not None:
        is_committed = found.end_offset <= committed_end
        return Outcome.COMMITTED if is_committed else Outcome.UNKNOWN
    run = log.run_at(write.base_offset)
    if run is not None:
        return Outcome.UNTOLD if run.epoch == write.epoch else Outcome.LOST
    later = log.batch_before(committed_end)
    if later is not None and later.epoch > write.epoch:
        return Outcome.LOST
    return Outcome.UNKNOWN


def follows(voter: VoterTable, leader: VoterTable) -> bool:
    return voter.quorum_epoch == leader.quorum_epoch and voter.leader == leader.key


def adopt(voter: VoterTable, leader: VoterTable) -> TableChange | None:
    """Return the commit by which `voter` adopts `leader`; None: it has.

    Raises:
        NotLeaderOrFollowerError: `leader` leads nothing.
        FencedLeaderEpochError: The voter has seen a later epoch: the leader is deposed.
        InconsistentClusterError: The voter has marked another leader of that epoch, or would lose
            what its own log proves committed: a table went back, or is another cluster's.
    """
    _check_leader(voter, leader)
    if follows(voter, leader):
        return None
    if voter.quorum_epoch == leader.quorum_epoch and voter.leader is not None:
        raise InconsistentClusterError(
            f"epoch {leader.quorum_epoch} has two leaders: voter {voter.key} follows"
            f" {voter.leader}, and {leader.key} leads; a root was restored from a copy:"
            " remove that voter"
        )
    end = common_end(voter.log, leader.log)
    _check_cut(voter, leader, end)
    return TableChange(
        quorum_epoch=leader.quorum_epoch,
        leader=leader.key,
        cut_to=end if end < voter.log.end_offset else None,
    )


def _check_leader(voter: VoterTable, leader: VoterTable) -> None:
    if not leader.leads:
        raise NotLeaderOrFollowerError(
            f"voter {leader.key} leads nothing: look for the leader again"
        )
    if voter.quorum_epoch > leader.quorum_epoch:
        raise FencedLeaderEpochError(
            f"voter {voter.key} is in epoch {voter.quorum_epoch}: the leadership of {leader.key} in"
            f" {leader.quorum_epoch} is over; look for the leader again"
        )


def _check_cut(voter: VoterTable, leader: VoterTable, end: Offset) -> None:
    proved = voter.log.proved_end
    if end >= proved:
        return
    if generation_of(voter.log.end.epoch) < generation_of(leader.quorum_epoch):
        # What it knew when the cluster was forced without it is gone: the leader is well.
        raise InconsistentClusterError(
            f"the root of voter {voter.key} was given up when the cluster was forced, and holds"
            " decisions that are gone: empty it, then add it"
        )
    raise InconsistentClusterError(
        f"voter {voter.key} would be cut to {end}, below {proved}, which its log proves committed:"
        f" the log of {leader.key} went back, or is another cluster's; stop everything"
    )


def fetch(
    voter: VoterTable, leader: VoterTable, *, records_max: int | None = None
) -> TableChange | None:
    """Return the commit by which `voter` appends what it lacks of the leader's log, in order, whole
    batches, at most `records_max` records but at least a batch; None: it lacks nothing of what was
    seen.

    Raises:
        NotLeaderOrFollowerError: The leader leads nothing, or the voter must adopt it first.
        FencedLeaderEpochError: The voter has seen a later epoch.
        InconsistentClusterError: The voter, under the leader's mark, has another log.
    """
    _check_follows(voter, leader)
    end = voter.log.end_offset
    if end > leader.log.end_offset:
        return None  # the look at the leader is the older one, or one of both went back
    if common_end(voter.log, leader.log) != end:
        raise InconsistentClusterError(
            f"voter {voter.key} follows {leader.key} in epoch {leader.quorum_epoch}, and its log is"
            " no beginning of the leader's: one of both went back; remove the voter that was"
            " restored"
        )
    batches = leader.log.from_offset(end)
    chosen = list(batches[:1])
    for batch in batches[1:]:
        if records_max is not None and batch.end_offset - end > records_max:
            break
        chosen.append(batch)
    return TableChange(appended=tuple(chosen)) if chosen else None


def write_once(voter: VoterTable, leader: VoterTable) -> TableChange:
    """Return a commit that marks the leader once more, and so changes nothing: whether the root of
    a voter takes commits is seen before others wait for it.

    Raises:
        NotLeaderOrFollowerError: The voter must adopt the leader first.
    """
    _check_follows(voter, leader)
    return TableChange(leader=leader.key)


def _check_follows(voter: VoterTable, leader: VoterTable) -> None:
    _check_leader(voter, leader)
    if not follows(voter, leader):
        raise NotLeaderOrFollowerError(
            f"voter {voter.key} has not adopted {leader.key} in epoch {leader.quorum_epoch}"
        )


@dataclass(frozen=True)
class LeaderView:
    """A leader's table as of the last look, with its key, epoch and log.

    Attributes:
        held: Up to where each voter was seen to hold this leader's log, in this epoch, flushed.
    """

    table: VoterTable
    held: Mapping[VoterKey, Offset]
    key: VoterKey = field(init=False, repr=False, compare=False)
    epoch: QuorumEpoch = field(init=False, repr=False, compare=False)
    log: RaftLog = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.table.key)
        object.__setattr__(self, "epoch", self.table.quorum_epoch)
        object.__setattr__(self, "log", self.table.log)

    @property
    def voters(self) -> VoterSet:
        assert self.log.voters is not None, "who leads has counted its voters"
        return self.log.voters

    @cached_property
    def counted_end(self) -> Offset | None:
        return counted_end(self.log, self.epoch, self.held)

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
            if voter.log.end_offset < self.log.end_offset:
                return self
            return LeaderView(voter, {**self.held, self.key: voter.log.end_offset})
        end = min(voter.log.end_offset, self.log.end_offset)
        if end <= self.held.get(voter.key, -1):
            return self
        return LeaderView(self.table, {**self.held, voter.key: end})


def counted_end(log: RaftLog, epoch: QuorumEpoch, held: Mapping[VoterKey, Offset]) -> Offset | None:
    """Return up to where a majority of the voters of a log was seen to hold it, if the batch there
    is of the leader's `epoch` (Raft §5.4.2); None: too few hold so much."""
    if log.voters is None:
        return None
    end = majority_end(map(held.get, log.voters.keys))
    return end if end is not None and log.epoch_before(end) == epoch else None


def majority_end(ends: Iterable[Offset | None]) -> Offset | None:
    """Return up to where a majority of voters has a log; None: a majority is not known.

    `ends`: of every voter, None where nothing is known.
    """
    ordered = sorted(ends, key=lambda end: 1 if end is None else -end)
    return ordered[len(ordered) // 2] if ordered else None


def view_of(table: VoterTable) -> LeaderView | None:
    """Return what a look at one table says, all of which is durable; None: it leads nothing."""
    return LeaderView(table, {table.key: table.log.end_offset}) if table.leads else None


def leader_among(tables: Mapping[VoterKey, VoterTable]) -> LeaderView | None:
    """Return the newest leader that `tables` show, and who of them holds its log, all of which is
    durable; None: they show none, or not its own table, or that leads no more.
    """
    key = newest_leader(tables)
    view = None if key is None or key not in tables else view_of(tables[key])
    if view is not None:
        for table in tables.values():
            if table.key != key:
                view = view.seen(table)
    return view


def newest_leader(tables: Mapping[VoterKey, VoterTable]) -> VoterKey | None:
    """Return the leader of the highest epoch that any of `tables` has marked; None: none has.

    Raises:
        InconsistentClusterError: Two lead that epoch.
    """
    marks = [table.leaders[-1] for table in tables.values() if table.leaders]
    epoch = max((marked for _, marked in marks), default=NO_EPOCH)
    keys = {key for key, marked in marks if marked == epoch}
    if len(keys) > 1:
        names = " and ".join(sorted(map(str, keys)))
        raise InconsistentClusterError(
            f"epoch {epoch} has two leaders, voters {names}: a root was restored from a copy,"
            " or the cluster was forced at two places; stop everything, choose one of both, and"
            " empty the root of the other"
        )
    return next(iter(keys), None)


@dataclass(frozen=True, slots=True)
class VoteDecision:
    """What a voter answers a candidate: whether that has its vote, once `change` is committed in
    the voter's table. None: the vote stands there, or there is none."""

    is_granted: bool
    change: TableChange | None = None


def stand(table: VoterTable, epoch: QuorumEpoch) -> TableChange:
    """Return a candidacy's first commit, on the candidate's own table: the epoch, and the vote for
    itself.

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
    key: VoterKey
    epoch: QuorumEpoch


def is_election_due(waiting: Waiting, now_ms: int, fetch_timeout_ms: int) -> bool:
    """Return whether the leader's root has failed for `controller.quorum.fetch.timeout.ms`. The
    time only says when to ask; nothing rests on it for safety."""
    return now_ms - waiting.since_ms >= fetch_timeout_ms


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


def next_epoch(tables: Iterable[VoterTable]) -> QuorumEpoch:
    return QuorumEpoch(1 + max((each.quorum_epoch for each in tables), default=0))


def is_stranded(voter: VoterTable, leader: VoterTable) -> bool:
    """Return whether a voter is above the leader's epoch without a leader: a candidate died."""
    return leader.leads and voter.quorum_epoch > leader.quorum_epoch and voter.leader is None


def retry_backoff_ms(retries: int, drawn: float, backoff_max_ms: int) -> int:
    """Return how long a candidate waits after election number `retries` failed; `drawn` is in
    [0, 1). Source: KafkaRaftClient.binaryExponentialElectionBackoffMs."""
    assert retries > 0
    steps = int(drawn * (2 << min(_EXPONENT_MAX, retries - 1)))
    return min(BACKOFF_BASE_MS * steps, backoff_max_ms)


COMMIT_MS_MAX: Final = 500
"""A tail's writer has no longer: others wait meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """Times in ms, of a process's own monotonic clock.

    Attributes:
        fetch_timeout_ms: A leader whose root fails for so long is replaced.
        election_timeout_ms: So long votes are waited for.
        election_backoff_max_ms: Between elections that fail.
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
        return cls(
            fetch_timeout_ms=settings.integer("controller.quorum.fetch.timeout.ms"),
            election_timeout_ms=settings.integer("controller.quorum.election.timeout.ms"),
            election_backoff_max_ms=settings.integer("controller.quorum.election.backoff.max.ms"),
        )

    def for_roots(self, answer_ms: int) -> "QuorumSettings":
        """Return times that roots can keep which lately took so long to answer: a store's requests
        may take a second. They are for patience alone, and nothing rests on them for safety."""
        return replace(
            self,
            fetch_timeout_ms=max(self.fetch_timeout_ms, 2 * answer_ms),
            election_timeout_ms=max(self.election_timeout_ms, 2 * answer_ms),
            answer_timeout_ms=max(self.answer_timeout_ms, 2 * answer_ms),
            commit_ms=max(self.commit_ms, min(answer_ms, COMMIT_MS_MAX)),
            patience_ms=max(self.patience_ms, 2 * answer_ms),
        )

    @property
    def call_timeout_ms(self) -> int:
        """How long a call waits for a leader that a majority confirms."""
        return self.fetch_timeout_ms + self.election_timeout_ms + self.patience_ms


AskSettings = Callable[[], QuorumSettings]
"""Says how patient to be, each time anew: the settings are in the log that is waited for."""
