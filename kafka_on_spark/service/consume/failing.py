"""Partitions that no replica serves: a consumer reads others meanwhile, and tries them again."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.controller.pace.back_off import pause_ms
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import PartitionKey

log = logging.getLogger(__name__)

RETRY_MS_MIN: Final = 100
RETRY_MS_MAX: Final = 1_000
"""Between tries. Source: retry.backoff.ms, retry.backoff.max.ms."""


@dataclass(slots=True)
class _Failing:
    error: KafkaOnSparkError
    since_ms: int
    retry_at_ms: int
    tries: int = 1


class FailingPartitions:
    """Which partitions fail, since when, and when each is tried again. Times are of the process's
    monotonic clock; a partition is given up after `timeout_ms`."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._failing: dict[PartitionKey, _Failing] = {}

    def note(self, key: PartitionKey, error: KafkaOnSparkError, now_ms: int) -> None:
        """Have a partition tried again later.

        Raises:
            KafkaOnSparkError: `error`, if it has failed for too long.
        """
        known = self._failing.get(key)
        if known is None:
            log.warning("a consumer reads other partitions meanwhile: %s", error)
            self._failing[key] = _Failing(error, now_ms, now_ms + RETRY_MS_MIN)
            return
        if now_ms - known.since_ms >= self._timeout_ms:
            del self._failing[key]
            raise error
        known.error = error
        known.retry_at_ms = now_ms + int(pause_ms(known.tries, RETRY_MS_MIN, RETRY_MS_MAX))
        known.tries += 1

    @property
    def longest(self) -> KafkaOnSparkError | None:
        """The last error of the partition that fails for longest; None: none fails."""
        known = min(self._failing.values(), key=lambda each: each.since_ms, default=None)
        return None if known is None else known.error

    def is_waiting(self, key: PartitionKey, now_ms: int) -> bool:
        """Return whether a partition is not to be tried yet."""
        known = self._failing.get(key)
        return known is not None and now_ms < known.retry_at_ms

    def forget(self, key: PartitionKey) -> None:
        """A partition was read, or is not read any more."""
        self._failing.pop(key, None)

    def keep_only(self, keys: Iterable[PartitionKey]) -> None:
        """Forget all others: they have nothing that could be tried again."""
        if self._failing:
            due = set(keys)
            self._failing = {key: each for key, each in self._failing.items() if key in due}

    def pauses_ms(self, now_ms: int) -> Iterator[int]:
        """Yield how long it is until each is tried again."""
        return (each.retry_at_ms - now_ms for each in self._failing.values())
