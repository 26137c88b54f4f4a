"""Makes the consumers of a cluster."""

from typing import Any

from kafka_on_spark.cluster.consuming.consumer import Consumer
from kafka_on_spark.cluster.consuming.one_caller import OnPartitions
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import check_number
from kafka_on_spark.query.consuming.assigned import subscription_of
from kafka_on_spark.query.consuming.settings import consumer_settings
from kafka_on_spark.spark.wiring.services import Services


class Consumers:
    """Makes consumers, as documented at `Cluster.consumer`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def make_a_consumer(
        self,
        topics: object,
        pattern: object,
        partitions: object,
        consumer_timeout_ms: float | None,
        on_assigned: OnPartitions | None,
        on_revoked: OnPartitions | None,
        on_lost: OnPartitions | None,
        **given: Any,
    ) -> Consumer:
        image = self._services.metadata.catch_up()
        if consumer_timeout_ms is not None:
            check_number(consumer_timeout_ms, "consumer_timeout_ms")
        _check_callbacks(on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost)
        settings = consumer_settings(**given)
        subscription = subscription_of(image, topics, pattern, partitions)
        return Consumer(
            self._services,
            settings,
            subscription,
            consumer_timeout_ms,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
            on_lost=on_lost,
        )


def _check_callbacks(**callbacks: object) -> None:
    """Check what a poll calls, before a member has joined its group for it."""
    for name, given in callbacks.items():
        if given is not None and not callable(given):
            raise InvalidRequestError(
                f"{name} can't be {given!r}: give a function, which is called with partitions"
            )
