"""Has a voter follow a leader: adopt it, and fetch what it lacks of its log.

Any process does so for any voter, and several at once: who loses a race counts the winner's commit.
Invariants that these commits keep: Q4 and Q8 (a batch is taken under its leader's mark alone).
"""

from typing import Final

from kafka_on_spark.errors import CommitConflictError, QuorumUnavailableError
from kafka_on_spark.raft.tables.following import adopt, fetch
from kafka_on_spark.raft.tables.voter_table import VoterTable
from kafka_on_spark.raft.voter_set import VoterKey
from kafka_on_spark.service.quorum.voter_tables import VoterTables

FETCH_RECORDS_MAX: Final = 100_000
"""Records of one commit of a voter that was away: what it takes in memory has a bound."""

COMMITS_MAX: Final = 1000
"""A voter that was away for longer goes on with the next call."""


def follow(tables: VoterTables, leader: VoterTable, key: VoterKey) -> VoterTable:
    """Bring voter `key` up to what was seen of `leader`; return its table, as it is now.

    Raises:
        FencedLeaderEpochError: The voter has seen a later epoch.
        NotLeaderOrFollowerError: `leader` leads nothing.
        InconsistentClusterError: One of both logs went back.
        QuorumUnavailableError: Others keep committing on the voter's table.
        CommitOutcomeUnknownError, CorruptLogError, KafkaStorageError: A root fails.
        ReplicaLostError: The voter's table is gone.
    """
    voter, is_current = tables.newest(key), False
    for _ in range(COMMITS_MAX):
        if voter is None:
            voter, is_current = tables.load(key), True
        change = adopt(voter, leader) or fetch(voter, leader, records_max=FETCH_RECORDS_MAX)
        if change is None and is_current:
            return voter
        try:
            if change is None:
                voter = tables.look(key)
            else:
                voter = tables.commit(voter, change, source=leader.key)
            is_current = True
        except CommitConflictError:
            voter = None
    raise QuorumUnavailableError(f"voter {key} does not catch up with {leader.key}: try again")
