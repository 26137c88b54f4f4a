"""What a decision is, records to commit and an answer to give then; and what it takes ids from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

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


@dataclass(frozen=True, slots=True)
class IdSource:
    """Where a deciding process takes new ids and random numbers from: decisions have none.

    Attributes:
        new_uuid: Returns an id that nothing else has.
        random_below: Returns a whole number from 0 to below its argument.
    """

    new_uuid: Callable[[], str]
    random_below: Callable[[int], int]


def submit_if_due(known: MetadataImage, decide: Decide[T], submit: Callable[[Decide[T]], T]) -> T:
    """Submit a decision, unless it leads to nothing by the image that is known: to submit one takes
    the commit lock and reads the log again."""
    result = decide(known)
    return submit(decide) if result.records else result.response
