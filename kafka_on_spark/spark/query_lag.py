"""Lag of a streaming query, read from its progress: Kafka's three figures.

Spark shows a Python source's offsets in the progress, and no metrics of its own.
"""

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.consume.query_batch import CUT, StreamOffset
from kafka_on_spark.spark.versions import MISSING

try:
    from pyspark.sql.streaming.listener import StreamingQueryListener
except ImportError as error:
    raise InvalidRequestError(MISSING) from error

log = logging.getLogger(__name__)

Report = Callable[[Any, dict[str, str]], None]
"""Called with a query's progress and its figures."""


def lag(progress: Any) -> dict[str, str]:
    """Return the lag of a query, as Spark's Kafka source has it in its metrics.

    ``minOffsetsBehindLatest``, ``maxOffsetsBehindLatest`` and ``avgOffsetsBehindLatest``, in
    records, as texts, over all partitions of all sources of this format in the query. `progress`
    is ``query.lastProgress``, a listener's progress, or their JSON; None, and a query without such
    a source, give an empty dict. Source: KafkaMicroBatchStream.metrics.
    """
    if progress is None:
        return {}
    if isinstance(progress, str):
        progress = json.loads(progress)
    behind: list[int] = []
    for source in _get(progress, "sources") or ():
        end, latest = _json(_get(source, "endOffset")), _json(_get(source, "latestOffset"))
        if CUT not in end or CUT not in latest:
            continue  # not of this package, or nothing is reported yet
        consumed = StreamOffset.from_json(end).positions
        behind += (
            max(position - consumed.get(name, 0), 0)
            for name, position in StreamOffset.from_json(latest).positions.items()
        )
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
    }


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name)


def _json(offset: Any) -> Mapping[str, Any]:
    parsed = json.loads(offset) if isinstance(offset, str) else offset
    return parsed if isinstance(parsed, Mapping) else {}


class LagListener(StreamingQueryListener):
    """Reports the lag of every query of a session, at each of its progresses.

    Give it to ``spark.streams.addListener``. Without `report` the figures are logged.
    """

    def __init__(self, report: Report | None = None) -> None:
        self._report = _log if report is None else report

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Do nothing: there is no progress yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Report the figures, if the query reads a source of this format."""
        figures = lag(event.progress)
        if figures:
            self._report(event.progress, figures)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing: nothing has moved."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Do nothing: the last progress was reported."""


def _log(progress: Any, figures: dict[str, str]) -> None:
    log.info("query %s (%s): %s", progress.name, progress.id, figures)
