"""Creating a cluster of several voters, also where an earlier try was cut short.

Every root must be empty; each table's version 0 holds the same bootstrap batch (epoch 0: cluster,
voters), put if absent; then the first election is held. The same call goes on with what it finds,
if nothing else was written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_on_spark.errors import InconsistentClusterIdError, InvalidRootError
from kafka_on_spark.raft.log.raft_log import BatchKind
from kafka_on_spark.raft.tables.voter_table import VoterTable
from kafka_on_spark.raft.voter_set import VoterSet


@dataclass(frozen=True, slots=True)
class FoundRoot:
    """A root on which a cluster is to be created.

    Attributes:
        root: The root.
        is_empty: Whether nothing is on it.
        table: The voter's table that is there; None: there is none that can be read as one.
        bootstrap: The write id of that table's first batch, which says what it bootstraps.
    """

    root: str
    is_empty: bool
    table: VoterTable | None = None
    bootstrap: str | None = None


@dataclass(frozen=True, slots=True)
class CreationStep:
    """What is left to do.

    Attributes:
        to_bootstrap: Roots that lack their table, in the order given.
        needs_election: Whether nobody leads as yet.
    """

    to_bootstrap: tuple[str, ...]
    needs_election: bool


def next_creation_step(
    found: Sequence[FoundRoot], voters: VoterSet, bootstrap: str
) -> CreationStep:
    """Return what is left to do to create a cluster of `voters` on the roots `found`.

    `bootstrap`: the write id of the batch that each table begins with, the same in each try.

    Raises:
        InvalidRootError: A root holds something else, or the cluster goes on already.
    """
    for each in found:
        _check(each, voters, bootstrap)
    tables = [each.table for each in found if each.table is not None]
    return CreationStep(
        tuple(each.root for each in found if each.is_empty),
        needs_election=not any(each.leads for each in tables),
    )


def _check(found: FoundRoot, voters: VoterSet, bootstrap: str) -> None:
    if found.is_empty:
        return
    table = found.table
    if table is None or found.bootstrap != bootstrap or table.log.voters != voters:
        raise InvalidRootError(
            f"{found.root} is not empty, and holds no beginning of this cluster: empty it, or name"
            " another root"
        )
    if has_decided(table):
        raise InvalidRootError(f"there is a cluster at {found.root} already: open it")


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
