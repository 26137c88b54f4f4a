"""The outcomes of a fetch, as values: what became of its leader's side and of its follower's.

The fetch calls a port or a decision, and turns its error into an outcome at that place, since it
knows there whose replica was used. One function makes the report from the outcome.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.log.state import ReplicaState

Answer = TypeVar("Answer")
Refusal = TypeVar("Refusal")


@dataclass(frozen=True, slots=True)
class LeaderRefused:
    """The leader's replica can't be fetched from: the error's code says why, as in Kafka."""

    error: KafkaOnSparkError


@dataclass(frozen=True, slots=True)
class FollowerRefused:
    """The follower's replica can't be fetched for: the error's code says why, as in Kafka."""

    error: KafkaOnSparkError


@dataclass(frozen=True, slots=True)
class Diverged:
    """The follower's log is not its leader's, and it is not known which of the two is right."""

    follower: ReplicaState


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another process has committed to the follower's table first: the fetch reads it again."""


@dataclass(frozen=True, slots=True)
class FetchOutcome:
    """What a fetch ends with.

    Attributes:
        leader: The leader's log as the fetch saw it.
        follower: The follower's log after the fetch; None: there is none to report.
    """

    leader: ReplicaState | LeaderRefused
    follower: ReplicaState | FollowerRefused | Diverged | None


def answer_of(
    call: Callable[[], Answer], refused: Callable[[KafkaOnSparkError], Refusal]
) -> Answer | Refusal:
    """Return what `overrides` returns, or its error as the refusal of one side."""
    try:
        return call()
    except KafkaOnSparkError as error:
        return refused(error)
