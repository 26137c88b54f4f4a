"""What a serving process says of itself to a supervisor that asks. Pure.

Nothing is called well that was not looked at: a look that is missing, too old or failed is an
answer of its own, and its words say which.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_on_spark.service.serve.looks import METADATA, PASS, ROUND, ROUNDS, Look, Role, Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long things may take, ms.

    Attributes:
        stalled_ms: A loop that has not gone on for so long is stuck.
        rounds_stalled_ms: The same of the loop of rounds: one append may take hours to copy.
        look_ms: The last look of each kind must have ended within that.
    """

    stalled_ms: int
    rounds_stalled_ms: int
    look_ms: int

    def stalled_ms_of(self, loop: str) -> int:
        """Return the limit of one loop."""
        return self.rounds_stalled_ms if loop == ROUNDS else self.stalled_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer to a probe.

    Attributes:
        is_well: Whether it is "yes".
        body: What it rests on, as plain values.
    """

    is_well: bool
    body: Mapping[str, Any]


def healthz(seen: Seen, now_ms: int, limits: Limits) -> Answer:
    """Return whether the process is alive and its loops move; only a restart helps one that does
    not. A root that is away stops no loop."""
    reasons = [
        f"the loop of {loop} has not moved for {_seconds(now_ms - at_ms)} s"
        for loop, at_ms in sorted(seen.moved_at_ms.items())
        if now_ms - at_ms > limits.stalled_ms_of(loop)
    ]
    moved = {loop: _seconds(now_ms - at_ms) for loop, at_ms in sorted(seen.moved_at_ms.items())}
    body = {
        "role": seen.role.value,
        "up_seconds": _seconds(now_ms - seen.started_at_ms),
        "moved_seconds_ago": moved,
        "reasons": reasons,
    }
    return Answer(is_well=not reasons, body=body)


def readyz(seen: Seen, now_ms: int, limits: Limits) -> Answer:
    """Return whether the process does its work: it can read the cluster, and if it is the
    controller, its lease lasts, its last pass has come to its end in time, and its last round did
    not fail.

    A round copies an append as a whole, for hours if it must: `looks` says when the last one ended
    and since when one is under way. A standby makes neither, and says nothing of them.
    """
    reasons = [*_reasons(seen, now_ms, limits)]
    body = {
        "role": seen.role.value,
        "controller": seen.controller,
        "looks": {what: _look(look, now_ms) for what, look in sorted(seen.looks.items())},
        "under_way_seconds": {
            what: _seconds(now_ms - at_ms) for what, at_ms in sorted(seen.began_at_ms.items())
        },
        "reasons": reasons,
    }
    return Answer(is_well=not reasons, body=body)


def _reasons(seen: Seen, now_ms: int, limits: Limits) -> Iterator[str]:
    if seen.role in (Role.STARTING, Role.ENDING):
        yield f"it is {seen.role.value}"
    elif seen.role is Role.STANDBY and seen.controller is None:
        yield "nobody is the controller"
    elif seen.role is Role.CONTROLLER and not seen.holds_lease(now_ms):
        yield "its lease is over, and another process may be the controller by now"
    needed = [METADATA, PASS] if seen.role is Role.CONTROLLER else [METADATA]
    for what in (METADATA, PASS, ROUND):
        reason = _reason(seen.looks.get(what, Look()), now_ms, limits, is_needed=what in needed)
        if reason is not None:
            yield f"{what}: {reason}"


def _reason(look: Look, now_ms: int, limits: Limits, *, is_needed: bool) -> str | None:
    """Return why a look is not good enough."""
    if look.error is not None:
        return look.error
    if not is_needed:
        return None
    if look.ended_at_ms is None:
        return "none has come to its end yet"
    ago_ms = now_ms - look.ended_at_ms
    if ago_ms > limits.look_ms:
        return (
            f"the last one ended {_seconds(ago_ms)} s ago, more than {_seconds(limits.look_ms)} s"
        )
    return None


def _look(look: Look, now_ms: int) -> dict[str, Any]:
    ended, since = look.ended_at_ms, look.failing_since_ms
    return {
        "ended_seconds_ago": None if ended is None else _seconds(now_ms - ended),
        "took_seconds": _seconds(look.took_ms),
        "count": look.count,
        "failed_count": look.failed_count,
        "error": look.error,
        "failing_for_seconds": None if since is None else _seconds(now_ms - since),
        **look.said,
    }


def _seconds(duration_ms: int) -> float:
    return round(duration_ms / 1000, 1)
