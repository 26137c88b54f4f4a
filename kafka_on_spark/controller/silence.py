"""When a broker counts as silent: its probes failed often enough, over all of its session.

The same rule for the controller's loop and for an append's small pass (DESIGN §7). A process that
was frozen has seen nothing meanwhile: where two probes are too far apart, it begins anew.
"""

from dataclasses import dataclass, replace
from typing import Final

PROBES_MIN: Final = 3
GAPS_A_SESSION: Final = 3
"""No two probes may be further apart than a session's part of this size."""

PROBES_A_SESSION: Final = 6
"""Twice as often as they must: one that is late by as much again is still no gap."""


@dataclass(frozen=True, slots=True)
class Probe:
    """When one probe began and ended, and after which time it is given up."""

    began_ms: int
    ended_ms: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Silence:
    """Probes of one broker that have failed in a row.

    Attributes:
        since_ms: When the first of them had failed, by a clock that never goes back.
        last_ms: When the last of them had.
        count: How many.
        error: What the last of them met.
    """

    since_ms: int
    last_ms: int
    count: int
    error: str

    def is_over(self, session_ms: int) -> bool:
        """Return whether the broker's session is over: it counts as silent."""
        return self.count >= PROBES_MIN and self.last_ms - self.since_ms >= session_ms

    def __str__(self) -> str:
        seconds = (self.last_ms - self.since_ms) / 1000
        return f"probe failed {self.count} times in {seconds:.1f} s ({self.error})"


def after_failure(
    before: Silence | None, probe: Probe, error: str, session_ms: int
) -> Silence | None:
    """Return what a failed probe leads to, after those that had failed before it, if any.

    None: whoever probed was frozen meanwhile, and the probe says nothing.
    """
    gap_ms = session_ms / GAPS_A_SESSION
    if probe.ended_ms - probe.began_ms > probe.timeout_ms + gap_ms:
        return None
    if before is None or probe.began_ms - before.last_ms > gap_ms:
        return Silence(probe.ended_ms, probe.ended_ms, 1, error)
    return replace(before, last_ms=probe.ended_ms, count=before.count + 1, error=error)


def next_probe_in_ms(silence: Silence, session_ms: int) -> float:
    """Return how long after its last probe began a failing broker is to be probed again.

    Not later than the session's end, so that a broker is not waited for longer than it says.
    """
    left_ms = session_ms - (silence.last_ms - silence.since_ms)
    pause_ms = session_ms / PROBES_A_SESSION
    return min(pause_ms, left_ms) if left_ms > 0 else pause_ms
