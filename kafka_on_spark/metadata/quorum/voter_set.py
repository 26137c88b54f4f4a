"""The voters of a quorum, their roots, and the arithmetic of majorities (KIP-853).

A voter is a metadata root and not a process: its key names the node and the directory, since a
root that was emptied and made again is another voter. Source: VoterSet, ReplicaKey.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kafka_on_spark.base.errors import DuplicateVoterError, InvalidRequestError, VoterNotFoundError
from kafka_on_spark.base.ids import DirectoryId, NodeId, ensure


class VoterKey(NamedTuple):
    """A voter's identity.

    Attributes:
        node_id: Its ``node.id``.
        directory_id: Its ``directory.id``; None: any directory of the node, as where a vote of
            Kafka's older versions is recorded.
    """

    node_id: NodeId
    directory_id: DirectoryId | None

    def stands_for(self, other: "VoterKey") -> bool:
        """Return whether what is recorded under this key is about `other`."""
        if self.node_id != other.node_id:
            return False
        return self.directory_id is None or self.directory_id == other.directory_id

    def __str__(self) -> str:
        return f"{self.node_id}:{self.directory_id or '?'}"


@dataclass(frozen=True, slots=True)
class Voter:
    key: VoterKey
    root: str = ""

    def __str__(self) -> str:
        return f"{self.key}:{self.root}"

    @classmethod
    def parse(cls, text: str) -> "Voter":
        """Return the voter that `str` wrote.

        Raises:
            ValueError: It wrote no such text.
        """
        node_id, directory_id, root = text.split(":", 2)
        return cls(VoterKey(NodeId(int(node_id)), DirectoryId(directory_id)), root)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters in force, in ascending order of their ids, which are unique."""

    voters: tuple[Voter, ...]

    def __post_init__(self) -> None:
        ids = [each.key.node_id for each in self.voters]
        ensure(ids == sorted(set(ids)), self)

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> "VoterSet":
        return cls(tuple(sorted(voters, key=lambda each: each.key.node_id)))

    @property
    def keys(self) -> tuple[VoterKey, ...]:
        return tuple(each.key for each in self.voters)

    @property
    def majority(self) -> int:
        return majority_of(len(self.voters))

    def voter_of(self, node_id: NodeId) -> Voter | None:
        return next((each for each in self.voters if each.key.node_id == node_id), None)

    def named(self, name: int | str) -> Voter:
        """Return the voter of an id, or of an id and a directory with a colon between.

        Raises:
            InvalidRequestError: `name` is neither.
            VoterNotFoundError: There is no such voter.
        """
        node_id, _, directory_id = str(name).partition(":")
        if isinstance(name, bool) or not node_id.isdecimal():
            raise InvalidRequestError(
                f"{name!r} names no voter: give its id, such as 2, or id:directory, as"
                " `metadata-quorum describe --replication` shows them"
            )
        found = self.voter_of(NodeId(int(node_id)))
        if found is None or directory_id not in ("", found.key.directory_id):
            raise VoterNotFoundError(
                f"{name} is no voter: the voters are {', '.join(map(str, self.voters))}"
            )
        return found

    def is_voter(self, key: VoterKey) -> bool:
        """Return whether `key` is a voter's: node and directory, as far as one is recorded."""
        found = self.voter_of(key.node_id)
        return found is not None and found.key.stands_for(key)

    def is_majority(self, keys: Iterable[VoterKey]) -> bool:
        return len({each.node_id for each in keys if self.is_voter(each)}) >= self.majority

    def with_voter(self, voter: Voter) -> "VoterSet":
        """Return the set with one voter more.

        Raises:
            DuplicateVoterError: A voter of that id is there, be it another directory's.
        """
        found = self.voter_of(voter.key.node_id)
        if found is not None and found.key == voter.key:
            raise DuplicateVoterError(f"{voter.root} is voter {voter.key.node_id} already")
        if found is not None:
            # Two roots were prepared at once. The voter is well: it is not to be removed.
            raise DuplicateVoterError(
                f"{voter.root} was prepared as voter {voter.key.node_id}, which {found.root} is by"
                " now: empty it, then add it"
            )
        return VoterSet.of((*self.voters, voter))

    def without_voter(self, key: VoterKey) -> "VoterSet":
        """Return the set without one voter.

        Raises:
            VoterNotFoundError: No voter has exactly this id and directory, or it is the only one.
        """
        found = self.voter_of(key.node_id)
        if found is None or found.key != key:
            raise VoterNotFoundError(
                f"{key} is no voter: the voters are {', '.join(map(str, self.keys))}"
            )
        if len(self.voters) == 1:
            raise VoterNotFoundError(f"{key} is the only voter: add another one first")
        return VoterSet(tuple(each for each in self.voters if each != found))

    def has_overlapping_majority(self, other: "VoterSet") -> bool:
        """Return whether each majority of this set shares a voter with each of `other`: so it is
        where at most one voter was added and one removed."""
        mine, others = set(self.keys), set(other.keys)
        return len(mine - others) <= 1 and len(others - mine) <= 1


def majority_of(count: int) -> int:
    return count // 2 + 1
