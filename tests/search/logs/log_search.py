"""Every interleaving of the file calls of a few processes that use one table's log.

The code is the real one (file_calls.py); what a process may be at a call is run once
(log_processes.py), so that a state is a few numbers. A process may be frozen before each call, or
end there: then others go on, which the search visits anyway.

A read is taken as late as it can be: right before the next effect of its own process, or right
before what it reads is changed. Any order of calls can be brought into this one by moving reads past
changes of other files, which changes no answer.
"""

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any
from unittest import mock

from kafka_on_spark.metadata.metadata_service import CollectorPaused
from kafka_on_spark.store.delta import delta_log, log_cleaning
from kafka_on_spark.store.delta.delta_files import checkpoint_version
from tests.search.logs.file_calls import LOCAL, STORE, Answers, Call, calls_answered
from tests.search.logs.log_invariants import check_files, check_opened, check_told
from tests.search.logs.log_processes import Known, Process, Processes, Told
from tests.search.logs.log_world import DAMAGED, Allowance, LogWorld, Table
from tests.search.world import Found, Violation

State = tuple[int, ...]
"""The table, and each process."""

Change = tuple[frozenset[str], bool]
"""Names of files that differ, and whether one came or went."""


@dataclass(frozen=True, slots=True)
class LogScope:
    """The bounds of one search.

    Attributes:
        programs: What each process does: operations of log_processes.py, in order.
        since: The version at which each has seen the table; -1: it has not.
        newest: The table's version at first; -1: there is no table.
        allowance: What happens besides.
        interval: Commits between checkpoints.
        commits_kept, checkpoints_kept: What cleaning leaves.
        is_local: The table is on a disk; else on a store.
    """

    programs: tuple[str, ...]
    since: tuple[int, ...]
    newest: int
    allowance: Allowance
    interval: int = 2
    commits_kept: int = 1
    checkpoints_kept: int = 2
    is_local: bool = True


