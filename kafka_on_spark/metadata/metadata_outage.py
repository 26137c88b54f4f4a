"""Waits for a metadata root that is away: a process that runs for days outlives that."""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from kafka_on_spark.base.back_off import pauses_ms
from kafka_on_spark.base.errors import (
    KafkaOnSparkError,
    KafkaStorageError,
    QuorumUnavailableError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.process import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")

AWAY_PAUSE_MS_MIN: Final = 100.0
AWAY_PAUSE_MS_MAX: Final = 5000.0

ROOTS_AWAY: Final = (KafkaStorageError, QuorumUnavailableError)
"""Errors of a metadata root that fails: of the only one, and of a majority of several."""


def is_failing(error: KafkaOnSparkError) -> bool:
    """Return whether the root fails, or a majority of several do, and not the caller: waiting
    grants no permission."""
    return isinstance(error, ROOTS_AWAY) and not isinstance(error, RootAccessDeniedError)


def wait_for_root(
    ask: Callable[[], T],
    clock: Clock,
    *,
    timeout_ms: int,
    is_away: Callable[[KafkaOnSparkError], bool] = is_failing,
) -> T:
    """Return what `ask` returns; call it again while the metadata root is away, for `timeout_ms` at
    most. `is_away` says whether an error means that the root is away.

    Raises: as `ask`.
    """
    deadline_ms = clock.monotonic_ms() + timeout_ms
    pauses = pauses_ms(AWAY_PAUSE_MS_MIN, AWAY_PAUSE_MS_MAX)
    while True:
        pause_ms = next(pauses)
        try:
            return ask()
        except KafkaOnSparkError as error:
            if not is_away(error) or clock.monotonic_ms() + pause_ms > deadline_ms:
                raise
            if pause_ms == AWAY_PAUSE_MS_MIN:
                log.warning("waits for the metadata root (%d ms at most): %s", timeout_ms, error)
        clock.sleep_ms(pause_ms)
