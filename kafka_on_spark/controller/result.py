"""What a decision is: the records to commit, and the answer to give once they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kafka_on_spark.metadata.records import Record

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[T]):
    """A decision that has not happened yet. No records: nothing to do, answer at once."""

    records: Sequence[Record]
    response: T
