"""The figures of a cluster and of a process: what each says, and what a process counts and times.

A figure is a plain value, so that whoever exports it (as text, or into a picture) spells it as it
likes. What a process has counted since it began is kept in bounded memory.

Requests to roots are counted by operation and kind. On S3 the client's own events are counted, so
each retry is there. A call to a disk or to another store counts as one request. These counts are a
module global, as the process's page of figures is.
"""

import collections
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram


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
    ("Quorum", "lost-voters"): "Of these, those that do not answer, or take no commits.",
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


BOUNDS_MS: Final = (
    *(1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0),
    *(1_000.0, 2_500.0, 5_000.0, 10_000.0, 30_000.0, 120_000.0),
)
"""Classes of times: a commit to a local disk takes some ms, a round that copies much minutes."""

SERIES_MAX: Final = 1000
"""So many sets of labels a figure; what comes later is counted together."""

OTHERS: Final = "(others)"
"""The value of each label of what is counted together. No topic has a name like that."""

BEGUN: Final[Sequence[tuple[FigureName, Mapping[str, str]]]] = (
    *((COMMITS, {"outcome": each}) for each in (COMMITTED, CONFLICT, UNKNOWN, FAILED)),
    *((each, {}) for each in (ISR_SHRINKS, ISR_EXPANDS, ELECTIONS, UNCLEAN_ELECTIONS)),
    *((each, {}) for each in (REPLICATION_BYTES_IN, REPLICATION_MESSAGES_IN)),
)
"""Counts of a cluster whose labels are known before anything happens. They begin at 0: Prometheus
sees no increase in a series that is not there until it is 1, and no alert would tell the first."""

_Labels = tuple[tuple[str, str | int], ...]

RequestKind = Literal["PUT", "COPY", "POST", "LIST", "GET", "HEAD", "DELETE"]
"""A request, by S3's words. `POST` begins and ends an upload in parts; a request that deletes many
objects is one `DELETE`."""

Requests = collections.Counter[tuple[str, RequestKind]]
"""How many requests an operation has sent, by the operation's name and the kind."""

_operation: Final[ContextVar[str]] = ContextVar("operation", default="(other)")
_sent: Final[Requests] = collections.Counter()
_lock: Final = threading.Lock()


@contextmanager
def operating(operation: str) -> Iterator[None]:
    """Have the block, or a function, be one operation; of one within it, the inner one counts
    alone. Jobs of `DaemonThreads` count for the operation that submits them."""
    before = _operation.get()
    _operation.set(operation)
    try:
        yield
    finally:
        _operation.set(before)


def current_operation() -> str:
    return _operation.get()


def count_request(kind: RequestKind, path: str, count: int = 1) -> None:
    """Count a call to the root of `path`. S3's own client counts what it sends."""
    if not path.startswith(("s3://", "s3a://")):
        with _lock:
            _sent[_operation.get(), kind] += count


def count_sent(kind: RequestKind) -> None:
    with _lock:
        _sent[_operation.get(), kind] += 1


def count_requests(requests: Requests) -> None:
    """Count what a task of an executor has sent."""
    with _lock:
        _sent.update(requests)


def requests_sent() -> Requests:
    with _lock:
        return _sent.copy()


APPEND: Final = "append"
READ: Final = "read"
CONSUME: Final = "consume"
REPLICATE: Final = "replicate"
CONTROL: Final = "control"
PROBE: Final = "probe"
RETAIN: Final = "retain"
COMPACT: Final = "compact"
UPKEEP: Final = "upkeep"
CLEAN: Final = "clean"
CHECKPOINT: Final = "checkpoint"
COMMAND: Final = "command"
DESCRIBE: Final = "describe"
QUORUM: Final = "quorum"
FSCK: Final = "fsck"
OPEN: Final = "open"
"""Operations. Each kind of upkeep of a replica is one under its own name besides."""


class Counts:
    """Keeps what it is told in counters and histograms of prometheus_client, until somebody asks.
    Threads may share it; telling never raises. `now_ms` never goes back.

    `begun` are there from the start, at 0.
    """

    def __init__(
        self,
        now_ms: Callable[[], float],
        begun: Iterable[tuple[FigureName, Mapping[str, str]]] = (),
    ) -> None:
        self.now_ms = now_ms
        self._begun = tuple(begun)
        self._lock = threading.Lock()
        self._families: dict[FigureName, Counter | Histogram] = {}
        self._series: dict[FigureName, dict[_Labels, Any]] = defaultdict(dict)

    @contextmanager
    def timed(self, figure: FigureName, **labels: str | int) -> Iterator[None]:
        """Add how long the block takes, however it ends."""
        began_ms = self.now_ms()
        try:
            yield
        finally:
            self.add(figure, self.now_ms() - began_ms, **labels)

    def add(self, figure: FigureName, amount: float = 1, /, **labels: str | int) -> None:
        """Add to a count, or a time in ms to a distribution: to that of the given labels, while
        there is room for more."""
        with self._lock:
            known = self._series[figure]
            place = tuple(labels.items())
            if place not in known and len(known) >= SERIES_MAX:
                place = tuple((name, OTHERS) for name in labels)
            if place not in known:
                family = self._families.get(figure) or _family(figure, labels)
                self._families[figure] = family
                known[place] = family.labels(**dict(place)) if place else family
            if figure in TIMES:
                known[place].observe(amount)
            else:
                known[place].inc(amount)

    def keep_only(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Forget what was counted of all other topics and brokers, which makes room."""
        with self._lock:
            for figure, known in self._series.items():
                for place in [each for each in known if _is_gone(dict(each), topics, brokers)]:
                    del known[place]
                    self._families[figure].remove(*(value for _, value in place))

    def metrics(self) -> list[Metric]:
        """Return all of it, by figure and labels."""
        for figure, labels in self._begun:
            self.add(figure, 0, **labels)
        with self._lock:
            families = list(self._families.items())
        return [each for figure, family in families for each in _metrics_in(figure, family)]


def _is_gone(
    labels: Mapping[str, str | int], topics: Collection[object], brokers: Collection[object]
) -> bool:
    topic, broker = labels.get("topic", OTHERS), labels.get("broker", OTHERS)
    is_known = topic == OTHERS or topic in topics
    return not (is_known and (broker == OTHERS or broker in brokers))


def _family(figure: FigureName, labels: Iterable[str]) -> "Counter | Histogram":
    # In the function: the import takes 15 ms, and most calls on the shell count nothing.
    from prometheus_client import Counter, Histogram

    name, words = exported_name(*figure), HELP[figure]
    if figure in TIMES:
        return Histogram(name, words, tuple(labels), registry=None, buckets=BOUNDS_MS)
    return Counter(name, words, tuple(labels), registry=None)


def _metrics_in(figure: FigureName, family: "Counter | Histogram") -> Iterator[Metric]:
    buckets: list[tuple[str, float]] = []
    for sample in (each for found in family.collect() for each in found.samples):
        if sample.name.endswith("_bucket"):
            buckets.append((sample.labels["le"], sample.value))
        elif sample.name.endswith("_total"):
            yield Metric(*figure, labels=sample.labels, value=sample.value)
        elif sample.name.endswith("_sum"):
            yield Metric(
                *figure,
                labels=sample.labels,
                value=buckets[-1][1],
                sum_ms=sample.value,
                buckets=tuple(buckets),
            )
            buckets = []
