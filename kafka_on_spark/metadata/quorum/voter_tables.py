"""The voters' tables as this process sees them, and calls on their roots, several at once: who
answers in time, who fails, who hangs.

A voter that can't be asked is left out of the answers: it counts for nothing. Why is kept, for
people. One error ends each call: a log that contradicts another (InconsistentClusterError).
"""

import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar, cast

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    InconsistentClusterError,
    KafkaOnSparkError,
    KafkaStorageError,
    ReplicaLostError,
    RootAccessDeniedError,
    RootFullError,
)
from kafka_on_spark.base.ids import Clock
from kafka_on_spark.metadata.quorum.raft import adopt, fetch
from kafka_on_spark.metadata.quorum.voter_log import OpenVoterLog, VoterLog
from kafka_on_spark.metadata.quorum.voter_table import (
    UNREADABLE,
    TableChange,
    Voter,
    VoterKey,
    VoterSet,
    VoterTable,
    newest_voters,
)
from kafka_on_spark.metadata.records import MetadataBatch
from kafka_on_spark.store.deadlines import SystemClock, begin, until_committed

log = logging.getLogger(__name__)

T = TypeVar("T")

Ask = Callable[[VoterKey], T | None]

LEFT_CALLS_MAX: Final = 2
"""A voter on which so many calls were left behind is asked no more until one of them ends: a root
that hangs for hours piles up nothing."""


ANSWER_MS_MAX: Final = 5_000
"""Whatever roots took, their voters are waited for as if it had been this at most: else a leader
that dies after an outage of all would be replaced late."""


def _recent() -> deque[int]:
    return deque(maxlen=8)


@dataclass(eq=False, slots=True)
class VoterCall(Generic[T]):
    """A call on a voter, from the moment that it is to be made, and what it returned or raised. It
    raises nothing itself: its caller may be gone.

    Attributes:
        ended: Is called once it has ended, in the same thread.
        is_left: Nobody waits for it any more.
    """

    key: VoterKey
    ask: Callable[[], T]
    began_ms: int = 0
    ended: "Callable[[VoterCall[Any]], None]" = lambda call: None
    is_left: bool = False
    found: T | None = None
    error: Exception | None = None

    def __call__(self) -> "VoterCall[T]":
        try:
            self.found = self.ask()
        except Exception as error:
            self.error = error
        finally:
            self.ended(self)
        return self


class SideBySide:
    """Makes calls on several voters at once, each in a thread of its voter's root: none waits for a
    call on another voter, however many hang. `root_of`: where a voter is.

    A caller may stop asking; calls that are not done then go on by themselves, and their results
    are lost. Not `concurrent.futures.as_completed`: it holds every future until the last is done.
    """

    def __init__(self, root_of: Callable[[VoterKey], str]) -> None:
        self._root_of = root_of

    def run(self, calls: Sequence[VoterCall[T]], timeout_ms: int) -> Iterator[VoterCall[T]]:
        """Yield `calls` as they end, for `timeout_ms` at most."""
        done: SimpleQueue[VoterCall[T]] = SimpleQueue()

        def make(call: VoterCall[T]) -> None:
            done.put(call())

        for call in calls:
            try:
                begin(self._root_of(call.key), partial(make, call))
            except KafkaStorageError:
                make(call)  # no call to this root begins, so this one fails at once
        clock = SystemClock()
        end_ms = clock.monotonic_ms() + timeout_ms
        for _ in calls:
            try:
                yield done.get(timeout=max(0, end_ms - clock.monotonic_ms()) / 1000)
            except Empty:
                return


