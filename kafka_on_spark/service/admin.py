"""One-shot commands: claim, decision and resignation in one commit.

While somebody else controls the cluster, the decision is committed without a claim: it is
conditional all the same, and the active controller replays it like any other.
"""

from collections.abc import Callable
from typing import TypeVar

from kafka_on_spark.controller.lease import next_controller_epoch
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import ControllerRecord
from kafka_on_spark.service.metadata_service import MetadataService

T = TypeVar("T")


def run_command(
    metadata: MetadataService,
    decide: Callable[[MetadataImage], ControllerResult[T]],
    *,
    controller_id: str,
    timeout_ms: int,
) -> T:
    """Commit what `decide` says of the newest image; return its response.

    Raises:
        RequestTimedOutError: Commits kept conflicting; nothing of it is committed.
        CommitOutcomeUnknownError: The store failed; look whether it took effect.
        And what `decide` raises.
    """

    def claimed(image: MetadataImage) -> ControllerResult[T]:
        result = decide(image)
        is_held = image.controller is not None and image.controller.controller_id is not None
        if not result.records or is_held:
            return result
        epoch = next_controller_epoch(image)
        claim = ControllerRecord(
            controller_id=controller_id, controller_epoch=epoch, cause="one command"
        )
        resignation = ControllerRecord(
            controller_id=controller_id,
            controller_epoch=epoch,
            is_resignation=True,
            cause="command done",
        )
        return ControllerResult([claim, *result.records, resignation], result.response)

    metadata.catch_up()
    return metadata.submit(claimed, timeout_ms=timeout_ms)
