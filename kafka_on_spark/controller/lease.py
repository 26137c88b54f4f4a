"""Who decides: claim, renewal and resignation of the controllership.

The lease is for liveness only. Safety is the conditional commit and the epoch: a controller
that sees a higher epoch than its own stops (DESIGN §7).
"""

from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import NotControllerError
from kafka_on_spark.ids import ControllerEpoch
from kafka_on_spark.metadata.image import ControllerLease, MetadataImage
from kafka_on_spark.metadata.records import ControllerRecord


def claim(
    image: MetadataImage, controller_id: str, cause: str, *, seen: ControllerLease | None
) -> ControllerResult[ControllerEpoch | None]:
    """Decide that `controller_id` controls the cluster under the next epoch.

    `seen` is the lease that the claimant has watched come to its end. If another stands there
    now, somebody was faster: None, and nothing is claimed.
    """
    if image.controller != seen:
        return ControllerResult([], None)
    epoch = next_controller_epoch(image)
    record = ControllerRecord(controller_id=controller_id, controller_epoch=epoch, cause=cause)
    return ControllerResult([record], epoch)


def next_controller_epoch(image: MetadataImage) -> ControllerEpoch:
    """Return the epoch that a claim takes."""
    return ControllerEpoch(0 if image.controller is None else image.controller.controller_epoch + 1)


def renew(
    image: MetadataImage, controller_id: str, epoch: ControllerEpoch
) -> ControllerResult[None]:
    """Decide a sign of life. Whether a later controller has claimed is `check_controls`'s."""
    record = ControllerRecord(controller_id=controller_id, controller_epoch=epoch, cause="renewed")
    return ControllerResult([record], None)


def is_held(image: MetadataImage) -> bool:
    """Return whether somebody has claimed the controllership and not resigned."""
    return image.controller is not None and image.controller.controller_id is not None


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
