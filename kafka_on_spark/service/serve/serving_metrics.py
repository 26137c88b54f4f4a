"""Figures of a process that serves a cluster: what it has looked at, and what fails. Pure."""

from collections.abc import Iterator

from kafka_on_spark.service.describe.metric import Metric
from kafka_on_spark.service.serve.looks import METADATA, PASS, ROUND, Look, Seen


def is_cut_off(seen: Seen, now_ms: int, lease_ms: int) -> bool:
    """Return whether the metadata could not be read for longer than a lease lasts: another process
    may be the controller by now, and what this one knows of the cluster is old. A call that hangs,
    which may take long to fail, counts from its beginning."""
    failing_since_ms = seen.looks.get(METADATA, Look()).failing_since_ms
    began_at_ms = seen.began_at_ms.get(METADATA)
    since = [each for each in (failing_since_ms, began_at_ms) if each is not None]
    return bool(since) and now_ms - min(since) > lease_ms


def serving_metrics(seen: Seen, now_ms: int) -> Iterator[Metric]:
    """Yield the figures. `now_ms`: by the process's clock that never goes back."""
    yield Metric(type="Serving", name="up-ms", value=now_ms - seen.started_at_ms)
    for what in (METADATA, PASS, ROUND):
        look = seen.looks.get(what, Look())
        labels: dict[str, str | int] = {"look": what}
        yield Metric(
            type="Serving", name="failing", labels=labels, value=int(look.error is not None)
        )
