"""What the services tell of what they do: counts and times, for whoever shows them.

One place each tells of a thing; it knows no store, no page and no limit of what is kept.
"""

from typing import Final, NamedTuple


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
