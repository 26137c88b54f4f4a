"""Registers, drains and unregisters brokers: more than one command, at their roots or in steps."""

import os

from kafka_on_spark.cluster.requests import names_of
from kafka_on_spark.controller.brokers.draining import check_empty
from kafka_on_spark.controller.commands import commands
from kafka_on_spark.ids import BrokerId, TopicPartition, check_whole_number
from kafka_on_spark.spark.run.opening import metadata_log_of
from kafka_on_spark.spark.wiring.preparing_roots import prepare_broker
from kafka_on_spark.spark.wiring.services import Services
from kafka_on_spark.storage.roots.root_lists import BETWEEN
from kafka_on_spark.storage.roots.roots import normalize


class Brokers:
    """Changes brokers. `Cluster` documents each method under the same name."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._metadata = services.metadata
        self._run = services.run_command

    def register_broker(
        self, broker_id: int, root: str | os.PathLike[str], rack: str | None, root_mode: int
    ) -> None:
        url, number, options = normalize(root), BrokerId(broker_id), self._services.options
        image = self._metadata.catch_up()
        roots = BETWEEN.join(metadata_log_of(self._metadata).registered_roots)
        directory_id = prepare_broker(roots, image, number, url, rack, options, root_mode)
        self._run(
            commands.REGISTER_BROKER,
            broker_id=number,
            root=url,
            rack=rack,
            directory_id=directory_id,
        )

    def drain_broker(self, broker_id: int) -> list[TopicPartition]:
        check_whole_number(broker_id, "a broker id")
        moved = self._run(commands.DRAIN_BROKER, broker_id=broker_id)
        offset = None
        while offset != self._metadata.image.offset:
            offset = self._metadata.image.offset
            moved = [*moved, *self._run(commands.CONTINUE_DRAINING)]
        return names_of(self._metadata.image, moved)

    def unregister_broker(self, broker_id: int) -> None:
        check_whole_number(broker_id, "a broker id")
        check_empty(self._metadata.catch_up(), BrokerId(broker_id))
        self._services.keeping.cleaner.empty(BrokerId(broker_id))
        self._run(commands.UNREGISTER_BROKER, broker_id=broker_id)
