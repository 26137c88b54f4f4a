"""Every interleaving of the file calls of a few processes on one log keeps what a log must keep."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.search.logs.log_scopes import (
    CHECKPOINTERS,
    CREATORS,
    DAMAGED,
    DYING,
    HINTS,
    LATE,
    LISTERS,
    MARGIN,
    OPENERS,
    SLEEPERS,
    STRAYS,
    TWICE,
    UNSAID,
    WIDE,
)
from tests.search.logs.log_search import LogSearch, State, search_log

SCOPES = {
    "a writer and a follower that were asleep": (
        SLEEPERS,
        {"commit conflict", "commit unknown", "ask done", "ask no"},
    ),
    "writers asleep at different versions": (STRAYS, {"refresh done"}),
    "a writer that commits twice": (TWICE, {"commit done", "commit unknown"}),
    "puts whose answer is lost": (UNSAID, {"commit done", "commit conflict", "clean failed"}),
    "puts that land later": (LATE, {"commit done", "commit conflict", "commit unknown"}),
    "a writer that sleeps for few commits": (MARGIN, {"commit done", "commit unknown"}),
    "a process that opens what is cleaned": (OPENERS, {"refresh done"}),
    "processes that list what grows": (LISTERS, {"refresh done"}),
    "a checkpoint that is damaged": (DAMAGED, {"refresh done", "clean done"}),
    "two cleaners that may end anywhere": (DYING, {"clean done", "clean failed"}),
    "two processes that create a table": (CREATORS, {"create done", "create conflict"}),
    "a process that writes a checkpoint": (CHECKPOINTERS, {"checkpoint done", "clean done"}),
    "a hint that misleads": (HINTS, {"checkpoint done"}),
}
LONG_ON_A_STORE = (STRAYS, UNSAID, TWICE, CREATORS, HINTS)
"""Their whole searches take longest there: a lost put has three ways to go on."""

LONG_ON_A_DISK = (OPENERS, DAMAGED, SLEEPERS, CHECKPOINTERS, DYING)
"""Their whole searches take longest there, and little time on a store."""


def cases() -> list[Any]:
    found = []
    for name, (scope, wanted) in SCOPES.items():
        for is_local in (True, False):
            if scope is LATE and is_local:
                continue
            is_long = scope in (LONG_ON_A_DISK if is_local else LONG_ON_A_STORE)
            marks = [pytest.mark.long] if is_long else []
            where = "disk" if is_local else "store"
            each = replace(scope, is_local=is_local)
            found.append(pytest.param(each, wanted, id=f"{name}, {where}", marks=marks))
    return found


@pytest.mark.parametrize("scope, wanted", cases())
def test_a_log_keeps_its_promises_in_every_state(scope, wanted):
    found = search_log(scope)

    assert found.violation is None, "\n".join([found.message, *found.path])
    assert found.is_whole
    assert wanted <= found.seen.keys()


@pytest.mark.long
@pytest.mark.parametrize("is_local", [True, False])
def test_a_wide_scope_keeps_its_promises(is_local):
    scope = replace(WIDE, is_local=is_local)

    found = search_log(scope, 4_000_000)

    assert found.violation is None, "\n".join([found.message, *found.path])


class Plain(LogSearch):
    """The search without late reads: each call is a step of its own, at any time."""

    def _following(self, state: State) -> Iterator[tuple[str, State]]:
        number, processes = state[0], state[1:]
        for place, process in enumerate(processes):
            if self.processes.calls[process] is not None:
                for table, after in self._steps_of(number, process):
                    yield "", (table, *processes[:place], after, *processes[place + 1 :])
        for label, table in self._events_of(number):
            yield label, (table, *processes)


def contents(searched: LogSearch) -> set[Any]:
    """Return what stood in the folder; who put it at which of its calls depends on the order."""
    return {
        tuple((name, content) for name, (content, _) in each.files) for each in searched._tables
    }


@pytest.mark.parametrize("is_local", [pytest.param(True, marks=pytest.mark.long), False])
def test_late_reads_of_a_log_lose_nothing(is_local):
    """The same files occur and the same is told as when each call is made at any time."""
    scope = replace(
        SLEEPERS, programs=("commit refresh", "clean"), since=(0, -1), is_local=is_local
    )
    plain, reduced = Plain(scope), LogSearch(scope)
    every, fewer = plain.run(), reduced.run()

    assert every.is_whole
    assert fewer.is_whole
    assert fewer.states < every.states / 3
    assert contents(reduced) == contents(plain)
    assert reduced.found.seen.keys() == plain.found.seen.keys()
