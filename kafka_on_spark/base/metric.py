"""The figures of a cluster and of a process: their names, what each says, and one with its value.

Plain values, so that whoever exports them (as text, or into a picture) spells them as it likes.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
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
UPKEEP_DONE: Final = FigureName("Upkeep", "done-count")
UPKEEP_BYTES: Final = FigureName("Upkeep", "done-bytes")
UPKEEP_WRITTEN: Final = FigureName("Upkeep", "written-bytes")
UPKEEP_FAILURES: Final = FigureName("Upkeep", "failures")
FLUSH_MS: Final = FigureName("LogFlushStats", "LogFlushRateAndTimeMs")
PASS_MS: Final = FigureName("Serving", "pass-ms")
ROUND_MS: Final = FigureName("Serving", "round-ms")

COMMITTED: Final = "committed"
CONFLICT: Final = "conflict"
UNKNOWN: Final = "unknown"
FAILED: Final = "failed"
"""Outcomes of a commit. One that failed was not begun, or is certainly not written."""

GAUGES: Final[Mapping[tuple[str, str], str]] = {
    ("Log", "Size"): "Bytes of the segments in a replica's log.",
    ("Log", "NumLogSegments"): "Segments in a replica's log.",
    ("Log", "NumMergedSegments"): "Those of them that hold many appends.",
    ("Log", "LogStartOffset"): "First offset of a replica's log.",
    ("Log", "LogEndOffset"): "Offset of the next record of a replica's log.",
    ("Log", "Unreadable"): "1: a replica's log could not be looked at, for what its label says.",
    (
        "LogCleanerManager",
        "max-dirty-percent",
    ): "Largest dirty part of a compacted log, in percent.",
    ("KafkaController", "ActiveControllerCount"): "1: this process is the controller.",
    ("KafkaController", "ActiveBrokerCount"): "Brokers that are not fenced.",
    ("KafkaController", "FencedBrokerCount"): "Brokers that are fenced.",
    ("KafkaController", "GlobalTopicCount"): "Topics.",
    ("KafkaController", "GlobalPartitionCount"): "Partitions.",
    ("KafkaController", "OfflinePartitionsCount"): "Partitions without a leader.",
    (
        "KafkaController",
        "PreferredReplicaImbalanceCount",
    ): "Partitions that another leads than the preferred leader.",
    ("KafkaController", "LastAppliedRecordOffset"): "End of the metadata that is known here.",
    ("KafkaController", "LastAppliedRecordTimestamp"): "When that was committed, ms since 1970.",
    ("KafkaController", "TimeAheadMs"): "How far the newest time in the metadata is ahead, ms.",
    ("RaftMetrics", "current-leader"): "Voter that leads the metadata log, by its id.",
    ("RaftMetrics", "current-epoch"): "Epoch in which it leads.",
    ("RaftMetrics", "high-watermark"): "Up to where the metadata log is committed.",
    ("RaftMetrics", "number-of-voters"): "Voters of the metadata log.",
    ("Quorum", "lost-voters"): "Of these, those that do not answer the controller.",
    ("Quorum", "max-follower-lag"): "Records that the slowest voter which follows lacks.",
    ("ReplicaManager", "UnderReplicatedPartitions"): "Partitions with a replica out of sync.",
    ("ReplicaManager", "UnderMinIsrPartitionCount"): "Partitions that refuse acks=all.",
    ("ReplicaManager", "AtMinIsrPartitionCount"): "Partitions that one more loss makes refuse it.",
    ("ReplicaManager", "OfflineReplicaCount"): "Replicas on brokers that are fenced or gone.",
    ("ReplicaManager", "ReassigningPartitions"): "Partitions that move.",
    ("ReplicaManager", "PartitionCount"): "Replicas of a broker.",
    ("ReplicaManager", "LeaderCount"): "Partitions that a broker leads.",
    ("Moves", "stalled"): "Partitions that move to a broker while it is fenced.",
    (
        "ConsumerGroup",
        "lag",
    ): "Committed records that a group has not processed, in partitions where it has an offset.",
    ("ConsumerGroup", "max-lag"): "The same of the partition where it is furthest behind.",
    ("ConsumerGroup", "members"): "Members of a group: consumers that share its partitions.",
    ("GroupCoordinator", "consumer-group-count"): "Groups, by state; empty: without members.",
    ("Root", "free-bytes"): "Bytes that users may still write to the disk of a root, on this host.",
    ("Root", "free-inodes"): "Files that they may still make there.",
    ("Serving", "failing"): "1: the newest look at the metadata, the newest pass or round failed.",
}
"""What each figure that rises and falls says, by its type and name. These are those of Kafka's
MBeans, but for Quorum, Moves, Upkeep, ConsumerGroup, Metadata, Probe, Root, Serving and Ledger,
and what Kafka's logs don't have."""

COUNTERS: Final[Mapping[tuple[str, str], str]] = {
    ("Upkeep", "done-count"): "Pieces that this process has done since it began.",
    ("Upkeep", "done-bytes"): "Bytes that they were about.",
    ("Upkeep", "written-bytes"): "Bytes that it wrote in place of these.",
    ("Upkeep", "failures"): "How often a kind of upkeep failed in this process.",
    ("ReplicaManager", "IsrShrinks"): "Decisions that took replicas out of an ISR.",
    ("ReplicaManager", "IsrExpands"): "Decisions that took replicas into an ISR.",
    ("ControllerStats", "LeaderElections"): "Partitions that got another leader.",
    ("ControllerStats", "UncleanLeaderElections"): "Of these, those that may have lost records.",
    ("BrokerTopicMetrics", "MessagesIn"): "Records committed to a topic, whoever appended them.",
    ("BrokerTopicMetrics", "BytesIn"): "Bytes of segments that this process appended to a topic.",
    ("BrokerTopicMetrics", "MessagesOut"): "Records of a topic that this process's consumers read.",
    ("BrokerTopicMetrics", "BytesOut"): "Bytes of these in memory.",
    ("BrokerTopicMetrics", "FailedProduceRequests"): "Parts of appends that were not acknowledged.",
    ("BrokerTopicMetrics", "ReplicationBytesIn"): "Bytes that this process's rounds copied.",
    ("BrokerTopicMetrics", "ReplicationMessagesIn"): "Records that this process's rounds copied.",
    ("Metadata", "commits"): "Commits to the metadata log, by outcome.",
    ("Probe", "failures"): "Probes of a root that did not answer, or refused.",
    ("Ledger", "requests"): "Requests that this process has sent to roots.",
}
"""The same of figures that only rise, as long as the process lives."""

TIMES: Final[Mapping[tuple[str, str], str]] = {
    ("RequestMetrics", "TotalTimeMs"): "How long this process's requests took, ms.",
    ("LogFlushStats", "LogFlushRateAndTimeMs"): "How long a flush of a local disk took, ms.",
    ("Metadata", "commit-ms"): "How long they took, ms.",
    ("Probe", "ms"): "How long probes of brokers' roots took, ms.",
    ("Serving", "pass-ms"): "How long passes of the controller took, ms.",
    ("Serving", "round-ms"): "How long rounds of replication took, ms.",
}
"""The same of figures that are distributions of times."""

HELP: Final = {**GAUGES, **COUNTERS, **TIMES}

DOMAINS: Final[Mapping[str, str]] = {
    "Log": "kafka_log_log",
    "LogCleanerManager": "kafka_log_logcleanermanager",
    "LogFlushStats": "kafka_log_logflushstats",
    "KafkaController": "kafka_controller_kafkacontroller",
    "ControllerStats": "kafka_controller_controllerstats",
    "RaftMetrics": "kafka_server_raft_metrics",
    "ReplicaManager": "kafka_server_replicamanager",
    "BrokerTopicMetrics": "kafka_server_brokertopicmetrics",
    "RequestMetrics": "kafka_network_requestmetrics",
    "ConsumerGroup": "kafka_consumergroup",
    "GroupCoordinator": "kafka_server_group_coordinator_metrics",
    "Quorum": "kafka_on_spark_quorum",
    "Moves": "kafka_on_spark_moves",
    "Upkeep": "kafka_on_spark_upkeep",
    "Metadata": "kafka_on_spark_metadata",
    "Probe": "kafka_on_spark_probe",
    "Root": "kafka_on_spark_root",
    "Serving": "kafka_on_spark_serving",
    "Ledger": "kafka_on_spark_ledger",
}
"""How names begin, by the type of a figure. Those of Kafka's MBeans are spelled as the exporter of
Prometheus spells them, so that dashboards find them."""


def exported_name(kind: str, name: str) -> str:
    """Return the name under which a figure is written."""
    return f"{DOMAINS[kind]}_{name.lower().replace('-', '_')}"


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure.

    Attributes:
        type: What it is of, as Kafka's MBeans have it ("Log", "ReplicaManager"), or ours.
        name: Its name.
        labels: Which one: topic, partition, broker, kind of work, error.
        value: Its value; of a distribution how many times were measured.
        sum_ms: Of a distribution, the sum of all times.
        buckets: Of a distribution, upper bounds (ms), and how many times were at most that.
    """

    type: str
    name: str
    _: KW_ONLY
    labels: Mapping[str, str | int] = field(default_factory=dict)
    value: float
    sum_ms: float = 0.0
    buckets: tuple[tuple[str, float], ...] = ()
