"""How a search tells of a way to a state."""

from collections import Counter
from typing import Any

from tests.search.late_reads import ENDED
from tests.search.programs import Appending


def told(search: Any, state: tuple[int, ...]) -> tuple[str, ...]:
    """Return the steps that led to `state`, a line each."""
    lines = []
    while search.ways[state] is not None:
        before, label = search.ways[state]
        lines.append(_step(search, label))
        state = before
    return tuple(reversed(lines))


def _step(search: Any, label: Any) -> str:
    if isinstance(label[0], str):
        return " ".join(map(str, label))
    place, number, index = label
    name = _name(search.scope.programs()[place - 6])
    if index == ENDED:
        return f"{name} ends"
    lane, call = search.slots.calls[number][index]
    about = "" if call.address is None else f" replica {call.address.broker_id}"
    operation = getattr(call.content, "operation", "")
    return f"{name}{list(lane) or ''} {call.operation}{about} {operation}"


def _name(program: Any) -> str:
    if isinstance(program, Appending):
        return f"append {program.value}"
    return type(program).__name__.lower()


def count(search: Any, state: tuple[int, ...], times: int, seen: Counter[str]) -> None:
    """Count what must occur, lest the search be of nothing, in so many states like this one."""
    registration = search.world.registration(state[0])
    past = search.world.pasts.values[state[4]]
    acked = search.inspector.acked(state)
    has_moved = registration.leader_epoch > 0
    seen["all acked"] += times * (bool(acked) and len(acked) == len(search.scope.values))
    seen["acked after an election"] += times * (bool(acked) and has_moved)
    seen["all in sync after an election"] += times * (has_moved and len(registration.isr) == 3)
    seen["committed"] += times * (registration.high_watermark > 0)
    seen["committed in two epochs"] += times * (len({epoch for _, epoch in past.committed}) > 1)
