"""What a controller's loop is given in place of the metadata and the clock, so that it can be
watched, and ended from outside.

Apart from the loop itself, which knows nothing of being served: it reads, decides and waits, and by
each of these it shows that it goes on.
"""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from kafka_on_spark.controller.commands.lease import is_held_by, lease_ms
from kafka_on_spark.controller.partitions.reports import PartitionReport
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import ClusterClosedError, KafkaOnSparkError
from kafka_on_spark.ids import ControllerEpoch
from kafka_on_spark.metadata.image import ControllerLease, MetadataImage
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.service.metadata.metadata_roles import MetadataDecider
from kafka_on_spark.service.serve.looks import CONTROL, METADATA, Looks

T = TypeVar("T")


class ServingEnd(BaseException):
    """The process was told to end. Not an Exception: nothing that goes on after a failure catches
    it."""


class EndingClock:
    """A Clock whose sleepers are woken, and leave what they do, once the process is to end."""

    def __init__(self, clock: Clock, ending: threading.Event) -> None:
        self._clock = clock
        self._ending = ending

    def now_ms(self) -> int:
        """Return the wall clock, ms since 1970 UTC."""
        return self._clock.now_ms()

    def monotonic_ms(self) -> int:
        """Return a clock of this process that never goes back."""
        return self._clock.monotonic_ms()

    def sleep_ms(self, duration_ms: float) -> None:
        """Wait.

        Raises:
            ServingEnd: The process is to end.
        """
        if self._ending.wait(duration_ms / 1000):
            raise ServingEnd


class WatchedMetadata:
    """A MetadataDecider that notes each reading, since when a call is under way, and who holds the
    lease."""

    def __init__(self, metadata: MetadataDecider, looks: Looks, controller_id: str) -> None:
        self._metadata = metadata
        self._looks = looks
        self._controller_id = controller_id
        self._lease: ControllerLease | None = None

    @property
    def image(self) -> MetadataImage:
        """The newest image that this process knows."""
        return self._metadata.image

    def catch_up(self) -> MetadataImage:
        """Return the newest image.

        Raises: as `MetadataService.catch_up`.
        """
        self._looks.move(CONTROL)
        began_ms = self._looks.now_ms()
        with self._looks.looking(METADATA):
            image = self._metadata.catch_up()
        self._note_lease(image, began_ms)
        return image

    def has_next(self) -> bool:
        """Return whether there may be commits after the newest image that is known. Where that
        can't be told there may be: `catch_up` says why, and notes it."""
        self._looks.move(CONTROL)
        try:
            with self._looks.under_way(METADATA):
                return self._metadata.has_next()
        except ClusterClosedError:
            raise
        except KafkaOnSparkError:
            return True

    def submit(
        self,
        decide: Callable[[MetadataImage], ControllerResult[T]],
        *,
        timeout_ms: int,
        controller: tuple[str, ControllerEpoch] | None = None,
    ) -> T:
        """Have what `decide` says of the newest image take effect; return its response.

        Raises: as `MetadataService.submit`.
        """
        self._looks.move(CONTROL)
        began_ms = self._looks.now_ms()
        try:
            with self._looks.under_way(METADATA):
                return self._metadata.submit(decide, timeout_ms=timeout_ms, controller=controller)
        finally:
            self._looks.move(CONTROL)
            self._note_lease(self._metadata.image, began_ms)

    def conclude(self, reports: Sequence[PartitionReport], *, timeout_ms: int) -> int:
        """Have what `reports` lead to take effect; return how many ISRs change."""
        self._looks.move(CONTROL)
        with self._looks.under_way(METADATA):
            return self._metadata.conclude(reports, timeout_ms=timeout_ms)

    def _note_lease(self, image: MetadataImage, began_ms: int) -> None:
        """Note who holds the lease. One of this process counts from the call that may have renewed
        it: it may have waited for long until it knew."""
        lease = image.controller
        if lease == self._lease:
            return
        self._lease = lease
        if is_held_by(image, self._controller_id):
            self._looks.hold(self._controller_id, began_ms + lease_ms(image))
        else:
            self._looks.stand_by(None if lease is None else lease.controller_id)
