"""A majority of voters is lost for ever: a new generation of the cluster, from one voter.

It breaks what a quorum promises: what the lost voters had committed alone is gone. So partitions
are led anew only by proof (see the controller), and a process of the old generation finds fences
that it does not know, or a voter's epoch that is another generation's.

Each generation has epochs of its own, above those of all before it. So a batch, a leader's mark and
a snapshot that name an epoch name a generation with it, also where voters that were given up go on
meanwhile.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, NewType

from kafka_on_spark.base.errors import InconsistentClusterError, InvalidRequestError
from kafka_on_spark.base.ids import NodeId, Offset, QuorumEpoch
from kafka_on_spark.metadata.quorum.raft_log import BatchKind, RaftBatch
from kafka_on_spark.metadata.quorum.voter_set import Voter, VoterKey, VoterSet
from kafka_on_spark.metadata.quorum.voter_table import TableChange, VoterTable, best_log

Generation = NewType("Generation", int)
"""How often the cluster was forced; 0: never."""

EPOCHS_OF_A_GENERATION: Final = 100_000_000
"""An election a second takes three years for them. The first digits of an epoch are people's sign
of its generation."""

FIRST_EPOCHS: Final = 1_000_000
"""Of its epochs, so many are for voters to begin with."""


def generation_of(epoch: QuorumEpoch) -> Generation:
    """Return the generation that an epoch belongs to."""
    return Generation(epoch // EPOCHS_OF_A_GENERATION)


def first_epoch_after(epoch: QuorumEpoch, node_id: NodeId) -> QuorumEpoch:
    """Return the epoch with which voter `node_id` begins a generation, once it has seen `epoch`.

    Each voter has one of its own: where two are forced apart, their logs tell of it.
    """
    own = node_id if node_id < FIRST_EPOCHS else 0
    return QuorumEpoch((generation_of(epoch) + 1) * EPOCHS_OF_A_GENERATION + own)


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
    epoch = first_epoch_after(table.quorum_epoch, table.key.node_id)
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


def given_up(tables: Collection[VoterTable]) -> list[VoterKey]:
    """Return whose tables are of an earlier generation of the cluster than others of `tables`."""
    newest = max((generation_of(each.quorum_epoch) for each in tables), default=0)
    return [each.key for each in tables if generation_of(each.quorum_epoch) < newest]


def check_forced_once(tables: Iterable[VoterTable]) -> None:
    """Check that the newest generation of the cluster that `tables` show began at one voter.

    Raises:
        InconsistentClusterError: It began at two, neither of which answered where the other was
            forced. Neither log goes on from the other.
    """
    forced = [each for each in tables if generation_of(each.quorum_epoch) > 0]
    newest = max((generation_of(each.quorum_epoch) for each in forced), default=Generation(0))
    first = QuorumEpoch(newest * EPOCHS_OF_A_GENERATION)
    began: dict[QuorumEpoch, VoterKey] = {}
    for each in forced:
        epoch = each.log.first_epoch_from(first)
        if epoch is not None:
            began.setdefault(epoch, each.key)
    if len(began) > 1:
        (epoch, one), (other_epoch, other), *_ = sorted(began.items())
        raise InconsistentClusterError(
            f"the cluster was forced at two places: voter {one} goes on since epoch {epoch}, and"
            f" voter {other} since epoch {other_epoch}, each alone; stop everything, choose one of"
            " both, empty the root of the other, and take it off all lists of metadata roots"
        )


def check_not_given_up(epoch: QuorumEpoch, tables: Iterable[VoterTable]) -> None:
    """Check that a leader's epoch is of the newest generation that any of `tables` shows.

    Raises:
        InconsistentClusterError: It is not: the cluster was forced since.
    """
    for each in tables:
        check_generation(generation_of(epoch), generation_of(each.quorum_epoch))
