"""A producer's settings, by Kafka's names, and which of Kafka's are refused.

Source: org.apache.kafka.clients.producer.ProducerConfig.
"""

from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.config import check_acks
from kafka_on_spark.base.errors import InvalidConfigError
from kafka_on_spark.base.ids import check_whole_number

LINGER_MS: Final = 5
BATCH_SIZE: Final = 2**20
"""Kafka's is 16 KiB: there a batch of one partition is a request's, here an append has a commit for
each partition."""
BUFFER_MEMORY: Final = 32 * 2**20
MAX_BLOCK_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How a producer sends.

    Attributes:
        acks: "all" or "1".
        linger_ms: How long records gather before an append begins. Source: linger.ms.
        batch_size: Bytes a partition that begin it earlier. Source: batch.size.
        buffer_memory: Bytes of all records without an answer. Source: buffer.memory.
        max_block_ms: How long `send` waits for room in it. Source: max.block.ms.
        delivery_timeout_ms: From a record's send to its answer. Source: delivery.timeout.ms.
    """

    acks: str
    linger_ms: int
    batch_size: int
    buffer_memory: int
    max_block_ms: int
    delivery_timeout_ms: int


def producer_settings(
    *, acks: str | int, max_in_flight: int, transactional_id: str | None, **numbers: int
) -> ProducerSettings:
    """Return the settings of a producer, checked.

    Raises:
        InvalidConfigError: A value is not allowed.
        InvalidRequestError: One is not a whole number.
        InvalidRequiredAcksError: `acks` is none of Kafka's.
    """
    acks = check_acks(acks)
    if acks == "0":
        raise InvalidConfigError(
            "acks=0 waits for no answer, and a producer's futures are answers: give 'all' or 1"
        )
    if transactional_id is not None:
        raise InvalidConfigError(
            "transactional_id is not allowed: there are no transactions yet; leave it out, and the"
            " producer is idempotent"
        )
    check_whole_number(max_in_flight, "max_in_flight_requests_per_connection")
    if max_in_flight != 1:
        raise InvalidConfigError(
            f"max_in_flight_requests_per_connection can't be {max_in_flight}: a partition has one"
            " append under way at a time, because sequences count appends, and a later one that"
            " lands first makes the earlier one fail with an OutOfOrderSequenceError; give 1. What"
            " gathers meanwhile goes with the next append"
        )
    for name, value in numbers.items():
        check_whole_number(value, name)
        least = 1 if name in ("buffer_memory", "delivery_timeout_ms") else 0
        if value < least:
            raise InvalidConfigError(f"{name} can't be {value}: give {least} or more")
    settings = ProducerSettings(acks=acks, **numbers)
    if settings.delivery_timeout_ms < settings.linger_ms:
        raise InvalidConfigError(
            f"delivery_timeout_ms {settings.delivery_timeout_ms} is less than linger_ms"
            f" {settings.linger_ms}: records would expire while they gather; give more"
        )
    return settings
