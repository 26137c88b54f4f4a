"""Every interleaving of the file calls of a few processes on one log keeps what a log must keep."""

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
from tests.search.logs.log_search import search_log

SCOPES = {
    "a writer and a follower that were asleep": (
        SLEEPERS,
        {"commit conflict", "commit unknown", "ask done", "ask no"},
    ),
    "writers asleep at different versions": (STRAYS, {"commit unknown", "refresh done"}),
    "a writer that commits twice": (TWICE, {"commit done", "commit unknown"}),
    "puts whose answer is lost": (UNSAID, {"commit done", "commit conflict", "clean failed"}),
    "puts that land later": (LATE, {"commit done", "commit conflict", "commit unknown"}),
    "a writer that sleeps for few commits": (MARGIN, {"commit done", "commit unknown"}),
    "a process that opens what is cleaned": (OPENERS, {"refresh done", "commit unknown"}),
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
