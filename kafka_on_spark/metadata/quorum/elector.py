"""Says when a leader that fails is replaced, and holds elections, the first one of a new log, too.

An election is due once what a process tries has failed for the fetch timeout. It has a voter stand,
gathers votes, and begins the leadership. What it needs of the quorum is decided in `raft`; here are
its commits, in their order. Invariants that these keep: Q1 (one vote an epoch, in the voter's own
table) and Q8 (the mark and the no-op are one commit, after a majority of votes).

Where a cluster is created, each table's version 0 holds the same bootstrap batch (epoch 0: cluster,
voters), put if absent; then the first election is held. The same call goes on with what an earlier
try has left, if nothing else was written. The cluster is there once its first decision is.

A root that refuses this process may take commits of others, or of nobody. So it is replaced like
one that fails, if no other process commits there and another voter takes commits of this one.
Otherwise the process is told that it lacks permission.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kafka_on_spark.base.config import SETTINGS
from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitError,
    InconsistentClusterIdError,
    InvalidRootError,
    KafkaOnSparkError,
    ProtocolError,
    QuorumUnavailableError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import Clock, Offset, QuorumEpoch, stamp_ms
from kafka_on_spark.metadata.quorum.raft import (
    AskSettings,
    Candidacy,
    LeaderView,
    Waiting,
    begin_leadership,
    decide_candidacy,
    decide_vote,
    has_majority,
    hears_leader,
    is_election_due,
    is_stranded,
    newest_leader,
    next_epoch,
    retry_backoff_ms,
    stand,
)
from kafka_on_spark.metadata.quorum.voter_table import (
    NO_EPOCH,
    BatchKind,
    RaftBatch,
    TableChange,
    VoterKey,
    VoterSet,
    VoterTable,
    best_log,
)
from kafka_on_spark.metadata.quorum.voter_tables import VoterTables
from kafka_on_spark.metadata.records import (
    LeaderChangeRecord,
    MetadataBatch,
    Stamp,
    VotersRecord,
)
from kafka_on_spark.store.deadlines import pauses_ms, until_committed

log = logging.getLogger(__name__)

CLOCK_AHEAD_MAX_MS: Final = int(SETTINGS["clock.ahead.max.ms"].default)

BEGIN_MS_MIN: Final = 10.0
BEGIN_MS_MAX: Final = 1_000.0
"""Between elections of processes that create the same cluster at once: each commits an epoch."""

PAUSE_MS: Final = 50
"""Between looks for a leader that does not answer."""


@dataclass(slots=True)
class Trouble:
    """What a process remembers since it can't read from a leader, or can't commit on its table.

    Attributes:
        waiting: Since when; None: it can.
        last_ms: When it last failed: what was long ago does not add up.
        failed_elections: How many it has held since.
        unwritable: Voters that took no commits.
    """

    waiting: Waiting | None = None
    last_ms: int = 0
    failed_elections: int = 0
    unwritable: set[VoterKey] = field(default_factory=set)

    def lasting(self, began_ms: int, timeout_ms: int) -> Waiting | None:
        """Return what a try that began at `began_ms`, and failed, goes on with; None: there is
        nothing, or it was long ago. Another thread may end it meanwhile."""
        return None if began_ms - self.last_ms > timeout_ms else self.waiting

    def end(self) -> None:
        self.waiting, self.failed_elections = None, 0
        self.unwritable = set()


class Elections:
    """Elections that this process waits for, or holds. Threads may share it.

    `random` gives [0, 1): jitter between elections, nothing else. `new_id` returns an id that
    nobody else makes.
    """

    def __init__(
        self,
        tables: VoterTables,
        clock: Clock,
        *,
        random: Callable[[], float],
        new_id: Callable[[], str],
        settings: AskSettings,
    ) -> None:
        self.reading = Trouble()
        self.committing = Trouble()
        self._tables = tables
        self._clock = clock
        self._random = random
        self._new_id = new_id
        self._settings = settings
        self._stranded: dict[tuple[VoterKey, QuorumEpoch], int] = {}
        self._noted = NO_EPOCH

    # Where the leader fails.

    def commit_failed(self, leader: VoterKey, epoch: QuorumEpoch, began_ms: int) -> None:
        """Note that a leader took no commit of a try that began at `began_ms`: the time until it is
        replaced goes on while it is looked at; unless it was replaced by now."""
        self.committing.unwritable.add(leader)
        waiting = self._failed(self.committing, began_ms, self._clock.monotonic_ms())
        if waiting.epoch > epoch:
            self.committing.end()

    def wait_for_commits(self, leader: VoterKey, began_ms: int, until_ms: int) -> None:
        """Wait a moment, since a leader took no commit of a try that began at `began_ms`; replace
        it once that lasts.
        """
        self.committing.unwritable.add(leader)
        keys = self._tables.voters.keys
        self.wait_or_elect(self.committing, keys, began_ms, until_ms, until_ms)

    def wait_or_elect(
        self,
        trouble: Trouble,
        answered: Iterable[VoterKey],
        began_ms: int,
        until_ms: int,
        elects_until_ms: int | None,
    ) -> bool:
        """Wait a moment after a try that failed, which began at `began_ms`; elect a leader once
        tries, one after the other, have failed for the fetch timeout. Return whether it was tried.

        `elects_until_ms`: until when an election that is due is held; None: at any time, since one
        try may take longer than its call.
        """
        voters, now_ms, heard = self._tables.voters, self._clock.monotonic_ms(), {*answered}
        timeout_ms = self._settings().fetch_timeout_ms
        waiting = self._failed(trouble, began_ms, now_ms)
        denial = self._denial(trouble)
        tables = self._tables.newest_of_all().values()
        if denial is not None and any(hears_leader(each, waiting) for each in tables):
            trouble.end()
            raise denial
        is_heard = voters.is_majority(heard)
        is_due = is_heard and is_election_due(waiting, now_ms, timeout_ms)
        if is_due:
            is_over = elects_until_ms is not None and now_ms >= elects_until_ms
        else:
            is_over = began_ms >= until_ms
        # Who has not failed is slow, and goes on with what it was asked: a process that opens a
        # large log, or has no processor, takes longer than it waits for an answer.
        failures = self._tables.failures
        may_answer = [key for key in voters.keys if key in heard or key not in failures]
        if is_over or not voters.is_majority(may_answer):
            raise denial or self.unavailable()
        if is_due:
            self._elect(trouble, waiting, until_ms)
        else:
            left_ms = waiting.since_ms + timeout_ms - now_ms
            self._clock.sleep_ms(min(PAUSE_MS, left_ms) if left_ms > 0 else PAUSE_MS)
        return is_due

    def _denial(self, trouble: Trouble) -> RootAccessDeniedError | None:
        """Return how the leader's root refuses what this process tries; None: it does not."""
        tables = self._tables
        leader = newest_leader(tables.newest_of_all())
        refusals = tables.denied if trouble is self.committing else tables.failures
        found = None if leader is None else refusals.get(leader)
        return found if isinstance(found, RootAccessDeniedError) else None

    def _elect(self, trouble: Trouble, waiting: Waiting, until_ms: int) -> None:
        denied = self._tables.denied
        unwritable = trouble.unwritable | self.committing.unwritable | denied.keys()
        try:
            candidacy = self.ask(waiting, unwritable)
        except QuorumUnavailableError as unavailable:
            voters, failures = self._tables.voters, self._tables.failures
            able = [key for key in voters.keys if key not in denied and key not in failures]
            is_slow = self._clock.monotonic_ms() < until_ms and voters.is_majority(able)
            denial = self._denial(trouble)
            if not is_slow and (denial is not None or not unwritable):
                raise denial or unavailable from None
            # Nobody else can stand: they may take commits again; or who did not answer is slow.
            trouble.unwritable, self.committing.unwritable = set(), set()
            denied.clear()
            self._back_off(trouble)
            return
        if candidacy is None:
            trouble.waiting = self._waiting(self._clock.monotonic_ms())
        elif self.elect(candidacy) is not None:
            self.reading.end()
            self.committing.end()
        else:
            if candidacy.key in self._tables.failures:
                trouble.unwritable.add(candidacy.key)
            self._back_off(trouble)

    def _back_off(self, trouble: Trouble) -> None:
        trouble.failed_elections += 1
        most_ms = self._settings().election_backoff_max_ms
        pause_ms = retry_backoff_ms(trouble.failed_elections, self._random(), most_ms)
        self._clock.sleep_ms(pause_ms)

    def _failed(self, trouble: Trouble, began_ms: int, now_ms: int) -> Waiting:
        """Note that a try failed, which began at `began_ms`; return since when tries have failed,
        one after the other. Looks and commits add up: they ask the same leader."""
        settings = self._settings()
        timeout_ms = settings.fetch_timeout_ms
        troubles = (trouble, self.reading, self.committing)
        lasting = (each.lasting(began_ms, timeout_ms) for each in troubles)
        waiting = next((each for each in lasting if each is not None), None)
        if waiting is None:
            # A root that hangs fails as long as it was waited for. No more than that is counted,
            # and half of the fetch timeout at most: a process that was frozen in its try has not
            # waited, and voters are watched for signs of the leader.
            most_ms = min(settings.answer_timeout_ms, timeout_ms // 2)
            waiting = self._waiting(max(began_ms, now_ms - most_ms))
        trouble.waiting = waiting
        trouble.last_ms = self._clock.monotonic_ms()
        return waiting

    def _waiting(self, since_ms: int) -> Waiting:
        """Begin to wait, and look where each voter's log ends now: what this process has seen of
        it may be old, and then a batch of long ago would pass for one that was taken since. Voters
        that hang are not waited for once more."""
        tables = self._tables
        keys = [key for key in tables.voters.keys if not tables.is_alone and not tables.hangs(key)]
        ends = {table.key: table.log.end_offset for table in tables.each(keys, tables.look)}
        epochs = (epoch for each in tables.newest_of_all().values() for _, epoch in each.leaders)
        return Waiting(since_ms, max(epochs, default=NO_EPOCH), ends)

    def unavailable(self) -> KafkaOnSparkError:
        tables, why = self._tables, self._failing()
        if tables.is_alone and why:
            return tables.as_met(why[tables.voters.keys[0]])
        return QuorumUnavailableError(
            f"no majority of the {len(tables.voters.keys)} voters of the metadata quorum answers"
            f" and agrees on a leader ({_words(why) or 'all answer'}): make more of their roots"
            " reachable, or try again"
        )

    def _failing(self) -> dict[VoterKey, KafkaOnSparkError]:
        failures = self._tables.refusals | self._tables.failures
        return {key: failures[key] for key in self._tables.voters.keys if key in failures}

    def rescue_stranded(self, led: LeaderView) -> bool:
        """Have the leader elected again where a voter stays above its epoch without a leader, since
        a candidate died: else that voter is lost to the quorum, and nobody says so. Return whether
        that was tried."""
        tables, now_ms = self._tables, self._clock.monotonic_ms()
        seen = tables.newest_of_all().values()
        found = [(each.key, each.quorum_epoch) for each in seen if is_stranded(each, led.table)]
        self._stranded = {each: self._stranded.get(each, now_ms) for each in found}
        due_ms = now_ms - self._settings().fetch_timeout_ms
        due = {each for each, since_ms in self._stranded.items() if since_ms <= due_ms}
        for leader in tables.each([led.key] if due else (), tables.look):
            # Others may have taken that voter back, or do so, or have elected another leader.
            if leader.quorum_epoch == led.epoch:
                for table in tables.each({key for key, _ in due}, tables.look):
                    if (table.key, table.quorum_epoch) in due and is_stranded(table, leader):
                        self.elect_again(leader)
                        return True
        return False

    # Elections.

    def ask(self, waiting: Waiting, unwritable: Collection[VoterKey]) -> Candidacy | None:
        """Decide who is to stand, by what a majority of voters says (pre-vote); None: nobody, since
        a voter hears a leader.

        `unwritable`: voters that take no commits, and so can't stand.

        Raises:
            QuorumUnavailableError: No majority of the voters answers.
        """
        readable: dict[VoterKey, VoterTable] = {}
        asked: set[VoterKey] = set(unwritable)
        while keys := [key for key in self._tables.voters.keys if key not in asked]:
            asked.update(keys)
            for table in self._tables.each(keys, self._tables.look):
                readable[table.key] = table
                if self._tables.voters.is_majority(readable):
                    break
            # Whom they name decides, not whom a root that is away named.
            self._tables.learn_voters(readable.values())
        return decide_candidacy(self._tables.voters, readable, waiting)

    def elect_again(self, leader: VoterTable, *roots: VoterTable) -> VoterTable | None:
        """Have the leader itself stand, above every epoch that was seen of voters, and of `roots`:
        one of them is stranded in a later one. Return its table if it leads."""
        seen = [leader, *roots, *self._tables.newest_of_all().values()]
        return self.elect(Candidacy(leader.key, next_epoch(seen)))

    def elect(self, candidacy: Candidacy) -> VoterTable | None:
        """Have a voter stand; return its table if it leads. Where its root fails, why is kept."""
        key = candidacy.key
        self._tables.failures.pop(key, None)
        try:
            return self._elected(candidacy)
        except CommitConflictError:
            return None  # another process was quicker
        except (CommitError, ProtocolError) as error:
            self._tables.failures[key] = error
            log.info("voter %s can't stand: %s", key, error)
            return None

    def _elected(self, candidacy: Candidacy) -> VoterTable | None:
        candidate = self._tables.in_time(
            candidacy.key, partial(self._stood, candidacy), self._settings().election_timeout_ms
        )
        if candidate is None:
            return None
        votes, most_ms = {candidate.key}, self._settings().election_timeout_ms
        self._tables.learn_voters([candidate])  # by whom its votes are counted
        others = [key for key in self._tables.voters.keys if key != candidate.key]
        if not has_majority(candidate, votes):
            for voted in self._tables.each(
                others, partial(self._vote, candidate), timeout_ms=most_ms
            ):
                votes.add(voted.key)
                if has_majority(candidate, votes):
                    break
        if not has_majority(candidate, votes):
            log.info(
                "voter %s stood in epoch %d and has %d votes",
                candidate.key,
                candidate.quorum_epoch,
                len(votes),
            )
            return None
        return self._begun(candidate, votes)

    def _stood(self, candidacy: Candidacy) -> VoterTable | None:
        """Return the candidate's table as it is *after* it stood, by whomever; votes are given by
        its log there. None: it has seen that epoch, and does not stand in it."""
        key, epoch = candidacy.key, candidacy.epoch
        table = self._tables.look(key)
        if table.quorum_epoch >= epoch:
            return table if _stands(table, epoch) else None
        try:
            return self._tables.commit(table, stand(table, epoch))
        except CommitError:
            table = self._tables.load(key)
            if _stands(table, epoch):
                return table
            raise

    def _vote(self, candidate: VoterTable, key: VoterKey) -> VoterTable | None:
        """Return a voter's table with its vote for the candidate; None: it gives none."""

        def commit(voter: VoterTable) -> VoterTable | None:
            decision = decide_vote(voter, candidate)
            if decision.change is None:
                return voter if decision.is_granted else None
            return self._tables.commit(voter, decision.change)

        return until_committed(partial(self._tables.look, key), commit, clock=self._clock)

    def _begun(self, candidate: VoterTable, votes: Collection[VoterKey]) -> VoterTable | None:
        """Return the candidate's table with its mark and its no-op; None: it stands no more."""
        change = begin_leadership(candidate, votes, self._new_id())
        record = LeaderChangeRecord(
            leader=candidate.key.node_id,
            directory_id=candidate.key.directory_id,
            cause=f"elected in epoch {candidate.quorum_epoch} by {len(votes)} voters",
        )
        key, most_ms = candidate.key, self._settings().election_timeout_ms
        stamp = first_stamp(self._tables, key, self._clock)
        batch = MetadataBatch(base_offset=candidate.log.end_offset, stamp=stamp, records=(record,))
        try:
            leader = self._tables.in_time(
                key, partial(self._tables.commit, candidate, change, batch), most_ms
            )
        except CommitError:  # it may have landed, or another process have begun it
            leader = self._tables.in_time(key, partial(self._tables.load, key), most_ms)
        if not leader.leads or leader.quorum_epoch != candidate.quorum_epoch:
            return None
        is_first = candidate.log.epoch_before(candidate.log.end_offset) == 0
        self.note_leader(leader.key, leader.quorum_epoch, is_news=not is_first)
        return leader

    def note_leader(self, key: VoterKey, epoch: QuorumEpoch, *, is_news: bool) -> None:
        """Log a leader once, whichever process has elected it; `is_news`: there was another one."""
        if epoch > self._noted:
            self._noted = epoch
            if is_news:
                words = f"voter {key} leads the metadata quorum in epoch {epoch}"
                log.warning("; ".join(filter(None, (words, _words(self._failing())))))

    def begin_log(self, cluster_id: str) -> None:
        """Have the voters' tables begin with their bootstrap batch, and one of them lead."""
        tables, voters = self._tables, self._tables.voters

        def load() -> list[VoterTable]:
            return [tables.load(key) for key in voters.keys]

        def commit(found: Sequence[VoterTable]) -> None:
            check_beginning(found, voters, cluster_id)
            if not all(each.log.batches for each in found):
                self._put_bootstrap(found, cluster_id)
                found = load()
            if any(each.leads for each in found):
                return
            if self.elect(Candidacy(best_log(found).key, next_epoch(found))) is None:
                raise CommitConflictError("no majority voted: others create the cluster, too")

        until_committed(
            load, commit, clock=self._clock, pauses=pauses_ms(BEGIN_MS_MIN, BEGIN_MS_MAX)
        )

    def _put_bootstrap(self, found: Sequence[VoterTable], cluster_id: str) -> None:
        """Put the first batch on the first voter, if none has it, and copy it to all that lack it:
        another try made it at another time, and one log has one batch there."""
        voters, write_id = self._tables.voters, bootstrap_id(cluster_id)
        start, end = Offset(0), Offset(1)
        header = RaftBatch(start, end, QuorumEpoch(0), write_id, BatchKind.DECISION, voters)
        change = TableChange(appended=(header,))
        begun = next((table for table in found if table.log.batches), None)
        lacking = [table for table in found if not table.log.batches]
        if begun is None:
            record = VotersRecord(
                voters=tuple(map(str, voters.voters)),
                cluster_id=cluster_id,
                cause="the cluster is made",
            )
            stamp = first_stamp(self._tables, voters.keys[0], self._clock)
            batch = MetadataBatch(base_offset=start, stamp=stamp, records=(record,))
            begun = self._tables.commit(lacking.pop(0), change, batch)
        for table in lacking:
            self._tables.commit(table, change, begun.key)


def first_stamp(tables: VoterTables, key: VoterKey, clock: Clock) -> Stamp:
    """Return the stamp of a batch that a process puts on voter `key` without having read the log:
    by the setting's default, and without a newest commit."""
    root_ms = tables.root_ms(key)
    return Stamp(time_ms=stamp_ms(clock.now_ms(), root_ms, 0, CLOCK_AHEAD_MAX_MS))


def _stands(table: VoterTable, epoch: QuorumEpoch) -> bool:
    return table.is_candidate and table.quorum_epoch == epoch


def check_beginning(found: Sequence[VoterTable], voters: VoterSet, cluster_id: str) -> None:
    """Check that a cluster of `voters` may be created on the roots whose tables are `found`, in
    their order: each is empty, or an earlier try has left the cluster's beginning there."""
    for voter, table in zip(voters.voters, found, strict=True):
        first = table.log.batches[:1]
        if first and (first[0].write_id, table.log.voters) != (bootstrap_id(cluster_id), voters):
            raise InvalidRootError(
                f"{voter.root} is not empty, and holds no beginning of this cluster: empty it, or"
                " name another root"
            )
        if has_decided(table):
            raise InvalidRootError(f"there is a cluster at {voter.root} already: open it")


def has_decided(table: VoterTable) -> bool:
    """Return whether a log has more than a bootstrap batch and no-ops: there is a cluster."""
    return any(each.kind is not BatchKind.NO_OP for each in table.log.batches[1:])


def bootstrap_id(cluster_id: str) -> str:
    """Return the write id of the first batch of a cluster's log, the same in each try."""
    return f"bootstrap-{cluster_id}"


def check_cluster_ids(cluster_ids: Mapping[str, str]) -> str:
    first, *others = cluster_ids.items()
    for root, cluster_id in others:
        if cluster_id != first[1]:
            raise InconsistentClusterIdError(
                f"{first[0]} belongs to cluster {first[1]} and {root} to {cluster_id}: name roots"
                " of one cluster, or finish a `cluster --fork` that was cut off, by the same call"
            )
    return first[1]


def _words(why: Mapping[VoterKey, KafkaOnSparkError]) -> str:
    return "; ".join(f"{key}: {error.message}" for key, error in why.items())
