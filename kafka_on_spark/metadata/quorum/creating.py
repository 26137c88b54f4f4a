"""Begins the metadata log of a new cluster: its voters' first batch, and the first leadership.

Each voter's table gets the same batch, which names cluster and voters, in epoch 0; then an election
is held. A creation that was cut short goes on with what it finds. The cluster is there once its
first decision is.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from kafka_on_spark.base.errors import CommitConflictError, QuorumUnavailableError
from kafka_on_spark.base.ids import Offset, QuorumEpoch
from kafka_on_spark.base.process import Clock
from kafka_on_spark.metadata.quorum.creation import bootstrap_id, check_beginning
from kafka_on_spark.metadata.quorum.elections import Candidacy, best_log, next_epoch
from kafka_on_spark.metadata.quorum.elector import Elections, first_stamp
from kafka_on_spark.metadata.quorum.raft_log import BatchKind, RaftBatch
from kafka_on_spark.metadata.quorum.voter_set import VoterSet
from kafka_on_spark.metadata.quorum.voter_table import TableChange, VoterTable
from kafka_on_spark.metadata.quorum.voter_tables import VoterTables
from kafka_on_spark.metadata.records import MetadataBatch, Stamp, VotersRecord

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
