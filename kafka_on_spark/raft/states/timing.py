"""Timers as values: who decides is told what time it is.

A timer only ever says when to ask again: no decision depends on one for safety.
"""

from dataclasses import dataclass
from typing import Final

CHECK_QUORUM_FACTOR: Final = 1.5
"""A leader waits this much longer than a follower for fetches. Source: LeaderState."""

BACKOFF_BASE_MS: Final = 100
"""Source: KafkaRaftClient.RETRY_BACKOFF_BASE_MS."""

_EXPONENT_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Timer:
    """When something is due, in ms of a monotonic clock; None: never."""

    deadline_ms: int | None

    def remaining_ms(self, now_ms: int) -> int | None:
        """Return how long until it is due, 0 once it is; None: it never is."""
        return None if self.deadline_ms is None else max(0, self.deadline_ms - now_ms)

    def is_expired(self, now_ms: int) -> bool:
        """Return whether it is due."""
        return self.deadline_ms is not None and now_ms >= self.deadline_ms


NEVER: Final = Timer(None)


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of a transition, and the timeouts that begin with it.

    Attributes:
        now_ms: A monotonic clock's.
        election_timeout_ms: Drawn by the caller, from ``controller.quorum.election.timeout.ms`` on
            and below twice that, so that few candidates stand at once.
        fetch_timeout_ms: ``controller.quorum.fetch.timeout.ms``.
    """

    now_ms: int
    election_timeout_ms: int
    fetch_timeout_ms: int

    def election_timer(self) -> Timer:
        """Return a timer of the election timeout that begins now."""
        return Timer(self.now_ms + self.election_timeout_ms)

    def fetch_timer(self) -> Timer:
        """Return a timer of the fetch timeout that begins now."""
        return Timer(self.now_ms + self.fetch_timeout_ms)

    def check_quorum_timer(self) -> Timer:
        """Return a timer of the time that a leader leads without a majority's fetches."""
        return Timer(self.now_ms + int(self.fetch_timeout_ms * CHECK_QUORUM_FACTOR))


def retry_backoff_ms(retries: int, drawn: float, backoff_max_ms: int) -> int:
    """Return how long a candidate waits after its election number `retries` failed.

    `drawn`: a number in [0, 1). Source: KafkaRaftClient.binaryExponentialElectionBackoffMs.
    """
    assert retries > 0
    steps = int(drawn * (2 << min(_EXPONENT_MAX, retries - 1)))
    return min(BACKOFF_BASE_MS * steps, backoff_max_ms)


def successor_backoff_ms(position: int, successors: int, backoff_max_ms: int) -> int:
    """Return how long the successor at `position` of a resigned leader's list waits before it
    stands: the first not at all.

    Source: KafkaRaftClient.strictExponentialElectionBackoffMs.
    """
    if position == 0:
        return 0
    if not 0 < position < successors:
        return backoff_max_ms
    base_ms = backoff_max_ms >> (successors - 1)
    return min(backoff_max_ms, base_ms << (position - 1))
