"""What a process remembers while it can't use the leader: since when, and which voters can't stand.

Apart from `leadership`, which asks and elects: here is how failures add up, and nothing is asked.
"""

from dataclasses import dataclass, field

from kafka_on_spark.raft.quorum.elections import Waiting
from kafka_on_spark.raft.voter_set import VoterKey


@dataclass(slots=True)
class Trouble:
    """What a process remembers since it can't read from a leader, or can't commit on its table.

    Attributes:
        waiting: Since when; None: it can.
        last_ms: When it last failed: what was long ago does not add up.
        failed_elections: How many it has held since.
        unwritable: Voters that took no commits.
    """

    waiting: Waiting | None = None
    last_ms: int = 0
    failed_elections: int = 0
    unwritable: set[VoterKey] = field(default_factory=set)

    def lasting(self, began_ms: int, timeout_ms: int) -> Waiting | None:
        """Return what a try that began at `began_ms`, and failed, goes on with; None: there is
        nothing, or it was long ago. Another thread may end it meanwhile."""
        return None if began_ms - self.last_ms > timeout_ms else self.waiting

    def end(self) -> None:
        """Note that it can."""
        self.waiting, self.failed_elections = None, 0
        self.unwritable = set()
