"""Figures of a cluster under the names of Kafka's MBeans: of its metadata, of its logs and of their
upkeep. Pure.

No figure of the metadata has a label of partitions: those of a cluster with 100,000 are as many as
those of one with 10. What a topic has is summed up.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.controller.upkeep_report import UpkeepTotals
from kafka_on_spark.groups.membership import GROUP_STATES, state_of
from kafka_on_spark.groups.offsets import lag_of
from kafka_on_spark.metadata.high_watermark import min_isr_setting
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.quorum.description import QuorumDescription
from kafka_on_spark.observe.log_descriptions import LogDescription
from kafka_on_spark.observe.metric import Metric
from kafka_on_spark.observe.partition_states import stalled_on


def quorum_metrics(quorum: QuorumDescription, *, is_controller: bool) -> Iterator[Metric]:
    """Yield the figures of a quorum as a process last saw it.

    How each voter is, only the controller knows: its commits, of which it makes some within each
    lease, ask all of them. Others ask as few as may confirm the leader.
    """
    for name, value in (
        ("current-leader", quorum.leader.node_id),
        ("current-epoch", quorum.epoch),
        ("high-watermark", quorum.high_watermark),
        ("number-of-voters", len(quorum.voters)),
    ):
        yield Metric(type="RaftMetrics", name=name, value=value)
    if is_controller:
        lags = (each.lag for each in quorum.voters if each.lag is not None)
        lost = sum(each.problem is not None for each in quorum.voters)
        yield Metric(type="Quorum", name="lost-voters", value=lost)
        yield Metric(type="Quorum", name="max-follower-lag", value=max(lags, default=0))


@dataclass(slots=True)
class _Sums:
    """Counts of partitions and of replicas."""

    partitions: int = 0
    offline: int = 0
    imbalanced: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    reassigning: int = 0
    offline_replicas: int = 0
    replicas: Counter[BrokerId] = field(default_factory=Counter)
    leaders: Counter[BrokerId] = field(default_factory=Counter)
    stalled: Counter[BrokerId] = field(default_factory=Counter)

    def add(
        self, partition: PartitionRegistration, min_isr: int, online: frozenset[BrokerId]
    ) -> None:
        """Add a partition."""
        self.partitions += 1
        self.offline += partition.leader is None
        self.imbalanced += partition.leader != partition.replicas[0]
        self.under_replicated += partition.is_under_replicated
        least = min(min_isr, len(partition.replicas))
        self.under_min_isr += len(partition.isr) < least
        self.at_min_isr += len(partition.isr) == least
        self.reassigning += partition.is_reassigning
        self.offline_replicas += sum(each not in online for each in partition.replicas)
        self.replicas.update(partition.replicas)
        if partition.leader is not None:
            self.leaders[partition.leader] += 1


def state_metrics(image: MetadataImage, *, is_controller: bool) -> list[Metric]:
    """Return the figures of the metadata. `is_controller`: so is the process that asks."""
    return [
        *_of_controller(image, is_controller=is_controller),
        *_of_partitions(image),
        *_of_groups(image),
    ]


def cut_off_metrics() -> list[Metric]:
    """Return these figures for a process that is cut off from the metadata: it is no controller,
    and what it knew of the cluster is true no more."""
    return [Metric(type="KafkaController", name="ActiveControllerCount", value=0)]


def _of_controller(image: MetadataImage, *, is_controller: bool) -> Iterator[Metric]:
    fenced = sum(not each.is_online for each in image.brokers.values())
    for name, value in (
        ("ActiveControllerCount", is_controller),
        ("ActiveBrokerCount", len(image.brokers) - fenced),
        ("FencedBrokerCount", fenced),
        ("GlobalTopicCount", len(image.topics)),
        ("LastAppliedRecordOffset", image.offset),
        ("LastAppliedRecordTimestamp", image.time_ms),
    ):
        yield Metric(type="KafkaController", name=name, value=int(value))


def _of_partitions(image: MetadataImage) -> Iterator[Metric]:
    online = frozenset(each for each, broker in image.brokers.items() if broker.is_online)
    sums = _Sums()
    for topic_id, topic in image.topics.items():
        min_isr = min_isr_setting(image, topic_id)
        for partition in topic.partitions.values():
            sums.add(partition, min_isr, online)
            sums.stalled.update(stalled_on(image, partition))
    for kind, name, value in (
        ("KafkaController", "GlobalPartitionCount", sums.partitions),
        ("KafkaController", "OfflinePartitionsCount", sums.offline),
        ("KafkaController", "PreferredReplicaImbalanceCount", sums.imbalanced),
        ("ReplicaManager", "UnderReplicatedPartitions", sums.under_replicated),
        ("ReplicaManager", "UnderMinIsrPartitionCount", sums.under_min_isr),
        ("ReplicaManager", "AtMinIsrPartitionCount", sums.at_min_isr),
        ("ReplicaManager", "ReassigningPartitions", sums.reassigning),
        ("ReplicaManager", "OfflineReplicaCount", sums.offline_replicas),
    ):
        yield Metric(type=kind, name=name, value=value)
    for broker_id in sorted(image.brokers):
        labels: dict[str, str | int] = {"broker": broker_id}
        for name, count in (("PartitionCount", sums.replicas), ("LeaderCount", sums.leaders)):
            yield Metric(type="ReplicaManager", name=name, labels=labels, value=count[broker_id])
        yield Metric(type="Moves", name="stalled", labels=labels, value=sums.stalled[broker_id])


def _of_groups(image: MetadataImage) -> Iterator[Metric]:
    lags: dict[tuple[str, str], list[int]] = {}
    for (group, key), place in image.groups.items():
        partition = image.partition(key)
        if partition is not None:
            topic = image.topics[key.topic_id].name
            lags.setdefault((group, topic), []).append(lag_of(partition, place))
    labels: dict[str, str | int]
    for (group, topic), of_topic in sorted(lags.items()):
        labels = {"consumergroup": group, "topic": topic}
        for name, value in (("lag", sum(of_topic)), ("max-lag", max(of_topic))):
            yield Metric(type="ConsumerGroup", name=name, labels=labels, value=value)
    for name, each in sorted(image.consumer_groups.items()):
        labels = {"consumergroup": name}
        yield Metric(type="ConsumerGroup", name="members", labels=labels, value=len(each.members))
    names = {group for group, _ in image.groups} | image.consumer_groups.keys()
    states = Counter(state_of(image.consumer_groups.get(each)) for each in names)
    for state in GROUP_STATES:
        labels = {"state": state.lower()}
        value = states[state]
        yield Metric(
            type="GroupCoordinator", name="consumer-group-count", labels=labels, value=value
        )


def upkeep_metrics(
    logs: Sequence[LogDescription],
    totals: UpkeepTotals,
) -> list[Metric]:
    """Return the figures of logs, and of what a process did for them."""
    return [
        *(metric for log in logs for metric in _of_log(log)),
        *_of_brokers(logs),
        *_of_process(totals),
    ]


def _of_log(log: LogDescription) -> Iterator[Metric]:
    labels: dict[str, str | int] = {
        "topic": log.topic,
        "partition": log.partition,
        "broker": log.broker_id,
    }
    if not log.is_made:
        return
    if log.error is not None:
        yield Metric(type="Log", name="Unreadable", labels={**labels, "error": log.error}, value=1)
        return
    for name, value in (
        ("Size", log.size_bytes),
        ("NumLogSegments", log.plain_segments + log.merged_segments),
        ("NumMergedSegments", log.merged_segments),
        ("LogStartOffset", log.log_start_offset),
        ("LogEndOffset", log.log_end_offset),
    ):
        yield Metric(type="Log", name=name, labels=labels, value=value)


def _of_brokers(logs: Sequence[LogDescription]) -> Iterator[Metric]:
    for broker_id in sorted({log.broker_id for log in logs}):
        own = (log.compacted for log in logs if log.broker_id == broker_id)
        ratio = max((each.cleanable_ratio for each in own if each is not None), default=0.0)
        yield Metric(
            type="LogCleanerManager",
            name="max-dirty-percent",
            labels={"broker": broker_id},
            value=100 * ratio,
        )


def _of_process(totals: UpkeepTotals) -> Iterator[Metric]:
    for kind, total in sorted(totals.by_kind().items()):
        for name, value in (
            ("done-count", total.count),
            ("done-bytes", total.size_bytes),
            ("written-bytes", total.written_bytes),
            ("failures", total.failures),
        ):
            yield Metric(type="Upkeep", name=name, labels={"kind": kind}, value=value)
