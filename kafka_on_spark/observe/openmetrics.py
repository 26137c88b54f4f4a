"""Writes figures as text, for Prometheus and whoever reads its formats: names, labels, bounds.

Apart from the figures themselves, which know no format. `prometheus_client` is imported when
somebody asks.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafka_on_spark.base.metric import COUNTERS, HELP, TIMES, Metric, exported_name

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric as Family

UNWRITTEN: Final = ("error",)
"""Labels that are not written: their values are sentences, of which there is no end."""

OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""The content type of `openmetrics`."""


def openmetrics(metrics: Iterable[Metric], *, has_process: bool = False) -> str:
    """Return figures as OpenMetrics. `has_process`: with those of the process: memory, CPU."""
    from prometheus_client.openmetrics.exposition import generate_latest

    text: bytes = generate_latest(_registry(metrics, has_process))  # type: ignore[no-untyped-call]
    return text.decode()


def _registry(metrics: Iterable[Metric], has_process: bool) -> "CollectorRegistry":
    from prometheus_client import CollectorRegistry, ProcessCollector

    registry = CollectorRegistry()
    registry.register(_Figures(list(metrics)))
    if has_process:
        ProcessCollector(registry=registry)
    return registry


@dataclass(frozen=True, slots=True, eq=False)
class _Figures:
    """What prometheus_client asks for families."""

    metrics: Sequence[Metric]

    def collect(self) -> Iterator["Family"]:
        """Yield a family a figure."""
        by_name: dict[tuple[str, str], list[Metric]] = defaultdict(list)
        for each in self.metrics:
            by_name[each.type, each.name].append(each)
        yield from map(_family, by_name.values())


def _family(metrics: Sequence[Metric]) -> "Family":
    """Return the family of one figure, of which there is one at least."""
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
