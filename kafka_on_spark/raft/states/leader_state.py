"""What a leader knows of its followers, and the high watermark that follows from it.

Source: LeaderState. A fetch is a look at a follower's table here, so the times are those of looks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from kafka_on_spark.errors import IllegalStateError, ensure
from kafka_on_spark.ids import NodeId, Offset, QuorumEpoch
from kafka_on_spark.raft.states.timing import Moment, Timer
from kafka_on_spark.raft.voter_set import VoterKey, VoterSet


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """How far one voter or observer is.

    Attributes:
        end_offset: Its log end, as of its last fetch; None: it has not fetched.
        is_acknowledged: Whether it knows of this leader.
        last_fetch_ms: When it last fetched; None: never.
        last_caught_up_ms: When it last had all that the leader had; None: never.
    """

    end_offset: Offset | None = None
    is_acknowledged: bool = False
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None


NO_PROGRESS: Final = ReplicaProgress()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderState:
    """A leader's knowledge in one epoch.

    Attributes:
        key: Its own.
        epoch: The epoch that it leads.
        epoch_start_offset: Where the epoch's no-op begins: nothing counts as committed before the
            no-op is.
        voters: The set in force.
        progress: Of voters and of observers, by their keys.
        high_watermark: The end of what is committed; None: not known in this epoch.
        fetched: Nodes that fetched since the quorum was last checked.
        check_quorum: When the leader resigns, unless a majority fetches.
    """

    key: VoterKey
    epoch: QuorumEpoch
    epoch_start_offset: Offset
    voters: VoterSet
    progress: Mapping[VoterKey, ReplicaProgress]
    high_watermark: Offset | None = None
    fetched: frozenset[NodeId] = frozenset()
    check_quorum: Timer

    @property
    def unacknowledged(self) -> frozenset[NodeId]:
        """Voters that do not know yet of this leader."""
        return frozenset(
            each.node_id for each in self.voters.keys if not self.progress_of(each).is_acknowledged
        )

    @property
    def preferred_successors(self) -> tuple[NodeId, ...]:
        """The other voters, those with the most of the log first."""
        others = [each for each in self.voters.keys if not each.stands_for(self.key)]
        ends = {each: self.progress_of(each).end_offset for each in others}
        return tuple(each.node_id for each in sorted(others, key=lambda each: _rank(ends[each])))

    def progress_of(self, key: VoterKey) -> ReplicaProgress:
        """Return how far a voter or observer is."""
        return self.progress.get(self._recorded(key), NO_PROGRESS)

    def _recorded(self, key: VoterKey) -> VoterKey:
        """Return the key under which there is progress of `key`."""
        if key in self.progress:
            return key
        return next((each for each in self.progress if each.stands_for(key)), key)

    def check_quorum_remaining_ms(self, now_ms: int) -> int | None:
        """Return after how long the leader resigns; None: never, with one voter."""
        if len(self.voters.keys) == 1:
            return None
        return self.check_quorum.remaining_ms(now_ms)

    def with_local_end(self, end_offset: Offset, voters: VoterSet | None = None) -> "LeaderState":
        """Return it with its own log's end, and with the set of voters that is newest there.

        A voter keeps its progress as an observer, and an observer its own as a voter.

        Raises:
            IllegalStateError: The log is shorter than it was: it was cut under a leader.
        """
        mine = self.progress_of(self.key)
        if mine.end_offset is not None and end_offset < mine.end_offset:
            raise IllegalStateError(
                f"the leader's log ended at {mine.end_offset} and ends at {end_offset}: it went"
                " back; read its table again"
            )
        led = self._with(self.key, replace(mine, end_offset=end_offset))
        return led._with_voters(voters or self.voters)._advanced()

    def _with_voters(self, voters: VoterSet) -> "LeaderState":
        progress = dict(self.progress)
        for each in voters.keys:
            known = self._recorded(each)
            progress[each] = progress.pop(known, NO_PROGRESS)
        return replace(self, voters=voters, progress=MappingProxyType(progress))

    def with_fetch(self, key: VoterKey, offset: Offset, moment: Moment) -> "LeaderState":
        """Return it after a voter or observer fetched from `offset`, so its log ends there.

        Raises:
            IllegalStateError: The leader does not fetch from itself.
        """
        if key.node_id == self.key.node_id:
            raise IllegalStateError("a leader does not fetch from itself: fetch from its table")
        end = self.progress_of(self.key).end_offset
        is_caught_up = end is not None and offset >= end
        known = self.progress_of(key)
        caught_up_ms = moment.now_ms if is_caught_up else known.last_caught_up_ms
        progress = ReplicaProgress(offset, True, moment.now_ms, caught_up_ms)
        led = self._with(self._recorded(key), progress).with_quorum_checked(key, moment)
        return led._advanced() if self.voters.is_voter(key) else led

    def with_quorum_checked(self, key: VoterKey, moment: Moment) -> "LeaderState":
        """Return it after `key` fetched: once a majority has, itself counted if it is a voter, it
        leads for another while."""
        fetched = self.fetched | ({key.node_id} if self.voters.is_voter(key) else frozenset())
        needed = self.voters.majority - (self.voters.voter_of(self.key.node_id) is not None)
        if len(fetched) < needed:
            return replace(self, fetched=fetched)
        return replace(self, fetched=frozenset(), check_quorum=moment.check_quorum_timer())

    def with_acknowledgement(self, node_id: NodeId) -> "LeaderState":
        """Return it after a voter has said that it knows of this leader.

        Raises:
            ImpossibleValueError: It is no voter.
        """
        found = self.voters.voter_of(node_id)
        ensure(found is not None, node_id)
        assert found is not None
        return self._with(found.key, replace(self.progress_of(found.key), is_acknowledged=True))

    def _with(self, key: VoterKey, progress: ReplicaProgress) -> "LeaderState":
        return replace(self, progress=MappingProxyType({**self.progress, key: progress}))

    def _advanced(self) -> "LeaderState":
        """Return it with the high watermark that its progress says; it never falls."""
        ends = (self.progress_of(each).end_offset for each in self.voters.keys)
        end = majority_end(ends)
        known = self.high_watermark
        if end is None or end <= self.epoch_start_offset or (known is not None and end <= known):
            return self
        return replace(self, high_watermark=end)


def majority_end(ends: Iterable[Offset | None]) -> Offset | None:
    """Return up to where a majority of voters has a log; None: a majority is not known.

    `ends`: of every voter, None where nothing is known. What it says is committed only where the
    batch at that end is of the leader's epoch (Raft §5.4.2).
    """
    ordered = sorted(ends, key=_rank)
    return ordered[len(ordered) // 2] if ordered else None


def _rank(end: Offset | None) -> int:
    """Return what sorts the largest end first, an unknown one last."""
    return 1 if end is None else -end


def leading(
    key: VoterKey,
    epoch: QuorumEpoch,
    epoch_start_offset: Offset,
    voters: VoterSet,
    moment: Moment,
) -> LeaderState:
    """Return what a leader knows as its epoch begins."""
    progress = {each: ReplicaProgress(is_acknowledged=each.stands_for(key)) for each in voters.keys}
    return LeaderState(
        key=key,
        epoch=epoch,
        epoch_start_offset=epoch_start_offset,
        voters=voters,
        progress=MappingProxyType(progress),
        check_quorum=moment.check_quorum_timer(),
    )
