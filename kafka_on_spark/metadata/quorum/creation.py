"""Creating a cluster of several voters, also where an earlier try was cut short.

Every root must be empty; each table's version 0 holds the same bootstrap batch (epoch 0: cluster,
voters), put if absent; then the first election is held. The same call goes on with what it finds,
if nothing else was written.
"""

from collections.abc import Mapping, Sequence

from kafka_on_spark.base.errors import InconsistentClusterIdError, InvalidRootError
from kafka_on_spark.metadata.quorum.raft_log import BatchKind
from kafka_on_spark.metadata.quorum.voter_set import VoterSet
from kafka_on_spark.metadata.quorum.voter_table import VoterTable


def check_beginning(found: Sequence[VoterTable], voters: VoterSet, cluster_id: str) -> None:
    """Check that a cluster of `voters` may be created on the roots whose tables are `found`, in
    their order: each is empty, or an earlier try has left the cluster's beginning there.

    Raises:
        InvalidRootError: A root holds something else, or the cluster goes on already.
    """
    for voter, table in zip(voters.voters, found, strict=True):
        first = table.log.batches[:1]
        if first and (first[0].write_id, table.log.voters) != (bootstrap_id(cluster_id), voters):
            raise InvalidRootError(
                f"{voter.root} is not empty, and holds no beginning of this cluster: empty it, or"
                " name another root"
            )
        if has_decided(table):
            raise InvalidRootError(f"there is a cluster at {voter.root} already: open it")


def has_decided(table: VoterTable) -> bool:
    """Return whether a log has more than a bootstrap batch and no-ops: there is a cluster."""
    return any(each.kind is not BatchKind.NO_OP for each in table.log.batches[1:])


def bootstrap_id(cluster_id: str) -> str:
    """Return the write id of the first batch of a cluster's log, the same in each try."""
    return f"bootstrap-{cluster_id}"


def check_cluster_ids(cluster_ids: Mapping[str, str]) -> str:
    """Return the cluster that all of the roots in `cluster_ids` belong to.

    Raises:
        InconsistentClusterIdError: They belong to several.
    """
    first, *others = cluster_ids.items()
    for root, cluster_id in others:
        if cluster_id != first[1]:
            raise InconsistentClusterIdError(
                f"{first[0]} belongs to cluster {first[1]} and {root} to {cluster_id}: name roots"
                " of one cluster"
            )
    return first[1]
