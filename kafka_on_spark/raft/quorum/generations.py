"""A majority of voters is lost for ever: a new generation of the cluster, from one voter.

It breaks what a quorum promises: what the lost voters had committed alone is gone. So partitions
are led anew only by proof (see the controller), and a process of the old generation finds fences
that it does not know.

Each generation has epochs of its own, above those of all before it. So a batch, a leader's mark and
a snapshot that name an epoch name a generation with it, also where voters that were given up have
gone on meanwhile.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, NewType

from kafka_on_spark.errors import InconsistentClusterError, InvalidRequestError
from kafka_on_spark.ids import Offset, QuorumEpoch
from kafka_on_spark.raft.log.raft_log import BatchKind, RaftBatch
from kafka_on_spark.raft.quorum.elections import best_log
from kafka_on_spark.raft.tables.voter_table import TableChange, VoterTable
from kafka_on_spark.raft.voter_set import Voter, VoterKey, VoterSet

Generation = NewType("Generation", int)
"""How often the cluster was forced; 0: never."""

EPOCHS_OF_A_GENERATION: Final = 10_000_000
"""Epochs that voters which were given up may still come to, without one of the next generation: an
election a second takes 115 days for them. The first digits of an epoch are people's sign of it."""


def first_epoch_after(epoch: QuorumEpoch) -> QuorumEpoch:
    """Return the epoch with which a generation begins, of a voter that has seen `epoch`."""
    return QuorumEpoch((epoch // EPOCHS_OF_A_GENERATION + 1) * EPOCHS_OF_A_GENERATION)


@dataclass(frozen=True, slots=True)
class Force:
    """The first commit of a new generation, on the table of the voter that goes on.

    Attributes:
        generation: The new one; it stands in the records of the commit, too, together with the
            voters and with every partition's leader, none.
        voters: That voter alone.
        change: The commit, of `record_count` records.
    """

    generation: Generation
    voters: VoterSet
    change: TableChange


def check_may_force(table: VoterTable, answering: Collection[VoterTable], newest: VoterSet) -> None:
    """Check that a voter may go on alone. `answering`: all whose tables can be read from here, it
    among them; `newest`: the newest set of voters that any of them names.

    Raises:
        InvalidRequestError: A majority answers, or one that answers has more of the log, or the
            table's voter is none.
    """
    _own_voter(table)
    _check_no_majority(newest, [each.key for each in answering])
    best = best_log(answering)
    if (best.log.end.epoch, best.log.end.offset) > (table.log.end.epoch, table.log.end.offset):
        raise InvalidRequestError(
            f"voter {best.key} answers, too, and has more of the metadata log than {table.key}:"
            f" force from voter {best.key.node_id}"
        )


def force(
    table: VoterTable,
    generation: Generation,
    answering: Iterable[VoterKey],
    *,
    record_count: int,
    write_id: str,
    root: str | None = None,
) -> Force:
    """Return how `table`'s voter goes on alone, in the generation after `generation`.

    `root`: where it is now; None: where its log says. `answering`: the voters that answer from
    here, it among them. That others may still reach a majority is for people to know.

    Raises:
        InvalidRequestError: A majority answers, or the table's voter is none.
    """
    voters, mine = _own_voter(table)
    _check_no_majority(voters, answering)
    alone = VoterSet((mine if root is None else Voter(mine.key, root),))
    epoch = first_epoch_after(table.quorum_epoch)
    end = table.log.end_offset
    batch = RaftBatch(end, Offset(end + record_count), epoch, write_id, BatchKind.NO_OP, alone)
    change = TableChange(quorum_epoch=epoch, vote=table.key, leader=table.key, appended=(batch,))
    return Force(Generation(generation + 1), alone, change)


def _own_voter(table: VoterTable) -> tuple[VoterSet, Voter]:
    """Return the voters by a voter's own log, and itself."""
    voters = table.log.voters
    mine = None if voters is None else voters.voter_of(table.key.node_id)
    if voters is None or mine is None or mine.key != table.key:
        raise InvalidRequestError(f"{table.key} is no voter by its own log: force another one")
    return voters, mine


def _check_no_majority(voters: VoterSet, answering: Iterable[VoterKey]) -> None:
    if voters.is_majority(answering):
        raise InvalidRequestError(
            "a majority of the metadata quorum's voters answers: nothing is to be forced; elect a"
            " leader, or replace the voter that is lost"
        )


def check_generation(known: Generation, found: Generation) -> None:
    """Check the generation that a root has against the one of this process's metadata.

    Raises:
        InconsistentClusterError: The root is of a later one: this process is of a cluster that
            people gave up.
    """
    if found > known:
        raise InconsistentClusterError(
            f"a root is of generation {found} of the cluster and this process of {known}: the"
            " cluster was forced; stop this process and open the cluster anew",
            known=known,
            found=found,
        )
