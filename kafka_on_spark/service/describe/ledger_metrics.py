"""Figures of what a process has asked of roots, by operation and topic. Pure."""

from collections.abc import Iterable, Iterator

from kafka_on_spark.ports.ledger import LedgerRow
from kafka_on_spark.service.describe.metric import Metric


def ledger_metrics(rows: Iterable[LedgerRow]) -> Iterator[Metric]:
    """Yield the figures of a ledger; those that are zero are left out."""
    for row in rows:
        labels: dict[str, str | int] = {"operation": row.operation, "topic": row.topic}
        for kind, count in row.requests.items():
            yield Metric(
                type="Ledger",
                name="requests",
                labels={**labels, "kind": kind.value},
                value=count,
                is_counter=True,
            )
        for name, value in (
            ("bytes-in", row.bytes_in),
            ("bytes-out", row.bytes_out),
            ("cpu-ms", row.cpu_ms),
        ):
            if value:
                yield Metric(type="Ledger", name=name, labels=labels, value=value, is_counter=True)
