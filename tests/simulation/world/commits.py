"""What a process is told of its conditional put: committed, conflict or unknown.

Old commits are cleaned. A put that finds the commit before its own gone proves nothing, whatever
became of it: it may stand where nobody looks, as a stray; it may have counted and be cleaned; the
commit in its place may be another sleeper's. So it is unknown (`store/delta/delta_log`).
The files of a log, and who deletes them, are the matter of tests/search/logs: here a table's old
versions are simply gone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    KafkaOnSparkError,
)
from kafka_on_spark.log.state import ReplicaState
from tests.simulation.world.scheduler import Node

LEFT_BEHIND: type[KafkaOnSparkError] = CommitOutcomeUnknownError
"""What is said of a commit that nobody waited for any longer: it may land."""

PASSED_BY: type[KafkaOnSparkError] = CommitOutcomeUnknownError
"""What is said of a commit if the one before it is gone."""

SLEEPS_MS: Final = (200.0, 1000.0, 3000.0)
"""How long a process may sleep in the middle of a commit."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a commit is put.

    Attributes:
        version: It is put there.
        newest: Returns the newest version that counts.
        kept: So many commits below the newest stay; None: nothing is cleaned.
        can_read: Returns whether the log answers.
    """

    version: int
    newest: Callable[[], int]
    kept: int | None
    can_read: Callable[[], bool]

    def is_there(self, version: int) -> bool:
        """Return whether a commit is not cleaned."""
        return is_kept(self.kept, self.newest(), version)


def is_kept(kept: int | None, newest: int, version: int) -> bool:
    """Return whether a commit is not cleaned."""
    return kept is None or version >= newest - kept


def is_vouched_for(place: Place) -> bool:
    """Return whether the commit before is there: only then counts what is seen at a version."""
    return place.is_there(place.version - 1)


def opened_anew(states: list[ReplicaState], seen: int) -> ReplicaState:
    """Return what a follower finds whose newest commit, `seen`, is cleaned: it opens the table."""
    return states[-1]


def commit(
    world: Any, node: Node, fault: str | None, put: Callable[[], bool], place: Place
) -> None:
    """Do a conditional put that meets `fault`; return if it is certainly ours.

    Raises:
        CommitConflictError, CommitOutcomeUnknownError: as of `store/delta`.
    """
    if fault in ("lost", "delayed", "hung"):
        _leave_behind(world, node, fault, put)
    is_asleep_first = fault == "asleep" and node.rng.random() < 0.5
    if is_asleep_first:
        world.scheduler.sleep(node.rng.choice(SLEEPS_MS))
    counts = put()
    is_ours = counts or not place.is_there(place.version)  # a stray, at a version that is free
    if fault == "asleep" and not is_asleep_first:
        world.scheduler.sleep(node.rng.choice(SLEEPS_MS))
    _check_vouched(place)
    if fault == "unsaid":  # the effect is there, the answer is not, and can't be looked for
        raise CommitOutcomeUnknownError("the store failed while committing")
    if fault == "resolved":  # the first answer was lost; its own id, or another's, is found
        world.scheduler.call("resolve")
    if not is_ours:
        raise CommitConflictError("version is taken")


def _leave_behind(world: Any, node: Node, fault: str, put: Callable[[], bool]) -> NoReturn:
    """End a put that fails, and perhaps lands later."""

    if fault == "delayed" or (fault == "hung" and node.rng.random() < 0.5):
        world.later(1 + node.rng.randrange(300), put)
    kind = CommitOutcomeUnknownError if fault != "hung" else LEFT_BEHIND
    raise kind("the store failed while committing")


def _check_vouched(place: Place) -> None:
    """Check that what is seen at a version counts.

    Raises:
        CommitOutcomeUnknownError: The commit before is gone, or the log does not answer.
    """
    if not place.can_read():
        raise CommitOutcomeUnknownError("the store failed while committing")
    if not is_vouched_for(place):
        raise PASSED_BY("the commits were cleaned while this process committed")
