"""The votes of one election, counted. Source: EpochElection."""

from dataclasses import dataclass, replace

from kafka_on_spark.errors import ensure
from kafka_on_spark.ids import NodeId
from kafka_on_spark.raft.voter_set import majority_of


@dataclass(frozen=True, slots=True)
class Tally:
    """The voters that have granted a vote, and those that have refused it, by node.

    Attributes:
        voters: All that may vote.
        granted: Those that granted.
        rejected: Those that refused.
    """

    voters: frozenset[NodeId]
    granted: frozenset[NodeId] = frozenset()
    rejected: frozenset[NodeId] = frozenset()

    def __post_init__(self) -> None:
        ensure(self.granted | self.rejected <= self.voters, self)
        ensure(not self.granted & self.rejected, self)

    @property
    def unrecorded(self) -> frozenset[NodeId]:
        """The voters that have not answered."""
        return self.voters - self.granted - self.rejected

    @property
    def is_granted(self) -> bool:
        """Whether a majority has granted."""
        return len(self.granted) >= majority_of(len(self.voters))

    @property
    def is_rejected(self) -> bool:
        """Whether no majority can grant any more."""
        return len(self.granted) + len(self.unrecorded) < majority_of(len(self.voters))

    def with_vote(self, voter: NodeId, *, is_granted: bool) -> "Tally":
        """Return the tally with one answer more; a later answer replaces an earlier one.

        Raises:
            ImpossibleValueError: The answer is of nobody who may vote.
        """
        ensure(voter in self.voters, (voter, self.voters))
        granted, rejected = self.granted - {voter}, self.rejected - {voter}
        if is_granted:
            return replace(self, granted=granted | {voter}, rejected=rejected)
        return replace(self, granted=granted, rejected=rejected | {voter})
