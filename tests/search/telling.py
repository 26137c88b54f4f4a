"""How a search tells of a way to a state."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from kafka_on_spark.log.batch import MergedSegment
from kafka_on_spark.log.state import LogChange, ReplicaState
from tests.search.late_reads import ENDED
from tests.search.programs import Appending
from tests.search.upkeep.upkeep_programs import Tidying


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
    if isinstance(program, Tidying):
        return f"{program.work} of {program.broker_id}"
    return type(program).__name__.lower()


def kinds_of(before: ReplicaState, change: LogChange) -> Iterator[str]:
    """Yield what a commit to a replica's table is an example of: they must occur, too."""
    yield change.operation
    if change.operation == "adopt" and change.adds:
        yield "cut inside a merged segment"
    if change.operation == "append_fetched" and before.batches:
        yield from ("merged segment taken" for e in change.adds if isinstance(e, MergedSegment))


def count(search: Any, state: tuple[int, ...], times: int, seen: Counter[str]) -> None:
    """Count what must occur, lest the search be of nothing, in so many states like this one."""
    registration = search.world.registration(state[0])
    past = search.world.pasts.values[state[4]]
    acked = search.inspector.acked(state)
    has_moved = registration.leader_epoch > 0
    seen["all acked"] += times * (bool(acked) and len(acked) == len(search.scope.values))
    seen["acked after an election"] += times * (bool(acked) and has_moved)
    seen["all in sync after an election"] += times * (has_moved and len(registration.isr) == 3)
    is_whole = registration.isr == set(registration.replicas)
    seen["all in sync again"] += times * (
        is_whole and len(search.scope.in_sync) < len(registration.isr)
    )
    seen["committed"] += times * (registration.high_watermark > 0)
    seen["committed in two epochs"] += times * (len({epoch for _, epoch in past.committed}) > 1)
    decided = registration.compaction
    seen["tombstones gone"] += times * (decided.tombstones_below > 0)
    seen["records deleted"] += times * (registration.log_start_offset > 0)
    seen["records lost by an unclean election"] += times * bool(past.lost)
