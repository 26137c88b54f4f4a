"""Watches the controller's lease: whether whoever holds it shows signs of life.

Apart from `term`, which claims and keeps a lease: an append that waits only watches it.
"""

from kafka_on_spark.base.process import Clock
from kafka_on_spark.controller import lease
from kafka_on_spark.metadata.image import ControllerLease, MetadataImage


class LeaseWatch:
    """Watches the lease for signs of life, by a clock of this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ms = clock.monotonic_ms()
        self.seen: ControllerLease | None = None

    def is_over(self, image: MetadataImage) -> bool:
        """Return whether nobody holds the lease of `image`: it was resigned, or `seen` unchanged
        for as long as it lasts."""
        now_ms = self._clock.monotonic_ms()
        if image.controller != self.seen:
            self.seen, self._since_ms = image.controller, now_ms
        return lease.is_over(image, now_ms - self._since_ms)