class VoterTables:
    """The voters' logs, what was seen of them, and the calls on them that are under way. Threads
    share it.

    Attributes:
        voters: The newest set that a leader's log has shown.
        is_alone: Whether that is one voter, which is waited for as long as its calls take.
        known: All that this process has heard of: voters, former ones, roots that may be some.
        failures: Why a voter did not answer last; who answered is not in it.
        denied: How a voter's root refuses writes of this process, until it takes one.
        refusals: The same, and who is full; for people, who are told by the voter's name.
    """

    def __init__(
        self,
        voters: VoterSet,
        open_log: OpenVoterLog,
        side_by_side: SideBySide,
        *,
        clock: Clock,
        timeout_ms: Callable[[], int],
    ) -> None:
        self.voters = voters
        self.is_alone = len(voters.voters) == 1
        self.known = {each.key: each for each in voters.voters}
        self.failures: dict[VoterKey, KafkaOnSparkError] = {}
        self.denied: dict[VoterKey, RootAccessDeniedError] = {}
        self.refusals: dict[VoterKey, KafkaOnSparkError] = {}
        self._logs: dict[VoterKey, VoterLog] = {}
        self._open_log = open_log
        self._side_by_side = side_by_side
        self.clock = clock
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self._under_way: defaultdict[VoterKey, set[VoterCall[Any]]] = defaultdict(set)
        self._took_ms: defaultdict[VoterKey, deque[int]] = defaultdict(_recent)

    def use(self, voters: VoterSet) -> None:
        """Ask these voters from now on. Calls to former ones may still be under way."""
        if voters != self.voters:
            with self._lock:  # others go through what is known
                self.known = self.known | {each.key: each for each in voters.voters}
            self.voters = voters
            self.is_alone = len(voters.voters) == 1

    def know(self, voter: Voter) -> None:
        """Have a root be asked for by its key, that is no voter as yet."""
        with self._lock:
            self.known = {**self.known, voter.key: voter}

    def log_of(self, key: VoterKey) -> VoterLog:
        """Return a voter's log; a former one's, too."""
        found = self._logs.get(key)
        if found is None:
            opened = self._open_log(self.known[key])  # without the lock: its root may hang
            with self._lock:
                found = self._logs.setdefault(key, opened)
        return found

    def newest(self, key: VoterKey) -> VoterTable | None:
        return self._logs[key].seen if key in self._logs else None

    def newest_of_all(self) -> dict[VoterKey, VoterTable]:
        return {each.key: each for each in map(self.newest, self.voters.keys) if each is not None}

    def seen(self) -> list[VoterTable]:
        """Return all tables, also of former voters."""
        with self._lock:
            logs = list(self._logs.values())
        return [each.seen for each in logs if each.seen is not None]

    def learn_voters(self, answered: Iterable[VoterTable] | None = None) -> None:
        """Ask the voters from now on that the best log names which this process has seen, or which
        has just answered: what only a root that is away says may have been cut since."""
        found = newest_voters(self.seen() if answered is None else answered)
        if found is not None:
            self.use(found)

    def load(self, key: VoterKey) -> VoterTable:
        return self.log_of(key).load()

    def look(self, key: VoterKey) -> VoterTable:
        """Return a voter's table as it is now; if nothing was committed since, that is one look."""
        voter = self.log_of(key)
        known = voter.seen
        return known if known is not None and voter.is_newest(known) else voter.load()

    def check_writable(self, key: VoterKey) -> None:
        """Check that a voter's root takes commits, as far as can be seen without one."""
        try:
            self.log_of(key).check_writable()
        except RootAccessDeniedError as error:
            self.denied[key] = error
            raise

    def commit(
        self,
        table: VoterTable,
        change: TableChange,
        appended: VoterKey | MetadataBatch | None = None,
    ) -> VoterTable:
        """Commit on a voter's table. `appended`: the voter that has the batches which `change`
        appends, or the new one."""
        key, voter = table.key, self.log_of(table.key)
        try:
            if appended is None or isinstance(appended, MetadataBatch):
                after = voter.commit(table, change, appended)
            else:
                after = voter.commit(table, change, self.log_of(appended))
        except (RootAccessDeniedError, RootFullError, CommitOutcomeUnknownError) as error:
            refusal = error.__cause__ if isinstance(error, CommitOutcomeUnknownError) else error
            if isinstance(refusal, RootAccessDeniedError):
                self.denied[key] = refusal
            if isinstance(refusal, RootAccessDeniedError | RootFullError):
                self.refusals[key] = refusal
            raise
        self.denied.pop(key, None)
        self.refusals.pop(key, None)
        return after

    def as_met(self, error: KafkaOnSparkError) -> KafkaOnSparkError:
        """Return the error of a voter as its user meets it. What one of several lost, others may
        have; where a log went back that no other voter has, nothing may go on."""
        if self.is_alone and isinstance(error, ReplicaLostError):
            return InconsistentClusterError(error.message)
        return error

    def look_at_all(self, timeout_ms: int) -> tuple[list[VoterTable], list[VoterKey]]:
        """Look at all voters, and former ones, those that others name too; return the tables of
        those that answer in time, and who neither answers nor fails.
        """
        seen: dict[VoterKey, VoterTable] = {}
        asked: set[VoterKey] = set()
        while keys := [key for key in self.known if key not in asked]:
            asked.update(keys)
            for key in keys:
                self.failures.pop(key, None)  # what it was before says nothing of now
            for table in self.each(keys, self.look, timeout_ms=timeout_ms):
                seen[table.key] = table
            self.learn_voters(seen.values())
        silent = (key for key in asked if key not in seen and key not in self.failures)
        return list(seen.values()), sorted(silent)

    def root_ms(self, key: VoterKey) -> int | None:
        """Return the time of a voter's root; None: it tells none now, which says nothing more."""

        def ask() -> int | None:
            try:
                return self.log_of(key).root_ms()
            except UNREADABLE as error:
                log.info("the root of voter %s does not tell the time: %s", key, error)
                return None

        try:
            return None if self.hangs(key) else self.in_time(key, ask)
        except (CommitOutcomeUnknownError, KafkaStorageError):
            return None

    def each(
        self, keys: Iterable[VoterKey], ask: Ask[T], *, timeout_ms: int | None = None
    ) -> Iterator[T]:
        """Ask several voters at once; yield what `ask` returns, as it comes, for `timeout_ms` at
        most (None: for as long as a voter may take to answer).

        A caller may stop: what is under way goes on by itself."""
        asks = [(key, partial(ask, key)) for key in keys]
        if self.is_alone and len(asks) == 1:
            [(key, only)] = asks
            calls = iter([VoterCall(key, only, ended=self._ended)()])
        else:
            calls = self._ended_in_time(self._begun(asks), timeout_ms)
        for call in calls:
            error = call.error
            is_of_a_root = isinstance(error, KafkaOnSparkError) and not isinstance(
                error, InconsistentClusterError
            )
            if error is not None and not is_of_a_root:
                raise error
            if call.found is not None:
                yield call.found

    def in_time(self, key: VoterKey, ask: Callable[[], T], timeout_ms: int | None = None) -> T:
        """Return what `ask` returns, which calls voter `key` and no other. One of several voters is
        waited for as `each` waits; the only one for as long as its calls take.

        Raises:
            CommitOutcomeUnknownError: It does not answer in time: what it was asked goes on by
                itself, and what that puts may land.
            KafkaStorageError: Too many calls on it hang. It was not asked.
            And what `ask` raises.
        """
        if self.is_alone:
            return ask()
        calls = self._begun([(key, ask)])
        if not calls:
            raise hanging(key)
        for call in self._ended_in_time(calls, timeout_ms):
            if call.error is not None:
                raise call.error
            return cast(T, call.found)
        raise CommitOutcomeUnknownError(
            f"voter {key} does not answer in time: what it was asked may still be done"
        )

    def answer_ms(self) -> int:
        """Return how long the voters' last calls took at most, by the median voter of those that
        have answered: one whose root hung for a minute makes nobody patient."""
        with self._lock:
            took = (self._took_ms[key] for key in self.voters.keys)
            slowest = sorted(max(each) for each in took if each)
        return min(slowest[(len(slowest) - 1) // 2], ANSWER_MS_MAX) if slowest else 0

    def hangs(self, key: VoterKey) -> bool:
        """Return whether a call on a voter has been under way for longer than it is waited for."""
        if self.is_alone:
            return False
        before_ms = self.clock.monotonic_ms() - self._timeout_ms()
        with self._lock:
            return any(each.began_ms <= before_ms for each in self._under_way[key])

    def troubled(self) -> list[VoterKey]:
        """Return the voters that did not answer when they were last asked, or hang."""
        return [key for key in self.voters.keys if key in self.failures or self.hangs(key)]

    def _begun(self, asks: Sequence[tuple[VoterKey, Callable[[], T]]]) -> list[VoterCall[T]]:
        """Count a call on each voter, but for those on which too many hang."""
        calls = []
        with self._lock:
            for key, ask in asks:
                left = sum(each.is_left for each in self._under_way[key])
                if self.is_alone or left < LEFT_CALLS_MAX:
                    calls.append(VoterCall(key, ask, self.clock.monotonic_ms(), self._ended))
                    self._under_way[key].add(calls[-1])
        return calls

    def _ended_in_time(
        self, calls: Sequence[VoterCall[T]], timeout_ms: int | None
    ) -> Iterator[VoterCall[T]]:
        try:
            limit_ms = self._timeout_ms() if timeout_ms is None else timeout_ms
            yield from self._side_by_side.run(calls, limit_ms)
        except KafkaOnSparkError:  # no thread makes them
            with self._lock:
                for each in calls:
                    self._under_way[each.key].discard(each)
            raise
        finally:
            for each in calls:
                each.is_left = True

    def _ended(self, call: VoterCall[Any]) -> None:
        """Keep why a call failed, and report what is wrong: its caller may be gone."""
        key, error = call.key, call.error
        with self._lock:
            self._under_way[key].discard(call)
            if error is None and not self.is_alone:
                self._took_ms[key].append(self.clock.monotonic_ms() - call.began_ms)
        if error is None:
            self.failures.pop(key, None)
        elif isinstance(error, InconsistentClusterError):
            log.error("voter %s: %s", key, error)
        elif not isinstance(error, KafkaOnSparkError):
            log.error("a call on voter %s failed", key, exc_info=error)
        elif not isinstance(error, CommitConflictError):  # after which it has answered
            log.debug("voter %s is left out: %s", key, error)
            self.failures[key] = error


def hanging(key: VoterKey) -> KafkaStorageError:
    return KafkaStorageError(
        f"voter {key} does not answer: calls to it hang, and no more begin until one of them"
        " returns"
    )


FETCH_RECORDS_MAX: Final = 100_000
"""Records of one commit of a voter that was away: what it takes in memory has a bound."""


def follow(tables: VoterTables, leader: VoterTable, key: VoterKey) -> VoterTable:
    """Bring voter `key` up to what was seen of `leader`: adopt it, and fetch what the voter lacks
    of its log; return the voter's table, as it is now.

    Any process does so for any voter, and several at once: who loses a race counts the winner's
    commit. Invariants that these commits keep: Q4 and Q8 (a batch is taken under its leader's mark
    alone).
    """

    def commit(voter: VoterTable) -> VoterTable:
        while change := adopt(voter, leader) or fetch(voter, leader, records_max=FETCH_RECORDS_MAX):
            voter = tables.commit(voter, change, leader.key)
        return voter

    known = tables.newest(key)
    voter = until_committed(partial(tables.load, key), commit, known, clock=tables.clock)
    if voter is not known:
        return voter
    return until_committed(partial(tables.look, key), commit, clock=tables.clock)
