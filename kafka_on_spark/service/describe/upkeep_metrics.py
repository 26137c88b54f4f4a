"""Figures of logs and their upkeep, under Kafka's names where Kafka has them."""

from collections.abc import Iterator, Sequence

from kafka_on_spark.service.describe.log_descriptions import LogDescription
from kafka_on_spark.service.describe.metric import Metric
from kafka_on_spark.service.maintain.upkeep_report import UpkeepTotals


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
