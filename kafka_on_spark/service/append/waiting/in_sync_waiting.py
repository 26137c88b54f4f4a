"""Repeats an append while too few replicas are in sync for acks=all.

For a stream's batches: nobody is there to append again, and under its number a batch stands once,
however many tries it takes. What was staged stays good.
"""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from kafka_on_spark.controller.pace.back_off import pauses_ms
from kafka_on_spark.errors import (
    KafkaOnSparkError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
)
from kafka_on_spark.ports.process import Clock

log = logging.getLogger(__name__)

PAUSE_MS_MIN: Final = 100.0
PAUSE_MS_MAX: Final = 1000.0

T = TypeVar("T")


def append_when_in_sync(
    append: Callable[[], T], catch_up: Callable[[], object], clock: Clock, *, timeout_ms: int
) -> T:
    """Return what `append` returns; call it again while too few replicas are in sync, for
    `timeout_ms` at most. `catch_up` is called before each further try.

    Raises: as both. In the end it is the first refusal, or the last one after a write: what
    may stand is never called not written.
    """
    deadline_ms = clock.monotonic_ms() + timeout_ms
    pauses = pauses_ms(PAUSE_MS_MIN, PAUSE_MS_MAX)
    failure: KafkaOnSparkError | None = None
    while True:
        pause_ms = next(pauses)
        try:
            return append()
        except (NotEnoughReplicasError, NotEnoughReplicasAfterAppendError) as error:
            if failure is None:
                log.warning("waits for replicas in sync (%d ms at most): %s", timeout_ms, error)
            if failure is None or isinstance(error, NotEnoughReplicasAfterAppendError):
                failure = error
            if clock.monotonic_ms() + pause_ms > deadline_ms:
                raise failure from None
        clock.sleep_ms(pause_ms)
        catch_up()
