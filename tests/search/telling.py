"""How a search tells of a way to a state."""

from collections import Counter
from typing import Any

from tests.search.late_reads import ENDED
from tests.search.programs import Appending
from tests.search.upkeep import rows
from tests.search.upkeep.upkeep_programs import Tidying


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
    if isinstance(program, Tidying):
        return f"{program.work} of {program.broker_id}"
    return type(program).__name__.lower()


def _after(search: Any, state: tuple[int, ...]) -> str:
    partition = search.world.registration(state[0])
    logs = []
    for each in search.scope.brokers:
        log = search.log(state, partition, each)
        text = "gone" if log is None else rows.told(log)
        logs.append(f"{each}:{text}@{'-' if log is None else log.leader_epoch}{_progress(log)}")
    return (
        f"leader {partition.leader} epoch {partition.leader_epoch}"
        f" isr {sorted(partition.isr)} hw {partition.high_watermark}{_kept(partition)}"
        f" | {' '.join(logs)}"
    )


def _progress(log: Any) -> str:
    done = None if log is None else log.compaction
    if not done or not done.compacted_below:
        return ""
    is_under_way = "" if done.is_finished else f", {done.finished_below} finished"
    return f" (C {done.compacted_below} T {done.tombstones_below}{is_under_way})"


def _kept(partition: Any) -> str:
    start, decided = partition.log_start_offset, partition.compaction
    text = f" start {start}" if start else ""
    if not decided.compacted_below:
        return text
    below = (decided.compacted_below, decided.cleaned_below, decided.tombstones_below)
    return f"{text} C/K/T {'/'.join(map(str, below))}"


def count(search: Any, state: tuple[int, ...], seen: Counter[str]) -> None:
    """Count what must occur, lest the search be of nothing."""
    registration = search.world.registration(state[0])
    past = search.world.pasts.values[state[4]]
    acked = search.acked(state)
    has_moved = registration.leader_epoch > 0
    seen["all acked"] += bool(acked) and len(acked) == len(search.scope.values)
    seen["acked after an election"] += bool(acked) and has_moved
    seen["all in sync after an election"] += has_moved and len(registration.isr) == 3
    seen["committed"] += registration.high_watermark > 0
    seen["committed in two epochs"] += len({epoch for _, epoch in past.committed}) > 1
    seen["records lost by an unclean election"] += bool(past.lost)
