"""Appending to topics, by one call for some records or by a producer for one at a time."""

from collections.abc import MutableSet
from typing import TYPE_CHECKING, Any

from kafka_on_spark.service.append.plan.append_results import AppendResult
from kafka_on_spark.service.append.produce.settings import producer_settings
from kafka_on_spark.spark.run.frames import check_frame, is_frame, stage_frame
from kafka_on_spark.spark.wiring.services import Services
from kafka_on_spark.storage.staging.records import check_table, input_batches, table_of
from kafka_on_spark.storage.staging.staging import stage_records

if TYPE_CHECKING:
    from kafka_on_spark.cluster.producing.producer import Producer
    from kafka_on_spark.cluster.producing.sender import Sender


class Appends:
    """Appends records, as documented at `Cluster.append`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def append(self, topic: str, records: object, **choices: Any) -> AppendResult:
        is_spark = is_frame(records)
        if is_spark:
            check_frame(records, has_topic=True)  # type: ignore[arg-type]
        else:
            records = table_of(records)
            check_table(records)
        appends, options = self._services.appends, self._services.options
        plan = appends.plan(topic, **choices)
        if is_spark:
            rows = stage_frame(records, plan.order, options)  # type: ignore[arg-type]
        else:
            batches = input_batches(records.to_batches())  # type: ignore[attr-defined]
            rows = stage_records(plan.order, batches, options)
        return appends.append_staged(plan, rows)

    def make_a_producer(
        self,
        *,
        senders: "MutableSet[Sender]",
        delivery_timeout_ms: int | None,
        **given: Any,
    ) -> "Producer":
        # In the function: most processes that append hand all records to one call.
        from kafka_on_spark.cluster.producing.producer import Producer

        self._services.metadata.check_open()
        if delivery_timeout_ms is None:
            delivery_timeout_ms = self._services.timeout_ms
        settings = producer_settings(delivery_timeout_ms=delivery_timeout_ms, **given)
        return Producer(self._services, settings, senders)
