"""How a search tells of a way to a state."""

from typing import Any

from tests.search.late_reads import ENDED
from tests.search.programs import Appending
from tests.search.world import BROKERS, entries_of


def told(search: Any, state: tuple[int, ...]) -> tuple[str, ...]:
    """Return the steps that led to `state`, a line each, with what stands after each."""
    lines = []
    while search.ways[state] is not None:
        before, label = search.ways[state]
        lines.append(f"{_step(search, label):55} {_after(search, state)}")
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


def _after(search: Any, state: tuple[int, ...]) -> str:
    partition = search.world.registration(state[0])
    logs = []
    for each in BROKERS:
        log = search.log(state, partition, each)
        text = "gone" if log is None else "".join(f"{v}{e}" for v, e in entries_of(log))
        logs.append(f"{each}:{text}@{'-' if log is None else log.leader_epoch}")
    return (
        f"leader {partition.leader} epoch {partition.leader_epoch}"
        f" isr {sorted(partition.isr)} hw {partition.high_watermark} | {' '.join(logs)}"
    )
