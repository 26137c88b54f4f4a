"""What a decision is: records to commit and an answer to give then; and who has it take effect."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kafka_on_spark.base.ids import ControllerEpoch
from kafka_on_spark.base.ids import IdSource as IdSource
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import Record

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[T]):
    """A decision that has not happened yet. No records: nothing to do, answer at once."""

    records: Sequence[Record]
    response: T


Decide = Callable[[MetadataImage], ControllerResult[T]]
"""Decides by an image. It may be asked several times, each time by a newer one."""


class MetadataDecider(Protocol):
    """Has decisions take effect: by commits to the log, or in a dry run on its own image alone."""

    @property
    def image(self) -> MetadataImage:
        """The newest image that is known."""
        ...

    def catch_up(self) -> MetadataImage:
        """Return the newest image, with what was committed since.

        Raises:
            ClusterClosedError: This process has closed the cluster.
        """
        ...

    def has_next(self) -> bool:
        """Return whether there may be commits after the newest image that is known, as far as one
        look at the log tells."""
        ...

    def submit(
        self,
        decide: Decide[T],
        *,
        timeout_ms: int,
        controller: tuple[str, ControllerEpoch] | None = None,
    ) -> T:
        """Have what `decide` says of the newest image take effect; return its response."""
        ...


def submit_if_due(known: MetadataImage, decide: Decide[T], submit: Callable[[Decide[T]], T]) -> T:
    """Submit a decision, unless it leads to nothing by the image that is known: to submit one takes
    the commit lock and reads the log again."""
    result = decide(known)
    return submit(decide) if result.records else result.response
