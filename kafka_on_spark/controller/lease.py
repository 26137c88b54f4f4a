"""Who may decide: a controller in its term, or a process whose one decision is a whole term.

The lease is for liveness only, and each process times it by its own monotonic clock. Safety is the
conditional commit and the epoch: a term that sees a higher epoch than its own commits nothing more
(I7). The loop of a controller, a command, and an append that waits ask the same `LeaseWatch`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from kafka_on_spark.base.errors import NotControllerError
from kafka_on_spark.base.ids import Clock, ControllerEpoch
from kafka_on_spark.metadata.image import (
    ControllerLease,
    ControllerResult,
    MetadataDecider,
    MetadataImage,
)
from kafka_on_spark.metadata.records import ControllerRecord

T = TypeVar("T")

ONE_COMMAND: Final = "one command"
"""Why a process claims for one decision."""

RENEWALS_PER_LEASE: Final = 3
"""A renewal may be late by the time of two, and the lease still holds."""


def claim(
    image: MetadataImage, controller_id: str, cause: str, *, seen: ControllerLease | None
) -> ControllerResult[ControllerEpoch | None]:
    """Decide that `controller_id` controls the cluster under the next epoch.

    `seen` is the lease whose end the claimant has watched. If another lease is there now,
    another claimant was faster: None, and nothing is claimed.
    """
    if image.controller != seen:
        return ControllerResult([], None)
    epoch = next_controller_epoch(image)
    record = ControllerRecord(controller_id=controller_id, controller_epoch=epoch, cause=cause)
    return ControllerResult([record], epoch)


def alone(
    image: MetadataImage, result: ControllerResult[T], controller_id: str, cause: str
) -> ControllerResult[T]:
    """Return a decision with claim and resignation around its records: one commit."""
    if not result.records:
        return result
    claimed = ControllerRecord(
        controller_id=controller_id, controller_epoch=next_controller_epoch(image), cause=cause
    )
    resigned = replace(claimed, is_resignation=True, cause=f"{cause} is done")
    return ControllerResult([claimed, *result.records, resigned], result.response)


def next_controller_epoch(image: MetadataImage) -> ControllerEpoch:
    return ControllerEpoch(0 if image.controller is None else image.controller.controller_epoch + 1)


def lease_ms(image: MetadataImage) -> int:
    return image.settings().integer("controller.lease.ms")


def is_held(image: MetadataImage) -> bool:
    """Return whether a controller has claimed the controllership and not resigned."""
    return image.controller is not None and image.controller.controller_id is not None


def is_held_by(image: MetadataImage, controller_id: str) -> bool:
    return image.controller is not None and image.controller.controller_id == controller_id


class LeaseWatch:
    """Watches the lease from when it was made, so that one which nobody renews ends."""

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
        return not is_held(image) or now_ms - self._since_ms >= lease_ms(image)


READ_MS: Final = 1000
STORE_READ_MS: Final = 3000
"""How often a controller that waits for requests reads the log as everybody does. In between it
asks for the next commit of the leader's table alone, for half as much: that does not show another
leader of the quorum, nor a log that went back."""


class Term:
    """One controller's time in office, from its claim to the claim of another.

    Attributes:
        renewed_at_ms: When the newest commit that holds the lease was begun. Others may take the
            lease over once it is that old.
    """

    def __init__(
        self, metadata: MetadataDecider, clock: Clock, *, controller_id: str, timeout_ms: int
    ) -> None:
        self.metadata = metadata
        self._clock = clock
        self._controller_id = controller_id
        self.epoch: ControllerEpoch  # once it has claimed
        self._timeout_ms = timeout_ms
        self.renewed_at_ms = self._read_at_ms = clock.monotonic_ms()

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
        term = cls(metadata, clock, controller_id=controller_id, timeout_ms=timeout_ms)
        cause = f"{controller_id} claims the controllership"
        epoch = metadata.submit(
            partial(claim, controller_id=controller_id, cause=cause, seen=seen),
            timeout_ms=timeout_ms,
        )
        if epoch is None:
            return None
        term.epoch = epoch
        return term

    def submit(self, decide: Callable[[MetadataImage], ControllerResult[T]]) -> T:
        """Commit what `decide` says, under this term's epoch."""

        def guarded(image: MetadataImage) -> ControllerResult[T]:
            self.check(image)
            return decide(image)

        return self.metadata.submit(
            guarded,
            timeout_ms=self._timeout_ms,
            controller=(self._controller_id, self.epoch),
        )

    def check(self, image: MetadataImage) -> None:
        """Raise NotControllerError if a later controller has claimed: this one must stop."""
        newest = image.controller
        if newest is not None and newest.controller_epoch > self.epoch:
            raise NotControllerError(
                f"controller epoch {self.epoch} was taken over by"
                f" {newest.controller_id or 'another controller'} in epoch"
                f" {newest.controller_epoch}"
            )

    def read_if_needed(self) -> None:
        """Read the log, unless a small question says that nothing is new."""
        now_ms, read_ms = self._clock.monotonic_ms(), READ_MS
        if self.metadata.is_far:
            lease = lease_ms(self.metadata.image)
            read_ms = max(READ_MS, min(STORE_READ_MS, lease // RENEWALS_PER_LEASE))
        if now_ms - self._read_at_ms >= read_ms or self.metadata.has_next():
            self.metadata.catch_up()
            self._read_at_ms = now_ms

    def renew(self) -> None:
        """Renew the lease if that is due; raise as `check`."""
        image, now_ms = self.metadata.image, self._clock.monotonic_ms()
        self.check(image)
        if now_ms - self.renewed_at_ms < lease_ms(image) / RENEWALS_PER_LEASE:
            return
        self.submit(lambda _: ControllerResult([self._record("renewed")], None))
        self.renewed_at_ms = now_ms

    def resign(self) -> None:
        """End the term; nothing is written if another controller has claimed."""

        def decide(image: MetadataImage) -> ControllerResult[None]:
            newest = image.controller
            if newest is None or newest.controller_epoch != self.epoch:
                return ControllerResult([], None)
            return ControllerResult([replace(self._record("resigned"), is_resignation=True)], None)

        self.metadata.submit(decide, timeout_ms=self._timeout_ms)

    def _record(self, cause: str) -> ControllerRecord:
        return ControllerRecord(
            controller_id=self._controller_id, controller_epoch=self.epoch, cause=cause
        )
