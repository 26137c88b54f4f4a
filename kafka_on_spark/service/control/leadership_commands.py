"""Become leader, become follower: what a controller sends to tables once a leadership has changed.

A command fences tables at the new leadership at once, so that a deposed leader's late appends lose
now, and not only after the next append or fetch. It is a fetch that copies nothing, so it is as
safe: lost, late, repeated or overtaken by another election, it does what a slow follower's fetch
would (I5, I13, I14). Its answer decides nothing: what it proved stands in the table.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from kafka_on_spark.controller.commands.expiry import registered_producers
from kafka_on_spark.errors import NO_ERROR, KafkaOnSparkError
from kafka_on_spark.ids import BrokerId, PartitionKey
from kafka_on_spark.log.addresses import address_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import PartitionChangeRecord, Record
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder, RunFetches
from kafka_on_spark.service.replicate.fetching.fetch_refusals import refusals

log = logging.getLogger(__name__)

COMMANDED_MAX: Final = 256
"""Partitions that are sent their commands at a time. A command is one or two Delta commits, 10 ms
of a disk: these are done well within a heartbeat interval, while those of a failover of 10,000
would take minutes, for tables of which most see no append before the next change. The others are
fenced by the next process that appends to them or fetches from them, as all would be without
commands."""

COMMANDS_AT_ONCE: Final = 64
"""Commands between two readings of the clock: one Spark job."""


class LeadershipCommands:
    """The commands that one controllership has still to send. They may be lost."""

    def __init__(self, clock: Clock, *, run_commands: RunFetches) -> None:
        self._clock = clock
        self._run_commands = run_commands
        self._deposed: dict[PartitionKey, BrokerId | None] = {}

    def note(self, before: MetadataImage, records: Iterable[Record]) -> None:
        """Take note of the leaderships that a commit of `records` on `before` begins."""
        for record in records:
            if len(self._deposed) >= COMMANDED_MAX:
                return
            if not isinstance(record, PartitionChangeRecord):
                continue
            partition = before.partition(record.key)
            if partition is not None and record.leader_epoch > partition.leader_epoch:
                self._deposed.setdefault(record.key, partition.leader)

    def send(self, image: MetadataImage) -> int:
        """Send what was noted, as of `image`; return how many tables of leaders are fenced by it.

        What fails, or is not done within a heartbeat interval, is left to appends and fetches: a
        controller that does not come to renew its lease is taken for dead.
        """
        noted, self._deposed = self._deposed, {}
        orders = [
            order
            for key, deposed in noted.items()
            if (order := plan_command(image, key, deposed)) is not None
        ]
        duration_ms = image.settings().integer("broker.heartbeat.interval.ms")
        started_ms = self._clock.monotonic_ms()
        done = 0
        for start in range(0, len(orders), COMMANDS_AT_ONCE):
            if self._clock.monotonic_ms() - started_ms > duration_ms:
                log.info("%d partitions are sent no commands: no time", len(orders) - start)
                break
            done += self._run(orders[start : start + COMMANDS_AT_ONCE])
        return done

    def _run(self, orders: Sequence[FetchOrder]) -> int:
        try:
            results = self._run_commands(orders)
        except KafkaOnSparkError as error:
            log.warning("the commands of %d partitions are lost: %s", len(orders), error)
            return 0
        for result in results:
            for refused in refusals(result):
                log.warning(
                    "broker %d did not do a command for partition %d of topic %s: %s",
                    refused.broker_id,
                    result.report.key.partition,
                    result.report.key.topic_id,
                    refused.error,
                )
        return sum(result.report.leader.error_code == NO_ERROR for result in results)


def plan_command(
    image: MetadataImage, key: PartitionKey, deposed: BrokerId | None
) -> FetchOrder | None:
    """Return the command to a partition's leader, and to the replica that led before it.

    None if there is no leader, or its table was never created: a command creates none. The deposed
    replica is commanded if it is still assigned, was created and answers. Other followers can do no
    harm: they learn of the leadership with their next fetch.
    """
    partition = image.partition(key)
    if partition is None or partition.leader is None:
        return None
    if not _may_be_told(image, partition, partition.leader):
        return None
    follower = None
    if deposed is not None and deposed != partition.leader:
        follower = deposed if _may_be_told(image, partition, deposed) else None
    return FetchOrder(
        key=key,
        partition=partition,
        leader=address_of(image, key, partition, partition.leader),
        follower=None if follower is None else address_of(image, key, partition, follower),
        fetch_bytes_max=image.settings().integer("replica.fetch.max.bytes"),
        copy_bytes_max=0,
        registered=registered_producers(image),
    )


def _may_be_told(
    image: MetadataImage, partition: PartitionRegistration, broker_id: BrokerId
) -> bool:
    """Return whether a replica is assigned, was made, and is believed to answer."""
    is_created = broker_id in partition.replicas and partition.is_created(broker_id)
    return is_created and image.brokers[broker_id].is_online
