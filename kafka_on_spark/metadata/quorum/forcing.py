"""Has one voter go on alone where a majority is lost for ever: the first commit of a generation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    HistoryExpiredError,
    InvalidRequestError,
    ProtocolError,
    QuorumUnavailableError,
)
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.quorum.generations import (
    Generation,
    check_may_force,
    force,
    generation_of,
)
from kafka_on_spark.metadata.quorum.quorum_log import newest_snapshot
from kafka_on_spark.metadata.quorum.raft_log import find_write
from kafka_on_spark.metadata.quorum.voter_set import Voter, VoterSet
from kafka_on_spark.metadata.quorum.voter_table import VoterTable
from kafka_on_spark.metadata.quorum.voter_tables import VoterTables
from kafka_on_spark.metadata.records import (
    LeaderChangeRecord,
    MetadataBatch,
    Record,
    Stamp,
    VotersRecord,
)

TRIES_MAX: Final = 8
"""Others may still commit on the voter's table."""

FAILING_MS_MAX: Final = 600_000
"""Longer than any root is waited for: its own deadlines end each call. A voter that only takes its
time is none that is lost."""

BeginGeneration = Callable[[MetadataImage, int, str], list[Record]]
"""Returns what a generation begins with, of an image, with its cause."""


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
            and self.newest.is_voter(self.table.key)
            and self.newest.is_majority(each.key for each in self.answering)
        )


def all_that_answer(tables: VoterTables) -> list[VoterTable]:
    """Return the tables of all voters, and former ones, that answer, however long that takes; the
    newest set that one of them names is in use from now on.

    Raises:
        InvalidRequestError: One of them neither answers nor fails: it may be one of a majority.
    """
    answering, silent = tables.look_at_all(FAILING_MS_MAX)
    if silent:
        raise InvalidRequestError(
            f"voter {', '.join(map(str, silent))} neither answers nor fails, so it may not be lost:"
            " wait until its root answers, or take it away, then force again"
        )
    return answering


def standing(tables: VoterTables, voter: Voter) -> Standing:
    """Return what is left of the quorum, for a voter that is to go on.

    Raises:
        InvalidRequestError: A voter neither answers nor fails.
            Or it has not got a snapshot of what it has, and its first records are gone.
        KafkaStorageError, ReplicaLostError, CorruptLogError: Its root fails.
    """
    answering = {each.key: each for each in all_that_answer(tables)}
    table = tables.load(voter.key)
    answering[voter.key] = table
    log, end = tables.log_of(voter.key), table.log.end_offset
    snapshot = newest_snapshot(table.log, [(log, log.snapshots())], end)
    image = MetadataImage()
    if snapshot is not None:
        image = MetadataImage(offset=snapshot.base_offset).replay(snapshot)
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
    """Have a voter go on alone, in a new generation, at the root that `voter` names; return which.

    Raises:
        InvalidRequestError: A majority answers, or one that answers has more of the log.
        KafkaStorageError, ReplicaLostError, CorruptLogError: The voter's root fails.
        CommitOutcomeUnknownError: The generation may have begun: force again.
        QuorumUnavailableError: Others keep committing on the voter's table.
    """
    for _ in range(TRIES_MAX):
        found = standing(tables, voter)
        check_may_force(found.table, found.answering, found.newest)
        records = _first_records(found, voter, begin)
        decided = force(
            found.table,
            Generation(found.image.generation),
            [each.key for each in found.answering],
            record_count=len(records),
            write_id=new_id(),
            root=voter.root,
        )
        batch = MetadataBatch(
            base_offset=found.table.log.end_offset, stamp=stamp, records=tuple(records)
        )
        try:
            tables.append(found.table, decided.change, batch)
        except CommitConflictError:
            continue
        except (CommitOutcomeUnknownError, ProtocolError):
            [header] = decided.change.appended
            log = tables.load(voter.key).log
            if find_write(log, header.write_id, header.base_offset) is None:
                raise
        tables.use(decided.voters)
        return decided.generation
    raise QuorumUnavailableError(
        f"others keep committing on the table of voter {voter.key}: stop them, and force again"
    )


def _first_records(found: Standing, voter: Voter, begin: BeginGeneration) -> Sequence[Record]:
    generation = found.image.generation + 1
    cause = (
        f"forced from voter {voter.key}: {len(found.answering)} of"
        f" {len(found.newest.voters)} voters answered"
    )
    directory_id = voter.key.directory_id
    assert directory_id is not None, "a voter's is known"
    return (
        LeaderChangeRecord(leader=voter.key.node_id, directory_id=directory_id, cause=cause),
        VotersRecord(voters=(str(voter),), cause=cause),
        *begin(found.image, generation, cause),
    )
