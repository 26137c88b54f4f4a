"""When a broker counts as silent: its probes failed often enough, over all of its session.

The same rule for the controller's loop and for an append that waits. A process that was frozen
has seen nothing meanwhile: if two probes are too far apart, the count starts again.
"""

from dataclasses import dataclass, replace
from typing import Final

PROBES_MIN: Final = 3
GAPS_A_SESSION: Final = 3
"""Two probes may be this part of a session apart, and no further."""

PROBES_A_SESSION: Final = 6
"""Twice as many as there must be: a probe that is late by as much again leaves no gap."""

PROBE_TIMEOUT_MS_MIN: Final = 1000
"""However short a session is: a busy machine takes its time."""

UNJUDGED_MS_MIN: Final = 10_000
"""However short a session is: how long a pass waits for a judgement of brokers that fail."""


def probe_timeout_ms(session_ms: int) -> int:
    """Return after which time a probe is given up: a part of a session, so that one that hangs is
    no gap between its neighbours."""
    return max(session_ms // 4, PROBE_TIMEOUT_MS_MIN)


def judgement_ms_max(session_ms: int) -> int:
    """Return how long a pass waits until each failing broker's session is over: three sessions."""
    return max(3 * session_ms, UNJUDGED_MS_MIN)


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

    None: the probing process was frozen meanwhile, and the probe does not count.
    """
    gap_ms = session_ms / GAPS_A_SESSION
    if probe.ended_ms - probe.began_ms > probe.timeout_ms + gap_ms:
        return None
    if before is None or probe.began_ms - before.last_ms > gap_ms:
        return Silence(probe.ended_ms, probe.ended_ms, 1, error)
    return replace(before, last_ms=probe.ended_ms, count=before.count + 1, error=error)


def next_probe_in_ms(silence: Silence, session_ms: int) -> float:
    """Return how long after its last probe began a failing broker is to be probed again.

    At the latest at the session's end, so that nobody waits for a broker for longer than that.
    """
    left_ms = session_ms - (silence.last_ms - silence.since_ms)
    pause_ms = session_ms / PROBES_A_SESSION
    return min(pause_ms, left_ms) if left_ms > 0 else pause_ms
