"""What looks at voters' tables show of their leader, whom to look at, and since when looks fail.

Apart from `leadership`, which asks and elects: nothing is asked here.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kafka_on_spark.raft.quorum.elections import Waiting
from kafka_on_spark.raft.quorum.leader_view import LeaderView, leader_among, newest_leader
from kafka_on_spark.raft.tables.voter_table import VoterTable
from kafka_on_spark.raft.voter_set import VoterKey, VoterSet


@dataclass(frozen=True, slots=True)
class Led:
    """A leader's table as it was looked at, and who was seen to hold its log."""

    table: VoterTable
    view: LeaderView

    @property
    def is_confirmed(self) -> bool:
        """As LeaderView says."""
        return self.view.is_confirmed


def led_among(seen: Mapping[VoterKey, VoterTable]) -> Led | None:
    """Return the leader that tables show, and who of them holds its log; None: they show none, or
    not its own table."""
    view = leader_among(seen)
    return None if view is None else Led(seen[view.key], view)


def likely_voters(
    voters: VoterSet, known: Mapping[VoterKey, VoterTable], failed: Collection[VoterKey]
) -> list[VoterKey]:
    """Return the leader that is known and as few other voters as may confirm it, those first that
    have not failed; all, where none is known."""
    key, view = newest_leader(known), leader_among(known)
    if key is None or view is None or not voters.is_voter(key):
        return list(voters.keys)
    others = sorted(
        (each for each in voters.keys if each != key),
        key=lambda each: (each in failed, -view.held.get(each, -1)),
    )
    return [key, *others[: voters.majority - 1]]


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
