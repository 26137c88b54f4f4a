"""Figures of logs and their upkeep, under Kafka's names where Kafka has them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from kafka_on_spark.ids import BrokerId
from kafka_on_spark.service.describe.log_descriptions import LogDescription
from kafka_on_spark.service.describe.metric import Metric
from kafka_on_spark.service.maintain.upkeep_watch import UpkeepTrouble, UpkeepWatch

CLEANING: Final = ("compact", "compaction")
"""Kinds of work without which a compacted partition grows: what Kafka calls cleaning."""


def upkeep_metrics(
    logs: Sequence[LogDescription],
    watch: UpkeepWatch,
    troubles: Iterable[UpkeepTrouble],
    now_ms: int,
    orphan_bytes: Mapping[BrokerId, int],
) -> list[Metric]:
    """Return the figures of logs, of what of their upkeep is due, and of what a process did."""
    troubles = list(troubles)
    return [
        *(metric for log in logs for metric in _of_log(log, now_ms)),
        *_of_brokers(logs, troubles),
        *_of_process(watch),
        *_of_orphans(orphan_bytes),
        *(_of_trouble(each, now_ms) for each in troubles),
    ]


def _of_log(log: LogDescription, now_ms: int) -> Iterator[Metric]:
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
    for due in log.due:
        own = {**labels, "kind": due.kind}
        if due.error:
            continue
        yield Metric(type="Upkeep", name="due-count", labels=own, value=due.count)
        yield Metric(type="Upkeep", name="due-bytes", labels=own, value=due.size_bytes)
        if due.since_ms is not None:
            age_ms = max(0, now_ms - due.since_ms)
            yield Metric(type="Upkeep", name="due-for-ms", labels=own, value=age_ms)


def _of_brokers(
    logs: Sequence[LogDescription], troubles: Sequence[UpkeepTrouble]
) -> Iterator[Metric]:
    failing = {
        (each.topic, each.partition, each.broker_id)
        for each in troubles
        if each.kind in CLEANING and each.error
    }
    for broker_id in sorted({log.broker_id for log in logs}):
        own = [log for log in logs if log.broker_id == broker_id]
        uncleanable = [log for log in own if _place_of(log) & failing]
        ratios = [log.compacted.cleanable_ratio for log in own if log.compacted is not None]
        for name, value in (
            ("max-dirty-percent", 100 * max(ratios, default=0.0)),
            ("uncleanable-partitions-count", len(uncleanable)),
            ("uncleanable-bytes", sum(log.size_bytes for log in uncleanable)),
        ):
            labels: dict[str, str | int] = {"broker": broker_id}
            yield Metric(type="LogCleanerManager", name=name, labels=labels, value=value)


def _place_of(log: LogDescription) -> set[tuple[str, int, int | None]]:
    """Return whose troubles are a log's: its own, and of its partition, if it leads."""
    own: set[tuple[str, int, int | None]] = {(log.topic, log.partition, log.broker_id)}
    return own | {(log.topic, log.partition, None)} if log.is_leader else own


def _of_process(watch: UpkeepWatch) -> Iterator[Metric]:
    since_ms, last = watch.since_last_run_ms, watch.last_cleaning
    if since_ms is not None:
        yield Metric(type="LogCleanerManager", name="time-since-last-run-ms", value=since_ms)
    recopied = 100 * last.written_bytes / last.read_bytes if last.read_bytes else 0.0
    for name, value in (
        ("cleaner-recopy-percent", recopied),
        ("max-buffer-utilization-percent", last.buffer_percent),
        ("max-clean-time-secs", last.took_ms / 1000),
    ):
        yield Metric(type="LogCleaner", name=name, value=value)
    for kind, total in sorted(watch.totals.items()):
        for name, value in (
            ("done-count", total.count),
            ("done-bytes", total.size_bytes),
            ("written-bytes", total.written_bytes),
            ("failures", total.failures),
        ):
            yield Metric(
                type="Upkeep", name=name, labels={"kind": kind}, value=value, is_counter=True
            )


def _of_orphans(orphan_bytes: Mapping[BrokerId, int]) -> Iterator[Metric]:
    for broker_id, size_bytes in sorted(orphan_bytes.items()):
        labels: dict[str, str | int] = {"broker": broker_id}
        yield Metric(type="Upkeep", name="orphan-bytes", labels=labels, value=size_bytes)


def _of_trouble(trouble: UpkeepTrouble, now_ms: int) -> Metric:
    labels: dict[str, str | int] = {"kind": trouble.kind, "error": trouble.error or "left"}
    if trouble.topic:
        labels |= {"topic": trouble.topic, "partition": trouble.partition}
    if trouble.broker_id is not None:
        labels["broker"] = trouble.broker_id
    age_ms = max(0, now_ms - trouble.since_ms)
    return Metric(type="Upkeep", name="failing-for-ms", labels=labels, value=age_ms)
