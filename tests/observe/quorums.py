"""Quorums to look at, each made in a line."""

from kafka_on_spark.base.ids import DirectoryId, NodeId, Offset, QuorumEpoch
from kafka_on_spark.metadata.quorum.description import (
    Condition,
    QuorumDescription,
    VoterDescription,
    VoterState,
)
from kafka_on_spark.metadata.quorum.voter_table import Voter, VoterKey

ROLES = (VoterState.FOLLOWER, VoterState.LEADER)


def quorum_of(*lags):
    """Three voters, of which the first leads: what each lacks; None: it can't be read."""
    keys = [VoterKey(NodeId(number), DirectoryId(f"d{number}")) for number in (1, 2, 3)]
    voters = tuple(
        VoterDescription(
            voter=Voter(key, f"/m{key.node_id}"),
            leads=key.node_id == 1,
            state=None if lag is None else ROLES[key.node_id == 1],
            epoch=None if lag is None else QuorumEpoch(2),
            log_end_offset=None if lag is None else Offset(9 - lag),
            lag=lag,
            condition=Condition.AWAY if lag is None else None,
            problem="it is away" if lag is None else None,
        )
        for key, lag in zip(keys, lags, strict=True)
    )
    return QuorumDescription(
        leader=keys[0], epoch=QuorumEpoch(2), high_watermark=Offset(9), voters=voters
    )
