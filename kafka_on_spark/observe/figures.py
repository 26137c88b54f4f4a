"""All figures that a process has of its cluster, under the names of Kafka's MBeans, and as text for
Prometheus and whoever reads its formats; `prometheus_client` is imported when somebody asks.

No figure of the metadata has a label of partitions: those of a cluster with 100,000 are as many as
those of one with 10. What a topic has is summed up.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.controller.lease import is_held_by
from kafka_on_spark.groups.membership import GROUP_STATES, state_of
from kafka_on_spark.groups.offsets import groups_of, lag_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.quorum.description import QuorumDescription
from kafka_on_spark.metadata.reports import min_isr_setting
from kafka_on_spark.node.node import Node
from kafka_on_spark.observe.descriptions import stalled_on
from kafka_on_spark.observe.replicas import LogDescription
from kafka_on_spark.store.counts import COUNTERS, HELP, TIMES, Metric, exported_name, requests_sent
from kafka_on_spark.store.deadlines import within
from kafka_on_spark.store.local_files import FLUSHES
from kafka_on_spark.store.roots import is_local

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

ROOM_S: Final = 0.2
"""A disk that says nothing for so long is left out."""


def metrics_of(
    node: Node,
    logs: Sequence[LogDescription] = (),
    *,
    is_cut_off: bool = False,
) -> list[Metric]:
    """Return the figures, with those of `logs`. Nothing is read for it but the room on local disks:
    the image is the newest that this process knows. `is_cut_off`: that is too old, so that what is
    known of the cluster is true no more, and this process is no controller."""
    image = node.metadata.image
    node.counts.keep_only(image.topic_ids, image.brokers)
    of_cluster = [Metric(type="KafkaController", name="ActiveControllerCount", value=0)]
    if not is_cut_off:
        is_controller = is_held_by(image, node.controller_id)
        ahead_ms = max(image.newest_ms() - node.clock.now_ms(), 0)
        quorum = node.metadata.log.last_seen()
        of_cluster = [
            *state_metrics(image, is_controller=is_controller),
            Metric(type="KafkaController", name="TimeAheadMs", value=ahead_ms),
            *(quorum_metrics(quorum, is_controller=is_controller) if quorum is not None else ()),
        ]
    return [
        *of_cluster,
        *log_metrics(logs),
        *node.counts.metrics(),
        *FLUSHES.metrics(),
        *_of_roots(node),
        *(
            Metric(
                type="Ledger", name="requests", labels=dict(operation=op, kind=kind), value=count
            )
            for (op, kind), count in requests_sent().items()
        ),
    ]


def _figures(kind: str, values: Mapping[str, float], /, **labels: str | int) -> Iterator[Metric]:
    for name, value in values.items():
        yield Metric(type=kind, name=name, labels=labels, value=value)


def _of_roots(node: Node) -> Iterator[Metric]:
    """Yield the room that this host has on the roots that are folders; a store has no bounds."""
    brokers = node.metadata.image.brokers.values()
    roots = [*node.metadata.log.roots(), *(broker.root for broker in brokers)]
    for root in dict.fromkeys(filter(is_local, roots)):
        try:
            found = within(root, partial(os.statvfs, root), ROOM_S)
        except (KafkaOnSparkError, OSError):
            continue
        yield from _figures("Root", {"free-bytes": found.f_bavail * found.f_frsize}, root=root)
        if found.f_files:  # some file systems have as many as fit
            yield from _figures("Root", {"free-inodes": found.f_favail}, root=root)


def quorum_metrics(quorum: QuorumDescription, *, is_controller: bool) -> Iterator[Metric]:
    """Yield the figures of a quorum as a process last saw it.

    How each voter is, only the controller knows: its commits, of which it makes some within each
    lease, ask all of them. Others ask as few as may confirm the leader.
    """
    shown = {
        "current-leader": quorum.leader.node_id,
        "current-epoch": quorum.epoch,
        "high-watermark": quorum.high_watermark,
        "number-of-voters": len(quorum.voters),
    }
    yield from _figures("RaftMetrics", shown)
    if is_controller:
        lags = (each.lag for each in quorum.voters if each.lag is not None)
        lost = sum(each.problem is not None for each in quorum.voters)
        behind = {"lost-voters": lost, "max-follower-lag": max(lags, default=0)}
        yield from _figures("Quorum", behind)


def state_metrics(image: MetadataImage, *, is_controller: bool) -> list[Metric]:
    """Return the figures of the metadata. `is_controller`: so is the process that asks."""
    fenced = sum(not each.is_online for each in image.brokers.values())
    of_controller = {
        "ActiveControllerCount": int(is_controller),
        "ActiveBrokerCount": len(image.brokers) - fenced,
        "FencedBrokerCount": fenced,
        "GlobalTopicCount": len(image.topics),
        "LastAppliedRecordOffset": image.offset,
        "LastAppliedRecordTimestamp": image.time_ms,
    }
    return [
        *_figures("KafkaController", of_controller),
        *_of_partitions(image),
        *_of_groups(image),
    ]


def _of_partitions(image: MetadataImage) -> Iterator[Metric]:
    online = frozenset(each for each, broker in image.brokers.items() if broker.is_online)
    total = offline = imbalanced = 0
    under_replicated = under_min_isr = at_min_isr = reassigning = offline_replicas = 0
    replicas, leaders, stalled = Counter[BrokerId](), Counter[BrokerId](), Counter[BrokerId]()
    for topic_id, topic in image.topics.items():
        min_isr = min_isr_setting(image, topic_id)
        for partition in topic.partitions.values():
            least = min(min_isr, len(partition.replicas))
            total += 1
            offline += partition.leader is None
            imbalanced += partition.leader != partition.replicas[0]
            under_replicated += partition.is_under_replicated
            under_min_isr += len(partition.isr) < least
            at_min_isr += len(partition.isr) == least
            reassigning += partition.is_reassigning
            offline_replicas += sum(each not in online for each in partition.replicas)
            replicas.update(partition.replicas)
            leaders.update(set() if partition.leader is None else {partition.leader})
            stalled.update(stalled_on(image, partition))
    of_controller = {
        "GlobalPartitionCount": total,
        "OfflinePartitionsCount": offline,
        "PreferredReplicaImbalanceCount": imbalanced,
    }
    of_replicas = {
        "UnderReplicatedPartitions": under_replicated,
        "UnderMinIsrPartitionCount": under_min_isr,
        "AtMinIsrPartitionCount": at_min_isr,
        "ReassigningPartitions": reassigning,
        "OfflineReplicaCount": offline_replicas,
    }
    yield from _figures("KafkaController", of_controller)
    yield from _figures("ReplicaManager", of_replicas)
    for each in sorted(image.brokers):
        held = {"PartitionCount": replicas[each], "LeaderCount": leaders[each]}
        yield from _figures("ReplicaManager", held, broker=each)
        yield from _figures("Moves", {"stalled": stalled[each]}, broker=each)


def _of_groups(image: MetadataImage) -> Iterator[Metric]:
    for (group, topic), each in sorted(group_lags(image).items()):
        behind = {"lag": sum(each), "max-lag": max(each)}
        yield from _figures("ConsumerGroup", behind, consumergroup=group, topic=topic)
    for name, known in sorted(image.consumer_groups.items()):
        yield from _figures("ConsumerGroup", {"members": len(known.members)}, consumergroup=name)
    states = Counter(state_of(image.consumer_groups.get(each)) for each in groups_of(image))
    for state in GROUP_STATES:
        count = {"consumer-group-count": states[state]}
        yield from _figures("GroupCoordinator", count, state=state.lower())


def group_lags(image: MetadataImage) -> dict[tuple[str, str], list[int]]:
    """Return by group and topic how many committed records the group has not processed, in each
    partition where it has an offset."""
    lags: dict[tuple[str, str], list[int]] = {}
    for (group, key), place in image.group_offsets.items():
        partition = image.partition(key)
        if partition is not None:
            topic = image.topics[key.topic_id].name
            lags.setdefault((group, topic), []).append(lag_of(partition, place))
    return lags


def log_metrics(logs: Sequence[LogDescription]) -> Iterator[Metric]:
    for log in logs:
        yield from _of_log(log)
    for broker_id in sorted({log.broker_id for log in logs}):
        own = (log.compacted for log in logs if log.broker_id == broker_id)
        ratio = max((each.cleanable_ratio for each in own if each is not None), default=0.0)
        dirty = {"max-dirty-percent": 100 * ratio}
        yield from _figures("LogCleanerManager", dirty, broker=broker_id)


def _of_log(log: LogDescription) -> Iterator[Metric]:
    labels: dict[str, str | int] = {
        "topic": log.topic,
        "partition": log.partition,
        "broker": log.broker_id,
    }
    if not log.is_made:
        return
    if log.error is not None:
        yield from _figures("Log", {"Unreadable": 1}, **labels, error=log.error)
    else:
        shown = {
            "Size": log.size_bytes,
            "NumLogSegments": log.plain_segments + log.merged_segments,
            "NumMergedSegments": log.merged_segments,
            "LogStartOffset": log.log_start_offset,
            "LogEndOffset": log.log_end_offset,
        }
        yield from _figures("Log", shown, **labels)


UNWRITTEN: Final = ("error",)
"""Labels that are not written: their values are sentences, of which there is no end."""

OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""The content type of `openmetrics`."""


