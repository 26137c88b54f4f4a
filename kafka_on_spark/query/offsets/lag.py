"""Lag of a stream: the three figures that Spark's Kafka source puts in its metrics.

Pure. A query's progress has no metrics of a Python source, but it has both offsets that the figures
are computed from. Source: KafkaMicroBatchStream.metrics.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kafka_on_spark.query.offsets.stream_offsets import CUT, StreamOffset

Pair = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A source's end offset and latest offset, as JSON."""


def offsets_behind(end: Mapping[str, Any], latest: Mapping[str, Any]) -> dict[str, int]:
    """Return how many records each partition is behind, by "topic-number"."""
    consumed = StreamOffset.from_json(end).positions
    there = StreamOffset.from_json(latest).positions
    return {
        f"{name}-{number}": max(position - consumed.get(name, {}).get(number, 0), 0)
        for name, partitions in there.items()
        for number, position in partitions.items()
    }


def lag_metrics(sources: Iterable[Pair]) -> dict[str, str]:
    """Return Kafka's figures over all partitions of a query's sources, as texts.

    Empty if no source of this package has reported both offsets yet.
    """
    behind = [
        count
        for end, latest in sources
        if CUT in end and CUT in latest
        for count in offsets_behind(end, latest).values()
    ]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
    }
