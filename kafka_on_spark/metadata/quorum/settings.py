"""How patient a process is with the quorum. No decision rests on these times for safety."""

from collections.abc import Callable
from dataclasses import dataclass

from kafka_on_spark.base.config import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """Times in ms, of a process's own monotonic clock.

    Attributes:
        fetch_timeout_ms: A leader whose root fails for so long is replaced. Source:
            ``controller.quorum.fetch.timeout.ms``.
        election_timeout_ms: So long votes are waited for. Source:
            ``controller.quorum.election.timeout.ms``.
        election_backoff_max_ms: Between elections that fail. Source:
            ``controller.quorum.election.backoff.max.ms``.
        answer_timeout_ms: A voter that does not answer for so long is left out of an answer.
        commit_ms: What a commit takes: a tail's writer has so long before another ends the tail.
        patience_ms: Beyond both timeouts, before a call says that there is no quorum.
    """

    fetch_timeout_ms: int = 2000
    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    answer_timeout_ms: int = 1000
    commit_ms: int = 50
    patience_ms: int = 3000

    @classmethod
    def of(cls, settings: Settings) -> "QuorumSettings":
        """Return what the cluster's settings say."""
        return cls(
            fetch_timeout_ms=settings.integer("controller.quorum.fetch.timeout.ms"),
            election_timeout_ms=settings.integer("controller.quorum.election.timeout.ms"),
            election_backoff_max_ms=settings.integer("controller.quorum.election.backoff.max.ms"),
        )

    @property
    def call_timeout_ms(self) -> int:
        """How long a call waits for a leader that a majority confirms."""
        return self.fetch_timeout_ms + self.election_timeout_ms + self.patience_ms


AskSettings = Callable[[], QuorumSettings]
"""Says how patient to be, each time anew: the settings are in the log that is waited for."""
