"""What a decision is: records to commit, and an answer to give then."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

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


def submit_if_due(known: MetadataImage, decide: Decide[T], submit: Callable[[Decide[T]], T]) -> T:
    """Submit a decision, unless it leads to nothing by the image that is known: to submit one takes
    the commit lock and reads the log again."""
    result = decide(known)
    return submit(decide) if result.records else result.response
