"""What a process is told of its conditional put: committed, conflict or unknown.

That old commits are cleaned while a process sleeps is the matter of tests/search/logs.
"""

from collections.abc import Callable
from typing import Any

from kafka_on_spark.base.errors import CommitConflictError, CommitOutcomeUnknownError
from tests.simulation.world.scheduler import Node


def commit(
    world: Any,
    node: Node,
    fault: str | None,
    put: Callable[[], bool],
    can_read: Callable[[], bool],
) -> None:
    """Do a conditional put that meets `fault`; return if it is certainly ours.

    Raises:
        CommitConflictError, CommitOutcomeUnknownError: as of `store/delta`.
    """
    if fault in ("lost", "delayed", "hung"):  # and perhaps it lands later
        if fault == "delayed" or (fault == "hung" and node.rng.random() < 0.5):
            world.later(1 + node.rng.randrange(300), put)
        raise CommitOutcomeUnknownError("the store failed while committing")
    is_ours = put()
    if not can_read() or fault == "unsaid":
        raise CommitOutcomeUnknownError("the store failed while committing")
    if fault == "resolved":  # the first answer was lost; its own id, or another's, is found
        world.scheduler.call("resolve")
    if not is_ours:
        raise CommitConflictError("version is taken")
