"""The quorum's leader, as this process sees it and appends to it: a table that a majority confirms.

Looks come first: the leader's and as many others' as a majority needs. What they don't confirm is a
tail that somebody left, which is ended here; or a leader that is gone, which is replaced once it
has failed for the fetch timeout. Invariants that it keeps: Q3 and Q6 (what is committed is counted
by the leader's epoch and mark), Q10 (a majority was seen to hold the leader's end, after the read
began).

A decision is one commit on the leader's table; a majority follows, then comes the answer:
committed, conflict or unknown. Q9: only on a log that is committed to its end. Q2: what was
answered stays. A decision is put at one version of one table, always the one after the table that
it was decided on. So after an unknown outcome the next decision of this process contradicts
nothing: if the table is as it was, both are puts at one version, of which one counts; if it has
gone on, the log tells. That holds also for a put on a root that hangs, which a thread was left
behind with.

A root that refuses this process may take commits of others, or of nobody. So it is replaced like
one that fails, if no other process commits there and another voter takes commits of this one.
Otherwise the process is told that it lacks permission.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    InconsistentClusterError,
    KafkaOnSparkError,
    ProtocolError,
    QuorumUnavailableError,
    ReplicaLostError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import Clock, Offset, QuorumEpoch
from kafka_on_spark.metadata.quorum.elector import Elections
from kafka_on_spark.metadata.quorum.raft import (
    AskSettings,
    LeaderView,
    Outcome,
    QuorumSettings,
    Waiting,
    append,
    hears_leader,
    is_election_due,
    is_stranded,
    leader_among,
    newest_leader,
    outcome_of,
    retry_backoff_ms,
    view_of,
)
from kafka_on_spark.metadata.quorum.voter_table import (
    NO_EPOCH,
    RaftBatch,
    RaftLog,
    TableChange,
    VoterKey,
    VoterSet,
    VoterTable,
    find_write,
    has_write,
)
from kafka_on_spark.metadata.quorum.voter_tables import (
    OpenVoterLog,
    SideBySide,
    VoterTables,
    follow,
    hanging,
)
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp

log = logging.getLogger(__name__)

DISCOVERIES_MAX: Final = 8
"""So often a table may name a newer set of voters, of whom others are to be asked."""

COPIED_A_MS: Final = 20
"""Records that the slowest voter which is waited for copies in a millisecond: a decision for many
partitions takes its time, and one that is left out of its answer is unknown."""

PAUSE_MS: Final = 50
"""Between looks for a leader that does not answer."""


def likely_voters(tables: VoterTables) -> Sequence[VoterKey]:
    """Return the leader that is known and as few other voters as may confirm it, those first that
    have not failed; all, if all are needed or no leader is known."""
    keys, majority = tables.voters.keys, tables.voters.majority
    view = leader_among(tables.newest_of_all()) if majority < len(keys) else None
    if view is None:
        return keys
    failed, held = tables.troubled(), view.held
    others = sorted(
        (each for each in keys if each != view.key),
        key=lambda each: (each in failed, -held.get(each, -1)),
    )
    return [view.key, *others[: majority - 1]]


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
        """Note that it can."""
        self.waiting, self.failed_elections = None, 0
        self.unwritable = set()


TRIES_MAX: Final = 1000
"""How often the same decision is put; the time that a call has is over long before."""


@dataclass(slots=True)
class _Write:
    """A decision on its way: the commit, the table that it is put after, and the records.

    Attributes:
        may_stand: It was put, perhaps.
        failure: Why it is not known to stand on the leader; None: it does.
    """

    table: VoterTable
    change: TableChange
    batch: MetadataBatch
    may_stand: bool = False
    failure: CommitOutcomeUnknownError | ProtocolError | None = None

    @property
    def header(self) -> RaftBatch:
        return self.change.appended[0]

    def outcome(self, led: LeaderView) -> Outcome:
        """Return what became of it, by a leader that is confirmed."""
        log = led.log
        passed = led.table.key == self.table.key and led.table.version > self.table.version
        outcome = outcome_of(log, led.committed_end, self.header)
        is_there = find_write(log, self.header.write_id, self.header.base_offset) is not None
        if outcome is Outcome.UNKNOWN and passed and not is_there:
            return Outcome.LOST  # another commit stands where it was put
        return outcome


class Leadership:
    """The leader as this process sees it and appends to it. Threads may share it.

    `random` gives [0, 1): jitter between elections, nothing else. `new_id` returns an id that
    nobody else makes.

    Attributes:
        tables: The voters' tables, as this process sees them.
        elections: Elections that this process holds.
        settings: Says how patient it is, once it knows what the cluster's settings say.
        led: The leader as it was last confirmed, for a decision on it; None: look first.
        confirmed: The log that a majority was last seen to hold. It stays committed, whoever leads.
    """

    def __init__(
        self,
        voters: VoterSet,
        open_log: OpenVoterLog,
        side_by_side: SideBySide,
        clock: Clock,
        *,
        random: Callable[[], float],
        new_id: Callable[[], str],
        settings: QuorumSettings,
    ) -> None:
        self.led: LeaderView | None = None
        self.confirmed: LeaderView | None = None
        self.settings: AskSettings = lambda: settings
        self.tables = VoterTables(
            voters, open_log, side_by_side, clock=clock, timeout_ms=settings.answer_timeout_ms
        )
        self.elections = Elections(
            self.tables, clock, new_id, lambda: self.settings().election_timeout_ms
        )
        self._clock = clock
        self._random = random
        self._new_id = new_id
        self._reading = Trouble()
        self._committing = Trouble()
        self._stranded: dict[tuple[VoterKey, QuorumEpoch], int] = {}

    def _patience_ms(self, record_count: int = 0) -> int:
        """Return how long a call waits for a leader; so many records are copied meanwhile."""
        return record_count // COPIED_A_MS + self.settings().call_timeout_ms

    def confirm(self) -> LeaderView:
        """Return the leader, all of whose log a majority was seen to hold, after this call began.

        Raises:
            QuorumUnavailableError: No majority of the voters answers, or none agrees on a leader.
            RootAccessDeniedError: The leader's root refuses this process, and no other voter can
                lead, or others hear the leader.
            KafkaStorageError, ReplicaLostError, CorruptLogError: So of the only voter.
            InconsistentClusterError: A log went back behind what this process has seen.
        """
        start_ms, known, has_elected = self._clock.monotonic_ms(), self.confirmed, False
        while True:
            began_ms = self._clock.monotonic_ms()
            seen, led = self._look_around()
            if led is not None and not led.is_confirmed:
                led = self._end_tail()
            if led is not None and led.is_confirmed:
                self._reading.end()
                if known is not None and known.log is not led.log:
                    _check_continues(led, known.log)
                self.keep(led)
                return led
            until_ms = start_ms + self._patience_ms()
            last_ms = until_ms if has_elected else None
            has_elected |= self._wait_or_elect(self._reading, seen, began_ms, until_ms, last_ms)

    def confirm_writable(self) -> LeaderView:
        """Do as `confirm`; the leader's root takes commits of this process, as far as can be seen
        without one. One that refuses them is replaced as after a commit.
        """
        start_ms = self._clock.monotonic_ms()
        while True:
            began_ms, led = self._clock.monotonic_ms(), self.confirm()
            try:
                self.tables.check_writable(led.key)
            except RootAccessDeniedError:
                if self.tables.is_alone:
                    raise
                self._wait_for_commits(led.key, began_ms, start_ms + self._patience_ms())
            else:
                return led

    def _look_around(self) -> tuple[dict[VoterKey, VoterTable], LeaderView | None]:
        """Return voters' tables as they are now, and the leader that they show: those that confirm
        it, or all that answer.

        The list of voters that this process began with may be old: the voters that any table names
        are asked, too, until none names a newer set (KIP-853). Where they don't answer, former
        voters and those of the first list are asked: they may know of newer ones.
        """
        seen: dict[VoterKey, VoterTable] = {}
        asked: set[VoterKey] = set()
        tables = self.tables
        keys = likely_voters(tables)
        for _ in range(DISCOVERIES_MAX):
            for table in tables.each(keys, tables.look):
                seen[table.key] = table
                led = leader_among(seen)
                if led is not None and led.is_confirmed:
                    tables.use(led.voters)
                    return seen, led
            asked.update(keys)
            tables.learn_voters()
            keys = [key for key in tables.voters.keys if key not in asked]
            if not keys and not tables.voters.is_majority(seen):
                keys = [key for key in tables.known if key not in asked]
            if not keys:
                break
        tables.learn_voters(seen.values())
        return seen, leader_among(seen)

    def _end_tail(self) -> LeaderView | None:
        """Return the leader once a majority holds its end: its writer has a commit's time for that,
        then this process brings the others up."""
        self._clock.sleep_ms(self.settings().commit_ms)
        _, led = self._look_around()
        if led is None or led.is_confirmed:
            return led
        return self.replicate(led.table)

    def replicate(self, leader: VoterTable) -> LeaderView:
        """Have voters follow a leader, whose table is as of now, until a majority does; return who
        was seen to hold its log. The others are brought up after the answer.

        Raises:
            InconsistentClusterError: One log contradicts another.
        """
        view = view_of(leader)
        assert view is not None, leader
        self.tables.use(view.voters)  # a change of voters is in force when it is appended
        if view.is_confirmed:
            return view
        others = [key for key in self.tables.voters.keys if key != leader.key]
        newest = sum(each.end_offset - each.base_offset for each in view.log.batches[-1:])
        ask = partial(follow, self.tables, leader)
        for table in self.tables.each(others, ask, timeout_ms=self._answer_ms(newest)):
            view = view.seen(table)
            if view.is_confirmed:
                break
        return view

    def _answer_ms(self, record_count: int) -> int:
        """Return how long one voter is waited for that takes so many records."""
        return self.settings().answer_timeout_ms + record_count // COPIED_A_MS

    def keep(self, led: LeaderView) -> None:
        """Keep a leader that a majority has confirmed; what failed on one before it is over."""
        self.led = led
        waiting = self._committing.waiting
        if waiting is not None and waiting.epoch < led.epoch:
            self._committing.end()
        known = self.confirmed
        if known is None or led.log.end_offset >= known.log.end_offset:
            self.confirmed = led

    # Appending.

    def append(
        self,
        records: Sequence[Record],
        stamp: Stamp,
        *,
        expected_offset: Offset,
        voters: VoterSet | None = None,
    ) -> MetadataBatch:
        """Append a batch if the log is committed up to `expected_offset` and ends there; return it
        once a majority holds it: of `voters`, if it puts these into force.

        Raises:
            CommitConflictError: The log has gone on. The batch is not in it, and never will be.
            CommitOutcomeUnknownError: It may be in the log, or may still come to be.
            QuorumUnavailableError: There is no leader. Nothing was put.
            KafkaStorageError: So of the only voter. Nothing was put.
            RootAccessDeniedError: The leader's root refuses this process. Nothing was put.
            InconsistentClusterError: One log contradicts another.
        """
        assert records, "an empty batch would be a version without a decision"
        start_ms = self._clock.monotonic_ms()
        led = self.led
        if led is None or led.log.end_offset != expected_offset:
            led = self.confirm()
        self.led = None  # for the case that this call is broken off
        change = append(
            led.table,
            led.epoch,
            led.committed_end,
            base_offset=expected_offset,
            record_count=len(records),
            write_id=self._new_id(),
            voters=voters,
        )
        batch = MetadataBatch(base_offset=expected_offset, stamp=stamp, records=tuple(records))
        write = _Write(led.table, change, batch)
        began_ms = self._clock.monotonic_ms()
        try:
            if not self._is_put_and_followed(write):
                until_ms = start_ms + self._patience_ms(len(records))
                self._resolve(write, began_ms, until_ms)
        except (CommitOutcomeUnknownError, ProtocolError) as failure:
            if not write.may_stand or isinstance(failure, CommitOutcomeUnknownError):
                raise
            raise CommitOutcomeUnknownError(
                f"a decision may be in the metadata log, or come to be: {failure.message}"
            ) from failure
        return write.batch

    def _is_put_and_followed(self, write: _Write) -> bool:
        """Return whether a write was put on the leader's table, and followed by a majority; if not,
        what became of it is open.

        It is not put while a call on that table hangs: a put would wait behind it, and be one more.
        What hangs may be this very write: then a look shows it, once it has landed.

        Raises:
            CommitConflictError: Another commit stands at its version. Was it put before, that may
                be its own.
            InconsistentClusterError: One log contradicts another.
        """
        if self.tables.hangs(write.table.key):
            write.failure = hanging(write.table.key)
            return False
        put = partial(self.tables.append, write.table, write.change, write.batch)
        timeout_ms = self._answer_ms(len(write.batch.records))
        try:
            leader = self.tables.in_time(write.table.key, put, timeout_ms)
        except (CommitOutcomeUnknownError, ProtocolError) as error:
            write.may_stand |= isinstance(error, CommitOutcomeUnknownError)
            write.failure = error
            return False
        write.may_stand, write.failure = True, None
        self._committing.end()
        led = self.replicate(leader)
        if led.is_confirmed:
            self.keep(led)
        return led.is_confirmed

    def _resolve(self, write: _Write, began_ms: int, until_ms: int) -> None:
        """Return once a write is committed of which that is open; its first put began at
        `began_ms`. As long as the leader's table is as it was, the same is put again at the same
        version; a leader that takes no commits is replaced.
        """
        is_alone = self.tables.is_alone
        if write.failure is not None and not is_alone:
            self._commit_failed(write, began_ms)
        for _ in range(TRIES_MAX):
            if self._is_committed(write):
                self._committing.end()
                return
            try:
                if self._is_put_and_followed(write):
                    return
            except CommitConflictError:
                continue  # what stands there, the next look shows
            if write.failure is not None:
                if is_alone:
                    raise write.failure
                self._wait_for_commits(write.table.key, began_ms, until_ms)
            began_ms = self._clock.monotonic_ms()
        raise CommitOutcomeUnknownError("it stays open what became of a decision", tries=TRIES_MAX)

    def _commit_failed(self, write: _Write, began_ms: int) -> None:
        """Note that the leader took no commit of a try that began at `began_ms`: the time until it
        is replaced goes on while it is looked at; unless it was replaced by now."""
        self._committing.unwritable.add(write.table.key)
        if (
            self._failed(self._committing, began_ms, self._clock.monotonic_ms()).epoch
            > write.header.epoch
        ):
            self._committing.end()

    def _is_committed(self, write: _Write) -> bool:
        """Return whether a write is committed; False: the leader's table is as it was.

        Raises:
            CommitConflictError: It is not, and never will be.
            CommitOutcomeUnknownError: Nobody can tell any more.
            RootAccessDeniedError: The leader's root takes commits of others, and none of this
                process.
            And what `confirm` raises.
        """
        led = self.confirm()
        outcome = write.outcome(led)
        if outcome is Outcome.LOST:
            denial = self.tables.denied.get(led.key)
            if denial is not None and led.key == write.table.key:
                raise denial
            raise CommitConflictError("another decision was committed first")
        if outcome is Outcome.UNTOLD:
            raise CommitOutcomeUnknownError(
                "a decision may be in the metadata log: what stands at its place was merged"
            )
        return outcome is Outcome.COMMITTED

    # Where the leader fails.

    def _wait_for_commits(self, leader: VoterKey, began_ms: int, until_ms: int) -> None:
        """Wait a moment, since a leader took no commit of a try that began at `began_ms`; replace
        it once that lasts.

        Raises:
            RootAccessDeniedError: The leader's root refuses this process, and others hear the
                leader, or no other voter can lead.
            QuorumUnavailableError: The time is up, or no majority answers.
        """
        self._committing.unwritable.add(leader)
        keys = self.tables.voters.keys
        self._wait_or_elect(self._committing, keys, began_ms, until_ms, until_ms)

    def _wait_or_elect(
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
        now_ms, heard = self._clock.monotonic_ms(), {*answered}
        timeout_ms = self.settings().fetch_timeout_ms
        waiting = self._failed(trouble, began_ms, now_ms)
        denial = self._denial(trouble)
        tables = self.tables.newest_of_all().values()
        if denial is not None and any(hears_leader(each, waiting) for each in tables):
            trouble.end()
            raise denial
        is_heard = self.tables.voters.is_majority(heard)
        is_due = is_heard and is_election_due(waiting, now_ms, timeout_ms)
        if is_due:
            is_over = elects_until_ms is not None and now_ms >= elects_until_ms
        else:
            is_over = began_ms >= until_ms
        if is_over or not (is_heard or self._may_be_heard(heard)):
            raise denial or self._unavailable()
        if is_due:
            self._elect(trouble, waiting, until_ms)
        else:
            left_ms = waiting.since_ms + timeout_ms - now_ms
            self._clock.sleep_ms(min(PAUSE_MS, left_ms) if left_ms > 0 else PAUSE_MS)
        return is_due

    def _may_be_heard(self, answered: Collection[VoterKey]) -> bool:
        """Return whether a majority may answer yet: who has not failed is slow, and goes on with
        what it was asked. A process that opens a large log, or has no processor, takes longer than
        it waits for an answer."""
        voters = self.tables.voters
        return voters.is_majority(
            [key for key in voters.keys if key in answered or key not in self.tables.failures]
        )

    def _denial(self, trouble: Trouble) -> RootAccessDeniedError | None:
        """Return how the leader's root refuses what this process tries; None: it does not."""
        leader = newest_leader(self.tables.newest_of_all())
        tables = self.tables
        refusals = tables.denied if trouble is self._committing else tables.failures
        found = None if leader is None else refusals.get(leader)
        return found if isinstance(found, RootAccessDeniedError) else None

    def _elect(self, trouble: Trouble, waiting: Waiting, until_ms: int) -> None:
        denied = self.tables.denied
        unwritable = trouble.unwritable | self._committing.unwritable | denied.keys()
        try:
            candidacy = self.elections.ask(waiting, unwritable)
        except QuorumUnavailableError as unavailable:
            voters, failures = self.tables.voters, self.tables.failures
            able = [key for key in voters.keys if key not in denied and key not in failures]
            is_slow = self._clock.monotonic_ms() < until_ms and voters.is_majority(able)
            denial = self._denial(trouble)
            if not is_slow and (denial is not None or not unwritable):
                raise denial or unavailable from None
            # Nobody else can stand: they may take commits again; or who did not answer is slow.
            trouble.unwritable, self._committing.unwritable = set(), set()
            denied.clear()
            self._back_off(trouble)
            return
        if candidacy is None:
            trouble.waiting = self._waiting(self._clock.monotonic_ms())
        elif self.elections.elect(candidacy) is not None:
            self._reading.end()
            self._committing.end()
        else:
            if candidacy.key in self.tables.failures:
                trouble.unwritable.add(candidacy.key)
            self._back_off(trouble)

    def _back_off(self, trouble: Trouble) -> None:
        trouble.failed_elections += 1
        most_ms = self.settings().election_backoff_max_ms
        pause_ms = retry_backoff_ms(trouble.failed_elections, self._random(), most_ms)
        self._clock.sleep_ms(pause_ms)

    def _failed(self, trouble: Trouble, began_ms: int, now_ms: int) -> Waiting:
        """Note that a try failed, which began at `began_ms`; return since when tries have failed,
        one after the other. Looks and commits add up: they ask the same leader."""
        timeout_ms = self.settings().fetch_timeout_ms
        waiting = trouble.lasting(began_ms, timeout_ms)
        if waiting is None:
            others = (self._reading, self._committing)
            lasting = (each.lasting(began_ms, timeout_ms) for each in others)
            waiting = next((each for each in lasting if each is not None), None)
            if waiting is None:
                # A root that hangs fails as long as it was waited for. No more than that is
                # counted, and half of the fetch timeout at most: a process that was frozen in its
                # try has not waited, and voters are watched for signs of the leader.
                most_ms = min(self.settings().answer_timeout_ms, timeout_ms // 2)
                waiting = self._waiting(max(began_ms, now_ms - most_ms))
            trouble.waiting = waiting
        trouble.last_ms = self._clock.monotonic_ms()
        return waiting

    def _waiting(self, since_ms: int) -> Waiting:
        """Begin to wait, and look where each voter's log ends now: what this process has seen of
        it may be old, and then a batch of long ago would pass for one that was taken since. Voters
        that hang are not waited for once more."""
        tables = self.tables
        keys = [key for key in tables.voters.keys if not tables.is_alone and not tables.hangs(key)]
        ends = {table.key: table.log.end_offset for table in tables.each(keys, tables.look)}
        epochs = (epoch for each in tables.newest_of_all().values() for _, epoch in each.leaders)
        return Waiting(since_ms, max(epochs, default=NO_EPOCH), ends)

    def _unavailable(self) -> KafkaOnSparkError:
        voters, failures = self.tables.voters, dict(self.tables.failures)
        why = [f"{key}: {failures[key].message}" for key in voters.keys if key in failures]
        if len(voters.voters) == 1 and why:
            return as_met_alone(failures[voters.keys[0]])
        return QuorumUnavailableError(
            f"no majority of the {len(voters.voters)} voters of the metadata quorum answers and"
            f" agrees on a leader ({'; '.join(why) or 'all answer'}): make more of their roots"
            " reachable, or try again"
        )

    def rescue_stranded(self) -> None:
        """Have the leader elected again where a voter stays above its epoch without a leader, since
        a candidate died: else that voter is lost to the quorum, and nobody says so."""
        led, now_ms = self.led, self._clock.monotonic_ms()
        if led is None or self.tables.is_alone:
            return
        seen = self.tables.newest_of_all().values()
        terms = [(each.key, each.quorum_epoch) for each in seen if is_stranded(each, led.table)]
        self._stranded = {term: self._stranded.get(term, now_ms) for term in terms}
        due_ms = now_ms - self.settings().fetch_timeout_ms
        due = {term for term, since_ms in self._stranded.items() if since_ms <= due_ms}
        for leader in self.tables.each([led.key] if due else (), self.tables.look):
            # Others may have taken that voter back, or do so, or have elected another leader.
            if leader.quorum_epoch == led.epoch:
                for table in self.tables.each({key for key, _ in due}, self.tables.look):
                    if (table.key, table.quorum_epoch) in due and is_stranded(table, leader):
                        self.led = None
                        self.elections.elect_again(leader)
                        return


def as_met_alone(error: KafkaOnSparkError) -> KafkaOnSparkError:
    """Return the error of the only voter as its user meets it: where a log went back that no other
    voter has, nothing may go on."""
    if isinstance(error, ReplicaLostError):
        return InconsistentClusterError(error.message)
    return error


def _check_continues(led: LeaderView, known: RaftLog) -> None:
    """Check a confirmed log against what was confirmed before it was looked at.

    Raises:
        InconsistentClusterError: It lacks some of that.
    """
    newest = known.batches[-1] if known.batches else None
    if newest is not None and not has_write(led.log, newest):
        raise InconsistentClusterError(
            f"the metadata log of voter {led.key} went back behind {newest.end_offset}, which"
            " this process has seen committed: a voter was restored from a copy, then stop, and"
            " remove it; or the quorum was forced to go on without that, then begin anew",
            epoch=led.epoch,
        )
