"""Reads change nothing, so each is taken as late as it can be.

A process goes from effect to effect; the reads between belong to the later one, unless what was
read is changed before. So a process rests before its reads, or after one that is out of date
by now, and nowhere between, and the search has a tenth of the states.
"""

from collections.abc import Iterator
from typing import Any, Final

from tests.search.replaying import Call, Lane, Log, News, Raised
from tests.search.slots import Slots
from tests.search.world import World

IMAGE: Final = 0
"""Where the metadata log stands in a state; a broker's disk stands at its number."""

ENDED: Final = -1
"""In place of a call: the program has ended."""

Around = tuple[int, ...]
"""Image and disks."""


class LateReads:
    """What processes would see if they read now.

    Attributes:
        around: What most of them see next, for guesses.
    """

    def __init__(self, world: World, slots: Slots) -> None:
        self._world = world
        self._slots = slots
        self.around: Around | None = None
        self._begun: dict[tuple[int, int], int] = {}
        self._seen: dict[tuple[int, int, int], int] = {}
        self._moves: dict[tuple[int, Around], list[tuple[int, int]]] = {}
        self._earlier: dict[tuple[int, int, Around, Lane | None], list[int]] = {}

    def begin(self, number: int, image: int) -> int:
        """Return a process that was idle after its first read, which finds `image`."""
        known = self._begun.get((number, image))
        if known is None:
            known = self._begun[number, image] = self._slots.begin(number, image)
        return known

    def moves(self, number: int, around: Around) -> list[tuple[int, int]]:
        """Return the process before each effect that it can have next, with the call's place.

        Lanes that end without an effect wait for the others.
        """
        found = self._moves.get((number, around))
        if found is None:
            found = self._moves[number, around] = self._find_moves(number, around)
        return found

    def _find_moves(self, number: int, around: Around) -> list[tuple[int, int]]:
        found = []
        is_over, end = True, number
        for lane, _ in self._slots.calls[number]:
            moved = self._run_lane(number, lane, around)
            place = self._place(moved, lane)
            if place is not None:
                found.append((moved, place))
                is_over = False
            else:
                end = self._run_lane(end, lane, around)
        if not is_over:
            return found
        if self._has_ended(end):
            return [(end, ENDED)] if end != number else []
        return self.moves(end, around)

    def earlier(self, number: int, at: int, around: Around, but: Lane | None = None) -> list[int]:
        """Return the process, and every way in which lanes other than `but` have read `at`
        last."""
        key = (number, at, around, but)
        found = self._earlier.get(key)
        if found is None:
            found = self._earlier[key] = list(dict.fromkeys(self._find_earlier(*key)))
        return found

    def _find_earlier(
        self, number: int, at: int, around: Around, but: Lane | None
    ) -> Iterator[int]:
        ways, end = [number], number
        for lane, _ in self._slots.calls[number]:
            if lane != but:
                ways += [each for way in ways for each in self._prefixes(way, lane, at, around)]
                end = self._run_lane(end, lane, around)
        yield from ways
        is_over = but is None and not any(
            self._place(end, lane) is not None for lane, _ in self._slots.calls[number]
        )
        if is_over and not self._has_ended(end):
            further = self.earlier(end, at, around)
            yield from (each for each in further if each != end)

    def _prefixes(self, number: int, lane: Lane, at: int, around: Around) -> Iterator[int]:
        """Yield the process after each read of `at` by `lane`, one after the other."""
        while True:
            call = self._call(number, lane)
            if call is None or not _is_inspection(call):
                return
            number = self._inspect(number, lane, call, around)
            if _place_of(call) == at:
                yield number

    def _run_lane(self, number: int, lane: Lane, around: Around) -> int:
        """Return the process after all reads of `lane` up to its next effect, or its end."""
        while True:
            call = self._call(number, lane)
            if call is None or not _is_inspection(call):
                return number
            number = self._inspect(number, lane, call, around)

    def read(self, number: int, lane: Lane, around: Around) -> int:
        """Return the process after one read that `lane` stands before."""
        call = self._call(number, lane)
        assert call is not None
        assert _is_inspection(call)
        return self._inspect(number, lane, call, around)

    def _inspect(self, number: int, lane: Lane, call: Call, around: Around) -> int:
        place = self._place(number, lane)
        assert place is not None
        seen = around[_place_of(call)]
        key = (number, place, seen)
        known = self._seen.get(key)
        if known is None:
            is_same_epoch = self._slots.slots[number].is_partition_current
            answer = self._answer(call, seen, is_same_epoch)
            known = self._seen[key] = self._slots.answer(number, lane, answer)
        return known

    def _answer(self, call: Call, seen: int, is_same_epoch: bool) -> Log | News | Raised:
        if call.address is not None:
            found = self._world.disks.values[seen].table(call.address)
            return found if isinstance(found, Raised) else Log(found)
        return News(seen, call.partition_epoch + (not is_same_epoch))

    def guess(self, call: Call, is_same_epoch: bool) -> Any:
        """Return what a call would be answered now, if that is easily told."""
        if call.operation == "append":
            return "committed"
        if self.around is None or not _is_inspection(call):
            return None
        return self._answer(call, self.around[_place_of(call)], is_same_epoch)

    def _has_ended(self, number: int) -> bool:
        return self._slots.slots[number].image is None

    def _call(self, number: int, lane: Lane) -> Call | None:
        found = self._slots.lanes[number].get(lane)
        return None if found is None else found[1]

    def _place(self, number: int, lane: Lane) -> int | None:
        found = self._slots.lanes[number].get(lane)
        return None if found is None else found[0]


def _is_inspection(call: Call) -> bool:
    return call.operation in ("load", "read")


def _place_of(call: Call) -> int:
    return IMAGE if call.address is None else call.address.broker_id
