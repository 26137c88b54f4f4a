"""What the services tell of what they do: counts and times, for whoever shows them.

One place each tells of a thing; it knows no store, no page and no limit of what is kept.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol


class FigureName(NamedTuple):
    """The type and the name of a figure: those of Kafka's MBean, where Kafka has it."""

    type: str
    name: str


COMMITS: Final = FigureName("Metadata", "commits")
COMMIT_MS: Final = FigureName("Metadata", "commit-ms")
ISR_SHRINKS: Final = FigureName("ReplicaManager", "IsrShrinks")
ISR_EXPANDS: Final = FigureName("ReplicaManager", "IsrExpands")
ELECTIONS: Final = FigureName("ControllerStats", "LeaderElections")
UNCLEAN_ELECTIONS: Final = FigureName("ControllerStats", "UncleanLeaderElections")
MESSAGES_IN: Final = FigureName("BrokerTopicMetrics", "MessagesIn")
BYTES_IN: Final = FigureName("BrokerTopicMetrics", "BytesIn")
BYTES_OUT: Final = FigureName("BrokerTopicMetrics", "BytesOut")
MESSAGES_OUT: Final = FigureName("BrokerTopicMetrics", "MessagesOut")
FAILED_APPENDS: Final = FigureName("BrokerTopicMetrics", "FailedProduceRequests")
REPLICATION_BYTES_IN: Final = FigureName("BrokerTopicMetrics", "ReplicationBytesIn")
REPLICATION_MESSAGES_IN: Final = FigureName("BrokerTopicMetrics", "ReplicationMessagesIn")
REQUEST_MS: Final = FigureName("RequestMetrics", "TotalTimeMs")
PROBE_MS: Final = FigureName("Probe", "ms")
PROBE_FAILURES: Final = FigureName("Probe", "failures")
FLUSH_MS: Final = FigureName("LogFlushStats", "LogFlushRateAndTimeMs")
PASS_MS: Final = FigureName("Serving", "pass-ms")
ROUND_MS: Final = FigureName("Serving", "round-ms")

COMMITTED: Final = "committed"
CONFLICT: Final = "conflict"
UNKNOWN: Final = "unknown"
FAILED: Final = "failed"
"""Outcomes of a commit. One that failed was not begun, or is certainly not written."""


class Recorder(Protocol):
    """Takes counts and times. Threads may share it; it never raises."""

    def count(self, figure: FigureName, amount: float = 1, /, **labels: str | int) -> None:
        """Add to a count that only rises."""
        ...

    def observe(self, figure: FigureName, took_ms: float, /, **labels: str | int) -> None:
        """Add a time to a distribution, ms."""
        ...

    def now_ms(self) -> float:
        """Return a clock that never goes back, ms; of any beginning."""
        ...


@contextmanager
def timed(recorder: Recorder, figure: FigureName, **labels: str | int) -> Iterator[None]:
    """Tell how long the block takes, however it ends."""
    began_ms = recorder.now_ms()
    try:
        yield
    finally:
        recorder.observe(figure, recorder.now_ms() - began_ms, **labels)
