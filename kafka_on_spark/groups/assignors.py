"""Assignors: who of a group's members shall own which partitions. Pure, and equal everywhere.

`uniform` gives every member as many as any other, as far as their topics allow, and moves as few
partitions as that takes. `range` gives each member a run of each topic: partitions of one number
of several topics go together. Source: UniformAssignor, RangeAssignor.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.ids import MemberId, PartitionKey, TopicId
from kafka_on_spark.metadata.image import MetadataImage

Assigned = dict[MemberId, frozenset[PartitionKey]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What is to be shared out, and among whom.

    Attributes:
        members: In the order in which ties are decided; the topics that each has subscribed to.
        partitions: The partitions of each topic that somebody has subscribed to, in order.
        current: What each member has so far, as far as it is known.
    """

    members: Mapping[MemberId, frozenset[TopicId]]
    partitions: Mapping[TopicId, Sequence[PartitionKey]]
    current: Mapping[MemberId, frozenset[PartitionKey]]


def range_assignor(sharing: Sharing) -> Assigned:
    """Return for each member a run of the partitions of each of its topics; the first members have
    one more where they can't be divided."""
    assigned: dict[MemberId, set[PartitionKey]] = {member: set() for member in sharing.members}
    for topic_id, keys in sharing.partitions.items():
        takers = [member for member, topics in sharing.members.items() if topic_id in topics]
        least, longer = divmod(len(keys), len(takers))
        start = 0
        for place, member in enumerate(takers):
            end = start + least + (place < longer)
            assigned[member].update(keys[start:end])
            start = end
    return {member: frozenset(keys) for member, keys in assigned.items()}


def uniform_assignor(sharing: Sharing) -> Assigned:
    """Return an assignment in which no member has two more than one that could take a partition
    of it; each keeps what it has as far as that allows."""
    shares = _Shares(sharing)
    shares.keep_current()
    shares.give_out_the_rest()
    while shares.move_one():
        pass
    return shares.assigned()


class _Shares:
    """An assignment being built. Its lists are stacks: what a member got last goes first."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._places = {member: place for place, member in enumerate(sharing.members)}
        self._loads = dict.fromkeys(sharing.members, 0)
        self._stacks: dict[MemberId, dict[TopicId, list[PartitionKey]]] = {
            member: defaultdict(list) for member in sharing.members
        }
        self._takers: dict[TopicId, list[MemberId]] = {
            topic_id: [member for member, topics in sharing.members.items() if topic_id in topics]
            for topic_id in sharing.partitions
        }
        self._free: list[PartitionKey] = []

    def keep_current(self) -> None:
        """Let each member have what it has and still may; of two that have the same, the first."""
        owners: dict[PartitionKey, MemberId] = {}
        for member, topics in self._sharing.members.items():
            for key in self._sharing.current.get(member, frozenset()):
                if key.topic_id in topics:
                    owners.setdefault(key, member)
        for keys in self._sharing.partitions.values():
            for key in keys:
                if key in owners:
                    self._push(owners[key], key)
                else:
                    self._free.append(key)

    def give_out_the_rest(self) -> None:
        """Give each free partition to who has the fewest; those first that few may have."""
        self._free.sort(key=lambda key: len(self._takers[key.topic_id]))
        for key in self._free:
            self._push(min(self._takers[key.topic_id], key=self._rank), key)

    def move_one(self) -> bool:
        """Move a partition from a member to one that has at least two fewer, the most loaded first;
        return whether there was one to move."""
        for giver in sorted(self._loads, key=lambda each: (-self._loads[each], self._places[each])):
            enough = self._loads[giver] - 2
            if min(self._loads.values()) > enough:
                return False
            takers = (
                (min(self._takers[topic_id], key=self._rank), keys)
                for topic_id, keys in self._stacks[giver].items()
                if keys
            )
            taker, keys = min(takers, key=lambda each: self._rank(each[0]))
            if self._loads[taker] <= enough:
                self._loads[giver] -= 1
                self._push(taker, keys.pop())
                return True
        return False

    def _push(self, member: MemberId, key: PartitionKey) -> None:
        self._stacks[member][key.topic_id].append(key)
        self._loads[member] += 1

    def _rank(self, member: MemberId) -> tuple[int, int]:
        return self._loads[member], self._places[member]

    def assigned(self) -> Assigned:
        """Return the assignment."""
        return {
            member: frozenset(key for keys in stacks.values() for key in keys)
            for member, stacks in self._stacks.items()
        }


UNIFORM: Final = "uniform"
RANGE: Final = "range"
ASSIGNORS: Final[Mapping[str, Callable[[Sharing], Assigned]]] = {
    UNIFORM: uniform_assignor,
    RANGE: range_assignor,
}
"""By name."""


def assignors_of(image: MetadataImage) -> list[str]:
    """Return the names of the assignors that members may ask for, the default first. Source:
    group.consumer.assignors."""
    return image.settings().text("group.consumer.assignors").split(",")
