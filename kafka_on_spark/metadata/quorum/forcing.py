"""Has one voter go on alone where a majority is lost for ever: the first commit of a generation.

It breaks what a quorum promises: what the lost voters had committed alone is gone. So partitions
are led anew only by proof (see the controller), and a process of the old generation finds fences
that it does not know, or a voter's epoch that is another generation's.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Final

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    HistoryExpiredError,
    InvalidRequestError,
    ProtocolError,
)
from kafka_on_spark.base.ids import NodeId, Offset, QuorumEpoch
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.quorum.quorum_log import newest_snapshot
from kafka_on_spark.metadata.quorum.raft import EPOCHS_OF_A_GENERATION, Generation, generation_of
from kafka_on_spark.metadata.quorum.voter_table import (
    BatchKind,
    RaftBatch,
    TableChange,
    Voter,
    VoterSet,
    VoterTable,
    best_log,
    find_write,
)
from kafka_on_spark.metadata.quorum.voter_tables import VoterTables
from kafka_on_spark.metadata.records import (
    LeaderChangeRecord,
    MetadataBatch,
    Record,
    Stamp,
    VotersRecord,
)
from kafka_on_spark.store.deadlines import until_committed

FIRST_EPOCHS: Final = 1_000_000
"""Of a generation's epochs, so many are for voters to begin with."""

FAILING_MS_MAX: Final = 600_000
"""Longer than any root is waited for: its own deadlines end each call. A voter that only takes its
time is not lost."""

BeginGeneration = Callable[[MetadataImage, int, str], list[Record]]
"""Returns what a generation begins with, of an image, with its cause."""


def first_epoch_after(epoch: QuorumEpoch, node_id: NodeId) -> QuorumEpoch:
    """Return the epoch with which voter `node_id` begins a generation, once it has seen `epoch`.

    Each voter has one of its own: where two are forced apart, their logs tell of it.
    """
    own = node_id if node_id < FIRST_EPOCHS else 0
    return QuorumEpoch((generation_of(epoch) + 1) * EPOCHS_OF_A_GENERATION + own)


def check_may_force(table: VoterTable, answering: Collection[VoterTable], newest: VoterSet) -> None:
    """Check that a voter may go on alone. `answering`: all whose tables can be read from here, it
    among them; `newest`: the newest set of voters that any of them names. That others may still
    reach a majority is for people to know."""
    keys = [each.key for each in answering]
    own = table.log.voters
    if own is None or table.key not in own.keys:
        raise InvalidRequestError(f"{table.key} is no voter by its own log: force another one")
    if newest.is_majority(keys) or own.is_majority(keys):
        raise InvalidRequestError(
            "a majority of the metadata quorum's voters answers: nothing is to be forced; elect a"
            " leader, or replace the voter that is lost"
        )
    best = best_log(answering)
    if (best.log.end.epoch, best.log.end.offset) > (table.log.end.epoch, table.log.end.offset):
        raise InvalidRequestError(
            f"voter {best.key} answers, too, and has more of the metadata log than {table.key}:"
            f" force from voter {best.key.node_id}"
        )


def force(table: VoterTable, root: str, *, record_count: int, write_id: str) -> TableChange:
    """Return the commit by which `table`'s voter, which is at `root` now, goes on alone in the next
    generation."""
    epoch = first_epoch_after(table.quorum_epoch, table.key.node_id)
    alone = VoterSet((Voter(table.key, root),))
    end = table.log.end_offset
    batch = RaftBatch(end, Offset(end + record_count), epoch, write_id, BatchKind.NO_OP, alone)
    return TableChange(quorum_epoch=epoch, vote=table.key, leader=table.key, appended=(batch,))


@dataclass(frozen=True, slots=True)
class Standing:
    """What is left of a quorum, as seen from here.

    Attributes:
        table: The table of the voter that is to go on.
        image: What its log says, all of it.
        answering: All tables that can be read, it among them.
        newest: The newest set of voters that one of them names.
    """

    table: VoterTable
    image: MetadataImage
    answering: tuple[VoterTable, ...]
    newest: VoterSet

    @property
    def is_begun(self) -> bool:
        """Whether the newest generation has begun, and a majority of its voters answers, that voter
        among them, be it alone or not any more: nothing is to be forced but what is left of it."""
        newest = max(generation_of(each.quorum_epoch) for each in self.answering)
        return (
            0 < self.image.generation == newest
            and self.table.key in self.newest.keys
            and self.newest.is_majority(each.key for each in self.answering)
        )


def all_that_answer(tables: VoterTables) -> list[VoterTable]:
    """Return the tables of all voters, and former ones, that answer, however long that takes; the
    newest set that one of them names is in use from now on."""
    answering, silent = tables.look_at_all(FAILING_MS_MAX)
    if silent:
        raise InvalidRequestError(
            f"voter {', '.join(map(str, silent))} neither answers nor fails, so it may not be lost:"
            " wait until its root answers, or take it away, then force again"
        )
    return answering


def standing(tables: VoterTables, voter: Voter) -> Standing:
    """Return what is left of the quorum, for a voter that is to go on."""
    answering = {each.key: each for each in all_that_answer(tables)}
    table = answering[voter.key] = tables.load(voter.key)
    log, end = tables.log_of(voter.key), table.log.end_offset
    snapshot = newest_snapshot(table.log, [(log, log.snapshots())], end)
    image = MetadataImage.of_snapshot(snapshot)
    if image.offset < end:
        try:
            image = image.replay(*log.read(from_offset=image.offset, to_offset=end))
        except HistoryExpiredError as error:
            raise InvalidRequestError(
                f"voter {voter.key} was being brought up: it has the metadata log up to offset"
                f" {end}, and neither its first records, which are gone as"
                " metadata.max.retention.ms says, nor a snapshot up to there: force another voter"
            ) from error
    return Standing(table, image, tuple(answering.values()), tables.voters)


def force_voter(
    tables: VoterTables,
    voter: Voter,
    begin: BeginGeneration,
    *,
    stamp: Stamp,
    new_id: Callable[[], str],
) -> Generation:
    """Have a voter go on alone, in a new generation, at the root that `voter` names; return
    which."""

    def commit(found: Standing) -> Generation:
        check_may_force(found.table, found.answering, found.newest)
        generation = Generation(found.image.generation + 1)
        cause = (
            f"forced from voter {voter.key}: {len(found.answering)} of"
            f" {len(found.newest.voters)} voters answered"
        )
        records = (
            LeaderChangeRecord(
                leader=voter.key.node_id, directory_id=voter.key.directory_id, cause=cause
            ),
            VotersRecord(voters=(str(voter),), cause=cause),
            *begin(found.image, generation, cause),
        )
        change = force(found.table, voter.root, record_count=len(records), write_id=new_id())
        [header] = change.appended
        batch = MetadataBatch(base_offset=header.base_offset, stamp=stamp, records=records)
        try:
            tables.commit(found.table, change, batch)
        except (CommitOutcomeUnknownError, ProtocolError):
            log = tables.load(voter.key).log
            if find_write(log, header.write_id, header.base_offset) is None:
                raise
        tables.use(VoterSet((voter,)))
        return generation

    return until_committed(partial(standing, tables, voter), commit, clock=tables.clock)
