"""Figures of a process that serves a cluster: what it has looked at, and what fails. Pure."""

from collections.abc import Iterator

from kafka_on_spark.service.describe.metric import Metric
from kafka_on_spark.service.serve.looks import METADATA, PASS, ROUND, Look, Seen


def serving_metrics(seen: Seen, now_ms: int) -> Iterator[Metric]:
    """Yield the figures. `now_ms`: by the process's clock that never goes back."""
    yield Metric(type="Serving", name="up-ms", value=now_ms - seen.started_at_ms)
    for what in (METADATA, PASS, ROUND):
        look = seen.looks.get(what, Look())
        labels: dict[str, str | int] = {"look": what}
        yield Metric(
            type="Serving", name="failing", labels=labels, value=int(look.error is not None)
        )
