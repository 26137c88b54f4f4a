"""One figure of a cluster or a process, and what each figure says. Pure.

Plain values, so that whoever exports them (as text, or into a picture) spells them as it likes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

HELP: Final[Mapping[tuple[str, str], str]] = {
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
    ("Upkeep", "due-count"): "Pieces of a kind of upkeep that are due.",
    ("Upkeep", "due-bytes"): "Bytes that they are about.",
    ("Upkeep", "due-for-ms"): "How long the oldest of them has been due, ms.",
    ("Upkeep", "orphan-bytes"): "Files that no commit names, in replicas that it has cleaned.",
    ("Upkeep", "failing-for-ms"): "How long this process has seen a kind of upkeep fail, ms.",
    ("Upkeep", "done-count"): "Pieces that this process has done since it began.",
    ("Upkeep", "done-bytes"): "Bytes that they were about.",
    ("Upkeep", "written-bytes"): "Bytes that it wrote in place of these.",
    ("Upkeep", "failures"): "How often a kind of upkeep failed in this process.",
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
    ("ReplicaManager", "IsrShrinks"): "Decisions that took replicas out of an ISR.",
    ("ReplicaManager", "IsrExpands"): "Decisions that took replicas into an ISR.",
    ("ControllerStats", "LeaderElections"): "Partitions that got another leader.",
    ("ControllerStats", "UncleanLeaderElections"): "Of these, those that may have lost records.",
    ("ConsumerGroup", "lag"): "Committed records that a group has not processed, in partitions"
    " where it has an offset.",
    ("ConsumerGroup", "max-lag"): "The same of the partition where it is furthest behind.",
    ("ConsumerGroup", "members"): "Members of a group: consumers that share its partitions.",
    ("GroupCoordinator", "consumer-group-count"): "Groups, by state; empty: without members.",
    ("BrokerTopicMetrics", "MessagesIn"): "Records committed to a topic, whoever appended them.",
    ("BrokerTopicMetrics", "BytesIn"): "Bytes of segments that this process appended to a topic.",
    ("BrokerTopicMetrics", "MessagesOut"): "Records of a topic that this process's consumers read.",
    ("BrokerTopicMetrics", "BytesOut"): "Bytes of these in memory.",
    ("BrokerTopicMetrics", "FailedProduceRequests"): "Parts of appends that were not acknowledged.",
    ("BrokerTopicMetrics", "ReplicationBytesIn"): "Bytes that this process's rounds copied.",
    ("BrokerTopicMetrics", "ReplicationMessagesIn"): "Records that this process's rounds copied.",
    ("RequestMetrics", "TotalTimeMs"): "How long this process's requests took, ms.",
    ("LogFlushStats", "LogFlushRateAndTimeMs"): "How long a flush of a local disk took, ms.",
    ("Metadata", "commits"): "Commits to the metadata log, by outcome.",
    ("Metadata", "commit-ms"): "How long they took, ms.",
    ("Probe", "ms"): "How long probes of brokers' roots took, ms.",
    ("Probe", "failures"): "Probes of a root that did not answer, or refused.",
    ("Root", "free-bytes"): "Bytes that users may still write to the disk of a root, on this host.",
    ("Root", "free-inodes"): "Files that they may still make there.",
    ("Serving", "pass-ms"): "How long passes of the controller took, ms.",
    ("Serving", "round-ms"): "How long rounds of replication took, ms.",
    ("Serving", "failing"): "1: the newest look at the metadata, the newest pass or round failed.",
    ("Serving", "up-ms"): "How long this process has served, ms.",
    ("Ledger", "requests"): "Requests that this process has sent to roots.",
    ("Metrics", "left-out"): "Series of a figure that are left out, since there are too many.",
}
"""What each figure says, by its type and name. Types and names are those of Kafka's MBeans, but for
those of Quorum, Moves, Upkeep, ConsumerGroup, Metadata, Probe, Root, Serving, Ledger and Metrics,
and what Kafka's logs don't have."""

COUNTERS: Final = frozenset(
    {
        *(("Upkeep", each) for each in ("done-count", "done-bytes", "written-bytes", "failures")),
        *(("ReplicaManager", each) for each in ("IsrShrinks", "IsrExpands")),
        *(("ControllerStats", each) for each in ("LeaderElections", "UncleanLeaderElections")),
        *(("BrokerTopicMetrics", name) for kind, name in HELP if kind == "BrokerTopicMetrics"),
        ("Metadata", "commits"),
        ("Probe", "failures"),
        ("Ledger", "requests"),
    }
)
"""Figures that only rise, as long as the process lives."""

TIMES: Final = frozenset(
    {
        ("RequestMetrics", "TotalTimeMs"),
        ("LogFlushStats", "LogFlushRateAndTimeMs"),
        ("Metadata", "commit-ms"),
        ("Probe", "ms"),
        ("Serving", "pass-ms"),
        ("Serving", "round-ms"),
    }
)
"""Figures that are distributions of times."""

OF_LOGS: Final = frozenset(
    {
        *((kind, name) for kind, name in HELP if kind == "Log"),
        *(("Upkeep", each) for each in ("due-count", "due-bytes", "due-for-ms")),
        ("LogCleanerManager", "max-dirty-percent"),
    }
)
"""Figures that are read from the replicas' tables: too much for a page that is asked for often."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """How often something took how long.

    Attributes:
        bounds_ms: Upper bounds of the classes, rising; a time on a bound is below it.
        counts: Times in each class, and one more: those above all bounds.
        sum_ms: The sum of all times.
    """

    bounds_ms: tuple[float, ...]
    counts: tuple[int, ...]
    sum_ms: float

    @property
    def count(self) -> int:
        """How many times were measured."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure.

    Attributes:
        type: What it is of, as Kafka's MBeans have it ("Log", "ReplicaManager"), or ours.
        name: Its name.
        labels: Which one: topic, partition, broker, kind of work, error.
        value: Its value; of a distribution how many times were measured.
        is_counter: It only rises, as long as the process lives.
        distribution: How long things took; None: it is a plain figure.
    """

    type: str
    name: str
    labels: Mapping[str, str | int] = field(default_factory=dict)
    value: float
    is_counter: bool = False
    distribution: Distribution | None = None

    @property
    def help(self) -> str:
        """What it says, in a sentence."""
        return HELP[self.type, self.name]
