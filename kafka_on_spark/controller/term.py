"""One controllership, from claim to resignation: its commits carry its controller epoch.

Safety is the conditional commit and the epoch: a term that sees a higher epoch commits nothing
more (I7). The lease is for liveness only, and each process times it by its own monotonic clock.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from kafka_on_spark.base.ids import ControllerEpoch
from kafka_on_spark.base.process import Clock
from kafka_on_spark.controller import lease
from kafka_on_spark.controller.requests import answer
from kafka_on_spark.metadata.image import ControllerLease, MetadataImage
from kafka_on_spark.metadata.metadata_roles import MetadataDecider
from kafka_on_spark.metadata.result import ControllerResult, IdSource

log = logging.getLogger(__name__)

T = TypeVar("T")

READ_MS: Final = 1000
"""How often a controller that waits for requests reads the log as everybody does. In between it
looks for the next commit of the leader's table alone, for half as much: that does not tell of
another leader of the quorum, nor of a log that went back."""


class Term:
    """A controllership that was claimed."""

    def __init__(
        self,
        metadata: MetadataDecider,
        clock: Clock,
        *,
        controller_id: str,
        epoch: ControllerEpoch,
        timeout_ms: int,
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._controller_id = controller_id
        self.epoch = epoch
        self._timeout_ms = timeout_ms
        self._renewed_at_ms = clock.monotonic_ms()
        self._served_at_ms: int | None = None
        self._read_at_ms = self._renewed_at_ms

    @classmethod
    def claim(
        cls,
        metadata: MetadataDecider,
        clock: Clock,
        *,
        controller_id: str,
        seen: ControllerLease | None,
        timeout_ms: int,
    ) -> "Term | None":
        """Take the next controller epoch after the lease `seen`; None if another was faster."""
        cause = f"{controller_id} claims the controllership"
        epoch = metadata.submit(
            partial(lease.claim, controller_id=controller_id, cause=cause, seen=seen),
            timeout_ms=timeout_ms,
        )
        if epoch is None:
            return None
        log.info("controller %s, epoch %s", controller_id, epoch)
        return cls(
            metadata,
            clock,
            controller_id=controller_id,
            epoch=epoch,
            timeout_ms=timeout_ms,
        )

    def submit(self, decide: Callable[[MetadataImage], ControllerResult[T]]) -> T:
        """Commit what `decide` says, under this term's epoch.

        Raises:
            NotControllerError: Another controller has claimed; nothing is committed.
            And as MetadataDecider.submit.
        """

        def guarded(image: MetadataImage) -> ControllerResult[T]:
            self.check(image)
            return decide(image)

        return self._metadata.submit(
            guarded,
            timeout_ms=self._timeout_ms,
            controller=(self._controller_id, self.epoch),
        )

    def check(self, image: MetadataImage) -> None:
        """Check that no later controller has claimed.

        Raises:
            NotControllerError: One has.
        """
        lease.check_controls(image, self.epoch)

    def serve_requests(self, id_source: IdSource) -> None:
        """Renew the lease if that is due, and answer pending requests. To be called often.

        Raises:
            NotControllerError: Another controller has claimed.
        """
        is_read = self._read_if_needed()
        image = self._metadata.image
        self.check(image)
        self._renew(image)
        if is_read:
            self.answer_requests(id_source)
        elif self._metadata.image.requests:  # another thread of this process has read them
            self._answer_all(id_source)

    def _read_if_needed(self) -> bool:
        """Read the log, unless a look says that there is nothing; return whether it was read."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._read_at_ms < READ_MS and not self._metadata.has_next():
            return False
        self._metadata.catch_up()
        self._read_at_ms = now_ms
        return True

    def _renew(self, image: MetadataImage) -> None:
        now_ms = self._clock.monotonic_ms()
        if not lease.is_renewal_due(image, now_ms - self._renewed_at_ms):
            return
        self.submit(partial(lease.renew, controller_id=self._controller_id, epoch=self.epoch))
        self._renewed_at_ms = now_ms

    def answer_requests(self, id_source: IdSource) -> int:
        """Decide the requests that are pending now, in order; return how many. The caller has just
        read the log: what the next reading finds has come since.

        Raises:
            NotControllerError: Another controller has claimed; it answers the rest.
        """
        served_at_ms = self._clock.monotonic_ms()
        count = self._answer_all(id_source)
        self._served_at_ms = served_at_ms
        return count

    def _answer_all(self, id_source: IdSource) -> int:
        now_ms = self._clock.monotonic_ms()
        unseen_ms = None if self._served_at_ms is None else now_ms - self._served_at_ms
        count = 0
        for record in self._metadata.image.requests:
            count += self.submit(
                partial(
                    answer,
                    record=record,
                    id_source=id_source,
                    now_ms=self._clock.now_ms(),
                    unseen_ms=unseen_ms,
                )
            )
            self._renew(self._metadata.image)
        return count

    def resign(self) -> None:
        """Resign, unless another controller has claimed."""
        self._metadata.submit(
            lambda image: lease.resign(image, self._controller_id, self.epoch),
            timeout_ms=self._timeout_ms,
        )
