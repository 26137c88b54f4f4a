"""Checks many states of one record."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.power.states.checks import Bench, promises_at, what_is_wrong
from tests.power.states.crashes import CrashState, Record, crash_states, with_trees

DRAWN = 12
"""States by chance at each moment."""

SEED = 15


@dataclass(frozen=True, slots=True)
class Violation:
    state: CrashState
    wrong: Sequence[str]

    def __str__(self) -> str:
        return f"after {self.state.at} changes, {self.state.choice.how}: {'; '.join(self.wrong)}"


def all_states(record: Record) -> list[CrashState]:
    return crash_states(record, random.Random(SEED), drawn=DRAWN)


def spread(states: Sequence[CrashState], count: int) -> list[CrashState]:
    if len(states) <= count:
        return list(states)
    return [states[at * len(states) // count] for at in range(count)]


def violations(
    bench: Bench, record: Record, states: Sequence[CrashState], *, goes_on_each: int
) -> Iterator[Violation]:
    """Open states and yield what is wrong; each so many of them also goes on with its work."""
    for number, (state, tree) in enumerate(with_trees(states, record)):
        goes_on = number % goes_on_each == 0
        wrong = what_is_wrong(bench, tree, promises_at(record.changes, state.at), goes_on=goes_on)
        if wrong:
            yield Violation(state, wrong)