class LogSearch:
    def __init__(self, scope: LogScope) -> None:
        self.scope = scope
        self.uri = LOCAL if scope.is_local else STORE
        self.answers = Answers()
        self.world = LogWorld(scope.interval, is_local=scope.is_local)
        self.found = Found()
        self._tables: list[Table] = []
        self._table_numbers: dict[Table, int] = {}
        self._steps: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._next_moves: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
        self._events: dict[int, list[tuple[str, int]]] = {}
        self._opened: set[Any] = set()
        self._reads: dict[tuple[int, int], list[int]] = {}
        self._changes: dict[tuple[int, int], Change] = {}
        self._ways_before: dict[tuple[int, int, Change], tuple[int, ...]] = {}
        self.ways: dict[State, tuple[State, str] | None] = {}

    @contextmanager
    def _rules(self) -> Iterator[None]:
        logging.disable(logging.WARNING)
        with (
            calls_answered(self.answers, self.uri),
            mock.patch.object(delta_log, "CHECKPOINT_INTERVAL", self.scope.interval),
            mock.patch.object(log_cleaning, "COMMITS_KEPT", self.scope.commits_kept),
            mock.patch.object(log_cleaning, "COMMITS_KEPT_MS", 0),
            mock.patch.object(log_cleaning, "CHECKPOINTS_KEPT", self.scope.checkpoints_kept),
        ):
            try:
                yield
            finally:
                logging.disable(logging.NOTSET)

    def run(self, states_max: int = 100_000_000) -> Found:
        """Visit every state, those few steps away first; stop at the first violation."""
        # Nothing here is a cycle, and tuples take long to go through.
        with CollectorPaused(), self._rules():
            self.processes = Processes(self.uri, self.answers)
            self._run(states_max)
        self.found.states = len(self.ways)
        return self.found

    def _run(self, states_max: int) -> None:
        state: State | None = None
        try:
            first = self._first()
            queue = deque([first])
            self.ways[first] = None
            while queue and len(self.ways) < states_max:
                state = queue.popleft()
                self._go_on(state, queue)
        except Violation as violation:
            self.found.violation = violation.invariant
            self.found.message = str(violation)
            self.found.path = () if state is None else self._told(state)
        else:
            self.found.is_whole = not queue

    def _go_on(self, state: State, queue: deque[State]) -> None:
        for label, after in self._following(state):
            if after not in self.ways:
                self.ways[after] = (state, label)
                queue.append(after)

    def _first(self) -> State:
        scope, table = self.scope, Table()
        known = {-1: Known()}
        for version in range(scope.newest + 1):
            table = self.world.grown(table)
            if version in scope.since:
                known[version] = self._alone(table, Process("first", ("refresh",))).known
        table = replace(table, allowance=scope.allowance)
        processes = [
            self.processes.number(Process(chr(ord("a") + place), tuple(text.split()), known[since]))
            for place, (text, since) in enumerate(zip(scope.programs, scope.since, strict=True))
        ]
        return (self._table(table), *processes)

    def _alone(self, table: Table, process: Process) -> Told:
        """Return what a process comes to that nobody interrupts, on what is then no longer there."""
        at = table

        def answer(call: Call) -> Any:
            nonlocal at
            given, at = self.world.effect(at, call, process.stamp)
            return given

        return self.processes.alone(process, answer)

    def _table(self, table: Table) -> int:
        number = self._table_numbers.get(table)
        if number is None:
            self._check(table)
            number = self._table_numbers[table] = len(self._tables)
            self._tables.append(table)
        return number

    def _check(self, table: Table) -> None:
        """Check a log's files: also that it opens, whichever checkpoints might be damaged yet."""
        if table.newest < 0:
            return
        check_files(self.world, table)
        damages = self.scope.allowance.damages - table.allowance.damages
        # A process that opens the log alone never sees two files of one name, so it is all the same
        # which process put which file.
        contents = tuple((name, content) for name, (content, _) in table.files)
        key = (contents, tuple(content for content, _ in table.history), damages)
        if key in self._opened:
            return
        self._opened.add(key)
        for each in self._damaged(table, self.scope.checkpoints_kept - 1 - damages):
            check_opened(self.world, each, self._alone(each, Process("opener", ("refresh",))))

    def _damaged(self, table: Table, more: int) -> Iterator[Table]:
        yield table
        for name, (content, stamp) in table.files if more else ():
            if checkpoint_version(name) is not None and content != DAMAGED:
                yield from self._damaged(table.with_file(name, (DAMAGED, stamp)), more - 1)

    def _following(self, state: State) -> Iterator[tuple[str, State]]:
        number, processes = state[0], state[1:]
        for place, process in enumerate(processes):
            for label, table, after in self._moves(number, process):
                yield from self._changed(label, number, table, processes, (place, after))
        for label, table in self._events_of(number):
            yield from self._changed(label, number, table, processes, None)

    def _moves(self, number: int, process: int) -> list[tuple[str, int, int]]:
        """Return what the next call of a process that may change something leads to: its name, the
        table and the process."""
        found = self._next_moves.get((number, process))
        if found is None:
            found = self._next_moves[number, process] = []
            at = self._read(number, process)[-1]
            call, name = self.processes.calls[at], self.processes.processes[at].name
            if call is not None:
                label = f"{name}: {call.operation} {' '.join(call.names)}"
                found += [(label, *each) for each in self._steps_of(number, at)]
        return found

    def _changed(
        self,
        label: str,
        number: int,
        table: int,
        processes: State,
        moved: tuple[int, int] | None,
    ) -> Iterator[tuple[str, State]]:
        """Yield the states after a change of the table: each other process may have read before
        what is changed, or not. `moved`: the place of the process that changed it, and what it is
        now."""
        change = self._change(number, table)
        ways = [self._read_before(number, process, change) for process in processes]
        if moved is not None:
            ways[moved[0]] = (moved[1],)
        for after in product(*ways):
            yield label, (table, *after)

    def _change(self, number: int, table: int) -> Change:
        """Return the names of the files that differ, and whether one came or went."""
        found = self._changes.get((number, table))
        if found is None:
            before, after = self._tables[number].files, self._tables[table].files
            changed = frozenset(name for name, _ in {*before} ^ {*after})
            has_other_names = {name for name, _ in before} != {name for name, _ in after}
            found = self._changes[number, table] = (changed, has_other_names)
        return found

    def _read(self, number: int, process: int) -> list[int]:
        """Return a process at each of its calls up to the first that may change something, or to
        its end, while nothing is changed; what it is told meanwhile is checked."""
        found = self._reads.get((number, process))
        if found is None:
            found = [process]
            while (call := self.processes.calls[found[-1]]) is not None and call.is_read:
                ((_, following),) = self._steps_of(number, found[-1])
                found.append(following)
            self._reads[number, process] = found
        return found

    def _read_before(self, number: int, process: int, change: Change) -> tuple[int, ...]:
        """Return what a process may be when something is changed: it has read nothing since the
        last change, or all up to one of the calls that this change makes another."""
        key = (number, process, change)
        ways = self._ways_before.get(key)
        if ways is None:
            at = self._read(number, process)
            changed = [
                after
                for before, after in pairwise(at)
                if (call := self.processes.calls[before]) is not None and call.sees(*change)
            ]
            ways = self._ways_before[key] = (process, *changed)
        return ways

    def _steps_of(self, number: int, process: int) -> list[tuple[int, int]]:
        key = (number, process)
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = list(self._made_steps(self._tables[number], process))
        return found

    def _made_steps(self, table: Table, process: int) -> Iterator[tuple[int, int]]:
        call, before = self.processes.calls[process], self.processes.processes[process]
        assert call is not None
        for answer, after in self.world.effects(table, call, before.stamp):
            following, told = self.processes.answered(process, answer, table.newest)
            if told is not None:
                floor = table.newest if before.floor is None else before.floor
                has_failed = bool(after.pending) or (
                    after.allowance.faults < self.scope.allowance.faults
                )
                check_told(self.world, after, told, floor, has_failed=has_failed)
                self.found.seen[f"{told.operation} {told.outcome}"] += 1
            yield self._table(after), following

    def _events_of(self, number: int) -> list[tuple[str, int]]:
        found = self._events.get(number)
        if found is None:
            found = self._events[number] = [
                (label, self._table(after))
                for label, after in self.world.events(self._tables[number])
            ]
        return found

    def _told(self, state: State) -> tuple[str, ...]:
        lines, at = [], self.ways[state]
        while at is not None:
            lines.append(at[1])
            at = self.ways[at[0]]
        return tuple(reversed(lines))


def search_log(scope: LogScope, states_max: int = 100_000_000) -> Found:
    with CollectorPaused():  # until the states are gone
        return LogSearch(scope).run(states_max)
