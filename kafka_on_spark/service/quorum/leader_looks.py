"""What looks at voters' tables show of their leader, remembered for as long as they show the same;
and since when they fail.

Apart from `leadership`, which asks and elects: nothing is asked here. That an idle look costs
little, and how failures add up, is all that it is for.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kafka_on_spark.raft.quorum.elections import Waiting
from kafka_on_spark.raft.quorum.leader_view import LeaderView, leader_among, newest_leader
from kafka_on_spark.raft.tables.voter_table import VoterTable
from kafka_on_spark.raft.voter_set import VoterKey, VoterSet


@dataclass(frozen=True, slots=True)
class Led:
    """A leader's table as it was looked at, and who was seen to hold its log.

    Attributes:
        is_confirmed: As LeaderView says.
    """

    table: VoterTable
    view: LeaderView
    is_confirmed: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_confirmed", self.view.is_confirmed)


class LeaderLooks:
    """The last answers. Threads may share it: each remembers what it finds as a whole."""

    def __init__(self) -> None:
        # By how many tables: the first that answers is asked for it alone.
        self._led: dict[int, tuple[tuple[VoterTable, ...], Led | None]] = {}
        self._likely: tuple[VoterSet | None, tuple[VoterTable, ...], list[VoterKey]] = None, (), []

    def led(self, seen: Mapping[VoterKey, VoterTable]) -> Led | None:
        """Return the leader that tables show, and who of them holds its log; None: they show none,
        or not its own table."""
        tables, led = self._led.get(len(seen), ((), None))
        if not _are_the_same(tables, seen.values()):
            view = leader_among(seen)
            led = None if view is None else Led(seen[view.key], view)
            self._led[len(seen)] = (*seen.values(),), led
        return led

    def likely(
        self,
        voters: VoterSet,
        known: Mapping[VoterKey, VoterTable],
        failed: Collection[VoterKey],
    ) -> list[VoterKey]:
        """Return the leader that is known and as few other voters as may confirm it, those first
        that have not failed; all, where none is known."""
        of, tables, keys = self._likely
        if failed or of is not voters or not _are_the_same(tables, known.values()):
            keys = likely_voters(voters, known, failed)
            self._likely = (None if failed else voters), (*known.values(),), keys
        return keys


def _are_the_same(tables: Collection[VoterTable], others: Collection[VoterTable]) -> bool:
    """Return whether these are the very same: to compare long logs takes longer."""
    pairs = zip(tables, others, strict=False)
    return len(tables) == len(others) and all(one is other for one, other in pairs)


def likely_voters(
    voters: VoterSet, known: Mapping[VoterKey, VoterTable], failed: Collection[VoterKey]
) -> list[VoterKey]:
    """Return what LeaderLooks.likely does."""
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