def openmetrics(metrics: Iterable[Metric], *, has_process: bool = False) -> str:
    """Return figures as OpenMetrics. `has_process`: with those of the process: memory, CPU."""
    from prometheus_client import ProcessCollector
    from prometheus_client.openmetrics.exposition import generate_latest

    by_name: dict[tuple[str, str], list[Metric]] = defaultdict(list)
    for each in metrics:
        by_name[each.type, each.name].append(each)
    families = [_family(each) for each in by_name.values()]
    if has_process:
        families += ProcessCollector(registry=None).collect()
    registry = SimpleNamespace(collect=lambda: families)
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text.decode()


def _family(metrics: Sequence[Metric]) -> "Family":
    from prometheus_client.metrics_core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    first = metrics[0]
    name = exported_name(first.type, first.name)
    words = HELP[first.type, first.name]
    labels = sorted({label for each in metrics for label in each.labels} - set(UNWRITTEN))
    values = [[str(each.labels.get(label, "")) for label in labels] for each in metrics]
    if (first.type, first.name) in TIMES:
        histogram = HistogramMetricFamily(name, words, labels=labels)
        for each, of_each in zip(metrics, values, strict=True):
            histogram.add_metric(of_each, list(each.buckets), each.sum_ms)
        return histogram
    family = (CounterMetricFamily if (first.type, first.name) in COUNTERS else GaugeMetricFamily)(
        name, words, labels=labels
    )
    for each, of_each in zip(metrics, values, strict=True):
        family.add_metric(of_each, each.value)
    return family
