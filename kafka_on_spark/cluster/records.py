"""Reading topics: plans of the services, and rows of frames and tables.

What scans by Spark is imported when it is asked for: a process without a session imports no
pyspark, which takes it a fifth of a second.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafka_on_spark.errors import OffsetOutOfRangeError
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.reads.cuts import ranges_between
from kafka_on_spark.query.reads.read_order import ReadOrder, of_changes, of_values
from kafka_on_spark.service.read.reading import pass_deleted, refuse_deleted
from kafka_on_spark.service.what_if.metadata_as_of import metadata_as_of
from kafka_on_spark.spark.wiring.read_services import ReadServices
from kafka_on_spark.spark.wiring.services import Services
from kafka_on_spark.storage.calls.clock import SystemClock
from kafka_on_spark.storage.replicas.reader import count_records, read_rows, row_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


CUTS_MAX: Final = 5
"""Cuts that are tried for a table: a decision of compaction may come between one and its read."""


class Changes:
    """Reads what changed between two cuts. `Cluster` documents it under the same name."""

    def __init__(self, metadata_root: str, services: Services) -> None:
        self._root = metadata_root
        self._services = services

    def changes(
        self, topic: str, since: datetime | int, until: datetime | int | None, name: str | None
    ) -> "DataFrame":
        from kafka_on_spark.spark.view.key_tables import changed_keys
        from kafka_on_spark.spark.view.views import check_view_session, open_view

        services = self._services
        now = services.metadata.catch_up()
        check_view_session(services.spark, name)
        ranges = ranges_between(
            self._image_at(since), now if until is None else self._image_at(until), now, topic
        )
        view = open_view(
            services,
            self._root,
            topic,
            name=None,
            start={number: start for number, (start, _) in ranges.items()},
            end={number: end for number, (_, end) in ranges.items()},
            has_headers=False,
            asks=lambda orders: of_changes(orders, ranges),
        )
        return _named(changed_keys(view), name)

    def _image_at(self, moment: datetime | int) -> MetadataImage:
        now_ms = SystemClock().now_ms()
        return metadata_as_of(self._services.metadata, moment, now_ms=now_ms).image


def _named(frame: "DataFrame", name: str | None) -> "DataFrame":
    if name is not None:
        frame.createOrReplaceTempView(name)
    return frame


class Reads:
    """Reads committed records. `Cluster` documents each method under the same name."""

    def __init__(self, metadata_root: str, services: ReadServices) -> None:
        self._root = metadata_root
        self._services = services

    def read(
        self, topic: str, start: Mapping[int, int] | None, end: Mapping[int, int] | None
    ) -> pa.Table:
        orders = self._services.plan_reads(topic, start, end)
        batches = self._batches(orders, frozenset(start or {}))
        return pa.Table.from_batches(batches, schema=row_schema(has_headers=True))

    def count(
        self, topic: str, start: Mapping[int, int] | None, end: Mapping[int, int] | None
    ) -> int:
        services = self._services
        try:
            return sum(
                count_records(
                    order,
                    services.replicas,
                    services.options,
                    **self._how(order, frozenset(start or {})),
                )
                for order in services.plan_reads(topic, start, end)
            )
        finally:
            services.note_findings()

    def _how(self, order: ReadOrder, started: Set[int]) -> dict[str, Any]:
        """Return what a read does about failures; `started`: the partitions whose first offset is
        asked for."""
        return {
            "note": self._services.note_unread,
            "on_deleted": refuse_deleted if order.name.partition in started else pass_deleted,
            "finish_compaction": self._services.finish_compaction,
        }

    def _batches(self, orders: Sequence[ReadOrder], started: Set[int]) -> Iterator[pa.RecordBatch]:
        services = self._services
        try:
            for order in orders:
                yield from read_rows(
                    order, services.replicas, services.options, **self._how(order, started)
                )
        finally:
            services.note_findings()

    def table(self, topic: str, name: str | None) -> "DataFrame":
        from kafka_on_spark.spark.view.key_tables import last_values
        from kafka_on_spark.spark.view.views import check_view_session

        self._services.plan_reads(topic, None, None)  # a bad topic is told before a bad name
        check_view_session(self._services.spark, name)
        for tries_left in reversed(range(CUTS_MAX)):
            try:
                return _named(last_values(self._values(topic)), name)
            except OffsetOutOfRangeError:  # it was compacted meanwhile: a newer cut has all values
                if not tries_left:
                    raise
        raise AssertionError

    def _values(self, topic: str) -> "DataFrame":
        from kafka_on_spark.spark.view.views import open_view

        return open_view(
            self._services,
            self._root,
            topic,
            name=None,
            start=None,
            end=None,
            has_headers=False,
            asks=of_values,
        )

    def view(
        self,
        topic: str,
        name: str | None,
        start: Mapping[int, int] | datetime | None,
        end: Mapping[int, int] | datetime | None,
        has_headers: bool,
    ) -> "DataFrame":
        from kafka_on_spark.spark.view.views import open_view

        return open_view(
            self._services,
            self._root,
            topic,
            name=name,
            start=start,
            end=end,
            has_headers=has_headers,
        )
