"""The controller's lease: claim, renewal and resignation of the controllership.

The lease is for liveness only. Safety is the conditional commit and the epoch: a controller
that sees a higher epoch than its own stops (I7).
"""

from dataclasses import replace
from typing import Final, TypeVar

from kafka_on_spark.base.errors import NotControllerError
from kafka_on_spark.base.ids import ControllerEpoch
from kafka_on_spark.metadata.image import ControllerLease, MetadataImage
from kafka_on_spark.metadata.records import ControllerRecord
from kafka_on_spark.metadata.result import ControllerResult

T = TypeVar("T")

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
    """Return the epoch that a claim takes."""
    return ControllerEpoch(0 if image.controller is None else image.controller.controller_epoch + 1)


def renew(
    image: MetadataImage, controller_id: str, epoch: ControllerEpoch
) -> ControllerResult[None]:
    """Decide a sign of life. `check_controls` checks that no later controller has claimed."""
    record = ControllerRecord(controller_id=controller_id, controller_epoch=epoch, cause="renewed")
    return ControllerResult([record], None)


def is_renewal_due(image: MetadataImage, since_ms: int) -> bool:
    """Return whether a controller that renewed its lease `since_ms` ago renews it now."""
    return since_ms >= lease_ms(image) / RENEWALS_PER_LEASE


def is_over(image: MetadataImage, unchanged_ms: int) -> bool:
    """Return whether nobody holds the lease of `image`, which a process has seen unchanged for
    `unchanged_ms` by its own clock: it was resigned, or not renewed for as long as it lasts."""
    return not is_held(image) or unchanged_ms >= lease_ms(image)


def claim_wait_ms_max(image: MetadataImage, wanted_ms: int) -> int:
    """Return how long a claimant waits for a lease to end: two leases at least, since the first
    one shows whether its holder is alive."""
    return max(wanted_ms, 2 * lease_ms(image))


def lease_ms(image: MetadataImage) -> int:
    """Return how long a lease lasts without a renewal."""
    return image.settings().integer("controller.lease.ms")


def is_held(image: MetadataImage) -> bool:
    """Return whether a controller has claimed the controllership and not resigned."""
    return image.controller is not None and image.controller.controller_id is not None


def is_held_by(image: MetadataImage, controller_id: str) -> bool:
    """Return whether the process of that name was the last to claim, and has not resigned."""
    return image.controller is not None and image.controller.controller_id == controller_id


def resign(
    image: MetadataImage, controller_id: str, controller_epoch: ControllerEpoch
) -> ControllerResult[None]:
    """Decide the end of a controllership; nothing if another has taken it over."""
    if image.controller is None or image.controller.controller_epoch != controller_epoch:
        return ControllerResult([], None)
    record = ControllerRecord(
        controller_id=controller_id,
        controller_epoch=controller_epoch,
        is_resignation=True,
        cause="resigned",
    )
    return ControllerResult([record], None)


def check_controls(image: MetadataImage, controller_epoch: ControllerEpoch) -> None:
    """Check that no later controller has claimed.

    Raises:
        NotControllerError: One has; this one must stop deciding.
    """
    newest = image.controller
    if newest is not None and newest.controller_epoch > controller_epoch:
        raise NotControllerError(
            f"controller epoch {controller_epoch} was taken over by"
            f" {newest.controller_id or 'another controller'} in epoch {newest.controller_epoch}"
        )
