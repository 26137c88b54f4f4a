"""What of an election is durable: Kafka's quorum-state file, here counters of a voter's table.

Source: ElectionState (leader, epoch, voted id, voted directory).
"""

from dataclasses import dataclass

from kafka_on_spark.errors import ensure
from kafka_on_spark.ids import NodeId, QuorumEpoch
from kafka_on_spark.raft.voter_set import VoterKey


@dataclass(frozen=True, slots=True)
class ElectionState:
    """One voter's election state.

    Attributes:
        epoch: The highest epoch that it has seen.
        leader_id: The leader of that epoch, as far as it is known.
        voted_key: Whom the voter voted for in that epoch.
    """

    epoch: QuorumEpoch
    leader_id: NodeId | None = None
    voted_key: VoterKey | None = None

    def __post_init__(self) -> None:
        ensure(self.epoch >= 0, self)

    def is_leader(self, key: VoterKey) -> bool:
        """Return whether `key` leads the epoch."""
        return self.leader_id == key.node_id

    def is_voted_candidate(self, key: VoterKey) -> bool:
        """Return whether `key` was voted for."""
        return self.voted_key is not None and self.voted_key.stands_for(key)
