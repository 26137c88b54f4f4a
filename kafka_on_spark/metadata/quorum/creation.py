"""Creating a cluster of several voters, also where an earlier try was cut short.

Every root must be empty; each table's version 0 holds the same bootstrap batch (epoch 0: cluster,
voters), put if absent; then the first election is held. The same call goes on with what it finds,
if nothing else was written. The cluster is there once its first decision is.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from kafka_on_spark.base.errors import (
    CommitConflictError,
    InconsistentClusterIdError,
    InvalidRootError,
    QuorumUnavailableError,
)
from kafka_on_spark.base.ids import Offset, QuorumEpoch
from kafka_on_spark.base.process import Clock
from kafka_on_spark.metadata.quorum.elector import Elections, first_stamp
from kafka_on_spark.metadata.quorum.raft import Candidacy, next_epoch
from kafka_on_spark.metadata.quorum.voter_table import (
    BatchKind,
    RaftBatch,
    TableChange,
    VoterSet,
    VoterTable,
    best_log,
)
from kafka_on_spark.metadata.quorum.voter_tables import VoterTables
from kafka_on_spark.metadata.records import MetadataBatch, Stamp, VotersRecord


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


TRIES_MAX: Final = 8
"""Processes that create the same cluster at once may lose an election to each other."""


def begin_log(tables: VoterTables, elections: Elections, clock: Clock, cluster_id: str) -> None:
    """Have the voters' tables begin with their bootstrap batch, and one of them lead.

    Raises:
        InvalidRootError: A root holds something else, or there is a cluster.
        QuorumUnavailableError: No voter could be elected.
        KafkaStorageError, CommitOutcomeUnknownError: A root fails; the same call goes on with what
            is there.
    """
    voters = tables.voters
    stamp = first_stamp(tables, voters.keys[0], clock)
    header, batch = _bootstrap(voters, cluster_id, stamp)
    for _ in range(TRIES_MAX):
        found = [tables.load(key) for key in voters.keys]
        check_beginning(found, voters, cluster_id)
        if not all(each.log.batches for each in found):
            _put(tables, found, header, batch)
        elif any(each.leads for each in found):
            return
        else:
            elections.elect(Candidacy(best_log(found).key, next_epoch(found)))
    raise QuorumUnavailableError(
        "no voter of the new cluster could be elected: create it again, which goes on with what is"
        " there"
    )


def _bootstrap(voters: VoterSet, cluster_id: str, stamp: Stamp) -> tuple[RaftBatch, MetadataBatch]:
    record = VotersRecord(
        voters=tuple(map(str, voters.voters)),
        cluster_id=cluster_id,
        cause="the cluster is made",
    )
    start, end = Offset(0), Offset(1)
    header = RaftBatch(
        start, end, QuorumEpoch(0), bootstrap_id(cluster_id), BatchKind.DECISION, voters
    )
    return header, MetadataBatch(base_offset=start, stamp=stamp, records=(record,))


def _put(
    tables: VoterTables, found: Sequence[VoterTable], header: RaftBatch, batch: MetadataBatch
) -> None:
    """Put the first batch on the first voter, or copy it from one that has it to all that lack it:
    another try made it at another time, and one log has one batch there."""
    change = TableChange(appended=(header,))
    begun = next((table for table in found if table.log.batches), None)
    lacking = [table for table in found if not table.log.batches]
    for table in lacking if begun is not None else lacking[:1]:
        with suppress(CommitConflictError):  # another process was quicker: that is looked at next
            if begun is None:
                tables.append(table, change, batch)
            else:
                tables.commit(table, change, source=begun.key)
