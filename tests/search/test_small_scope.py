"""Every interleaving of the production services within a small scope keeps every invariant."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from kafka_on_spark.base.ids import NO_CHAIN
from tests.search.late_reads import ENDED
from tests.search.scope import Scope
from tests.search.search import Search, search
from tests.search.states import ALLOWANCE, SLOTS, State
from tests.search.world import entries_of

APPENDS = Scope(values="ab", elections=1, fencings=1, rounds=0)
"""Two appends, both of them zombies, and an election."""

WIPED = Scope(values="a", elections=1, fencings=0, wipes=1, min_isr=2, has_late_rounds=False)
"""An append and rounds, a disk that is wiped, and an election."""

LEAVING = Scope(values="ab", elections=0, fencings=1, has_late_rounds=False)
"""Two appends, both of them zombies, and rounds while a follower leaves the ISR and comes back."""

SCOPES = [
    pytest.param(
        APPENDS,
        {"all acked", "acked after an election", "committed in two epochs"},
        id="two appends, both of them zombies, and an election",
        marks=pytest.mark.long,
    ),
    pytest.param(
        Scope(values="a", elections=1, fencings=1),
        {"all acked", "acked after an election", "all in sync after an election"},
        id="an append and rounds without end, all of them zombies, and an election",
    ),
    pytest.param(
        replace(LEAVING, has_late_appends=False),
        {"all acked"},
        id="two appends and rounds while a follower leaves the ISR and comes back",
    ),
    pytest.param(
        replace(LEAVING, replicas="1 2"),
        {"all acked"},
        id="two appends, both of them zombies, and rounds while the only follower leaves the ISR and comes back",
    ),
    pytest.param(
        LEAVING,
        {"all acked"},
        id="two appends, both of them zombies, and rounds while a follower leaves the ISR and comes back",
        marks=pytest.mark.long,
    ),
    pytest.param(
        replace(WIPED, has_late_appends=False),
        {"all acked", "acked after an election", "all in sync after an election"},
        id="an append and rounds, a disk that is wiped, and an election",
    ),
    pytest.param(
        Scope(values="a", elections=2, fencings=3, has_recovery=True, rounds=0),
        {"all acked", "acked after an election"},
        id="an append, and leaders that are proven out of sync",
    ),
    pytest.param(
        Scope(values="ab", elections=0, fencings=0, rounds=0, is_retry=True),
        {"committed"},
        id="two tries of one producer's append at once",
    ),
    pytest.param(
        WIPED,
        {"all acked", "acked after an election", "all in sync after an election"},
        id="an append that may be a zombie, rounds, a disk that is wiped, and an election",
        marks=pytest.mark.long,
    ),
]


@pytest.mark.parametrize("scope, wanted", SCOPES)
def test_every_invariant_holds_in_every_state(scope, wanted):
    """Each that is `wanted` is among them."""
    found = search(scope)

    assert found.violation is None, "\n".join([found.message, *found.path])
    assert found.is_whole
    assert wanted <= {name for name, count in found.seen.items() if count}


class Plain(Search):
    """The search without late reads: each read is a step of its own, at any time."""

    def steps(self, state: State) -> Iterator[tuple[Any, State]]:
        for place in range(SLOTS, len(state)):
            number = self._begun(state, place)
            if number is None:
                continue
            if number != state[place]:
                yield (place, number, ENDED), self._with(state, place, number)
                continue
            for index, (lane, call) in enumerate(self.slots.calls[number]):
                if call.operation in ("load", "read"):
                    after = self.reads.read(number, lane, state[:4])
                    yield (place, number, ENDED), self._with(state, place, after)
                else:
                    for after in self._effects(state, place, number, index):
                        yield (place, number, index), after
        for label, image, disk, allowance in self.environment.events(state):
            yield from self._environment_steps(state, label, image, disk, allowance)

    def _others_have_read(self, state: State, place: int, at: int) -> list[State]:
        return [state]

    @staticmethod
    def _with(state: State, place: int, number: int) -> State:
        return (*state[:place], number, *state[place + 1 :])


def visible(searched: Search) -> set[str]:
    """Return what can be seen in the states of a search, without the processes.

    Records are alike: what differs only in which of two is which is one.
    """
    swapped = str.maketrans("ab", "ba")
    found = set()
    different = {
        (*each[:ALLOWANCE], *searched.inspector.acked(each)): each for each in searched.ways
    }
    for state in different.values():
        texts = [_seen(searched, state, names) for names in ({}, swapped)]
        found.add(min(texts))
    return found


def _seen(searched: Search, state: State, names: dict[int, int]) -> str:
    world = searched.world
    disks = []
    for disk in (world.disks.values[number] for number in state[1:4]):
        states = [world.states.values[number] for _, number in disk.tables]
        logs = [(_renamed(entries_of(each), names), each.leader_epoch) for each in states]
        disks.append((disk.directory_id, logs))
    past = world.pasts.values[state[4]]
    committed = _renamed(past.committed, names)
    # its chain tells the names of the committed records, which are compared renamed
    registration = replace(world.registration(state[0]), high_watermark_chain=NO_CHAIN)
    acked = sorted(_renamed(searched.inspector.acked(state), names))
    return repr((registration, disks, committed, past.leaders, acked))


def _renamed(entries: Iterable[tuple[str, int]], names: dict[int, int]) -> list[tuple[str, int]]:
    return [(value.translate(names), number) for value, number in entries]


ROUNDS = Scope(values="a", elections=1, fencings=1)


@pytest.mark.parametrize(
    "scope",
    [
        pytest.param(APPENDS, id="two appends", marks=pytest.mark.long),
        pytest.param(replace(ROUNDS, replicas="1 2"), id="an append and rounds of two replicas"),
        pytest.param(ROUNDS, id="an append and rounds", marks=pytest.mark.long),
    ],
)
def test_late_reads_lose_nothing(scope):
    """The same registers, logs and acknowledgements occur as when reads are taken at any time."""
    plain, reduced = Plain(scope), Search(scope)
    every, fewer = plain.run(), reduced.run()

    assert every.is_whole
    assert fewer.is_whole
    assert fewer.states < every.states / 2
    assert visible(reduced) == visible(plain)
