"""A quorum that grows by new roots, and who its voters and its leader are."""

from kafka_on_spark.metadata.quorum.voter_table import VoterTable
from tests.voter_fakes import STAMP, MemoryVoterRoot, key_of, voter_of


def new_root(quorum):
    """Make another root, that no log names."""
    node = len(quorum.roots)
    quorum.roots.append(MemoryVoterRoot(key_of(node), [VoterTable(key_of(node))], {}))
    return voter_of(node)


def grown(quorum, process, count=3):
    for _ in range(count - len(quorum.roots)):
        process.changes.add(new_root(quorum), STAMP)


def nodes_of(voters):
    return [key.node_id for key in voters.keys]


def leader_of(process):
    process.names()
    return process.confirmed.key.node_id
