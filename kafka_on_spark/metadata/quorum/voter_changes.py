"""Changes who votes, one voter at a time (KIP-853), and who leads.

A `VotersRecord` names all voters, is in force when it is appended (and no longer if it is cut), and
is counted by the new set. The next change waits until it, and a batch of the leader's epoch, are
committed: so two sets that may both decide always share a voter. A change is a decision like any
other, on a log that is committed to its end. Source: AddVoterHandler, RemoveVoterHandler.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    FencedLeaderEpochError,
    InvalidRequestError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    QuorumUnavailableError,
    VoterNotFoundError,
)
from kafka_on_spark.base.ids import NodeId, ensure
from kafka_on_spark.metadata.quorum.quorum_log import QuorumLog
from kafka_on_spark.metadata.quorum.raft import (
    Candidacy,
    LeaderView,
    check_generation,
    generation_of,
    is_stranded,
    majority_end,
    next_epoch,
    write_once,
)
from kafka_on_spark.metadata.quorum.voter_table import (
    RaftLog,
    Voter,
    VoterKey,
    VoterSet,
    VoterTable,
    best_log,
)
from kafka_on_spark.metadata.quorum.voter_tables import follow
from kafka_on_spark.metadata.records import Stamp, VotersRecord
from kafka_on_spark.store.deadlines import until_committed

log = logging.getLogger(__name__)

T = TypeVar("T")

UNAVAILABLE_MAX: Final = 3
"""How often a change is decided anew since voters don't answer, or are behind."""


def add_voter(view: LeaderView, voter: Voter, table: VoterTable) -> VoterSet:
    """Return the set with `voter`, whose table was just seen, and written to just before.

    Raises:
        QuorumUnavailableError: An earlier change, or this leader's first batch, is not committed as
            yet, or the voter is more than a batch behind: it would hold up what is committed.
        DuplicateVoterError: A voter of that id is there.
    """
    ensure(table.key == voter.key, (table.key, voter))
    changed = with_new_voter(view, voter)
    if not is_caught_up(view.log, table):
        raise QuorumUnavailableError(
            f"{voter.key} ends at {table.log.end_offset} and the leader {view.key} at"
            f" {view.log.end_offset}: let it catch up, then add it again"
        )
    return changed


def with_new_voter(view: LeaderView, voter: Voter) -> VoterSet:
    """Return the set that `voter` is to be in once it has caught up; raise as `add_voter`."""
    return _settled(view).with_voter(voter)


def next_node_id(log: RaftLog) -> NodeId:
    """Return the id of a new voter: above all that ever were, so that a list that names a former
    voter's root beside the new one's names two."""
    sets = [each.voters for each in log.batches if each.voters is not None]
    return NodeId(1 + max((key.node_id for voters in sets for key in voters.keys), default=0))


def remove_voter(view: LeaderView, key: VoterKey) -> VoterSet:
    """Return the set without the voter `key`.

    Raises:
        QuorumUnavailableError: An earlier change, or this leader's first batch, is not committed,
            or too few of those that are left hold the log: nothing could be decided any more.
        VoterNotFoundError: No voter has this id and directory, or it is the only one.
        InvalidRequestError: It leads: another is elected first.
    """
    changed = _settled(view).without_voter(key)
    if key == view.key:
        raise InvalidRequestError(
            f"{key} leads the metadata quorum: elect another voter, then remove it"
        )
    end = majority_end(view.held.get(each) for each in changed.keys)
    if end is None or end < view.log.end_offset:
        raise QuorumUnavailableError(
            f"without {key} too few of the {len(changed.voters)} voters that are left answer, and"
            " nothing could be decided any more: remove one that does not answer instead, or add"
            " another one first"
        )
    return changed


def is_caught_up(log: RaftLog, table: VoterTable) -> bool:
    """Return whether a voter has all of a leader's log but, at most, its last batch, and nothing
    else."""
    border = log.batches[-1].base_offset if log.batches else log.end_offset
    end = table.log.end_offset
    return border <= end <= log.end_offset and table.log.end.epoch <= log.end.epoch


def _settled(view: LeaderView) -> VoterSet:
    """Return the set in force, of which no change is under way."""
    voters, batch, end = view.log.voters, view.log.voters_batch, view.counted_end
    if voters is None or end is None or (batch is not None and batch.end_offset > end):
        raise QuorumUnavailableError(
            "the last change of voters, or the leader's first batch, is not committed on a majority"
            " of voters: wait for it, then change them again",
            leader=view.key,
            epoch=view.epoch,
        )
    return voters


class VoterChanges:
    def __init__(self, quorum: QuorumLog) -> None:
        self._log = quorum
        self._tables = quorum.tables
        self._elections = quorum.elections

    def bring_up(self, voter: Voter) -> None:
        """Have a root that is no voter as yet follow the leader, for as long as that takes."""
        self._tables.know(voter)
        self._decided(lambda led: self._follow(led.table, voter.key))

    def add(self, voter: Voter, stamp: Stamp) -> VoterSet:
        """Add a voter, once it has caught up and taken a commit; return the set that it is in."""
        self._tables.know(voter)

        def added(led: LeaderView) -> VoterSet:
            with_new_voter(led, voter)
            self._follow(led.table, voter.key)
            newest = self._log.confirm()  # what others decided while it was copied
            with_new_voter(newest, voter)
            table = self._written_to(newest.table, voter.key)
            return self._put(newest, add_voter(newest, voter, table), stamp, f"{voter} added")

        return self._decided(added)

    def _follow(self, leader: VoterTable, key: VoterKey) -> None:
        try:
            with _without_consequence(key):
                follow(self._tables, leader, key)
        except FencedLeaderEpochError:
            root = self._tables.look(key)
            check_generation(generation_of(leader.quorum_epoch), generation_of(root.quorum_epoch))
            if not is_stranded(root, leader):
                raise  # another leads by now
            # It stood in vain before, be it a voter or a former one: the leader takes it back.
            self._log.led = None
            self._elections.elect_again(leader, root)
            raise QuorumUnavailableError(f"voter {key} does not follow as yet") from None

    def _written_to(self, leader: VoterTable, key: VoterKey) -> VoterTable:
        with _without_consequence(key):
            follower = self._tables.look(key)
            return self._tables.commit(follower, write_once(follower, leader))

    def remove(self, key: VoterKey, stamp: Stamp) -> VoterSet:
        """Remove a voter; of the leader, another is elected first. Return the set that is left."""

        def removed(led: LeaderView) -> VoterSet:
            voter = led.voters.voter_of(key.node_id)
            led.voters.without_voter(key)
            if led.key == key:
                self._elect(led, self._best(led, but=key))
                led = self._log.confirm()
            if led.key == key:
                raise CommitConflictError("it came to lead again")
            view = led  # all of those that are left are asked what they hold
            others = [each for each in led.voters.keys if each not in (key, led.key)]
            for table in self._tables.each(others, partial(follow, self._tables, led.table)):
                view = view.seen(table)
            return self._put(led, remove_voter(view, key), stamp, f"{voter} removed")

        return self._decided(removed)

    def elect(self, to: VoterKey | None) -> VoterKey:
        """Have a voter lead, or, of those with the best log, the one of the lowest id; return
        it."""

        def elected(led: LeaderView) -> VoterKey:
            key = self.candidate(led, to)
            if key != led.key:
                self._elect(led, key)
                self._log.confirm()  # a majority has its first batch
            return key

        return self._decided(elected)

    def candidate(self, led: LeaderView, to: VoterKey | None) -> VoterKey:
        key = self._best(led) if to is None else to
        if key not in led.voters.keys:
            raise VoterNotFoundError(
                f"{key} is no voter: the voters are {', '.join(map(str, led.voters.keys))}"
            )
        return key

    def _best(self, led: LeaderView, but: VoterKey | None = None) -> VoterKey:
        others = [key for key in led.voters.keys if key != but]
        tables = list(self._tables.each(others, self._tables.look))
        if not tables:
            raise QuorumUnavailableError(
                f"no other voter than {but} answers, and so none can lead: make one reachable"
            )
        return best_log(tables).key

    def _elect(self, led: LeaderView, key: VoterKey) -> None:
        self._follow(led.table, key)
        seen = [led.table, *self._tables.newest_of_all().values()]
        self._log.led = None
        if self._elections.elect(Candidacy(key, next_epoch(seen))) is not None:
            return
        failure = self._tables.failures.get(key)
        if failure is not None:
            raise KafkaStorageError(f"voter {key} can't lead: {failure.message}") from failure
        raise QuorumUnavailableError(f"voter {key} got no majority of votes: try again")

    def _put(self, led: LeaderView, voters: VoterSet, stamp: Stamp, cause: str) -> VoterSet:
        record = voters_record(voters, cause)
        self._log.append((record,), stamp, expected_offset=led.log.end_offset, voters=voters)
        log.info("the voters are %s: %s", ", ".join(record.voters), record.cause)
        return voters

    def _decided(self, decide: Callable[[LeaderView], T]) -> T:
        """Return what `decide` comes to on a confirmed leader; it is asked again where others were
        quicker."""
        tries_left = UNAVAILABLE_MAX

        def commit(led: LeaderView) -> T:
            nonlocal tries_left
            try:
                return decide(led)
            except QuorumUnavailableError as error:
                tries_left -= 1
                if tries_left < 0:
                    raise
                raise CommitConflictError(error.message) from error
            except (FencedLeaderEpochError, NotLeaderOrFollowerError) as error:
                raise CommitConflictError(error.message) from error

        return until_committed(self._log.confirm, commit, clock=self._tables.clock)


def voters_record(voters: VoterSet, cause: str) -> VotersRecord:
    return VotersRecord(voters=tuple(map(str, voters.voters)), cause=f"{cause} by request")


@contextmanager
def _without_consequence(key: VoterKey) -> Iterator[None]:
    """Report a commit on a follower's table that may stand or not as a root that fails: nothing is
    decided by it."""
    try:
        yield
    except CommitOutcomeUnknownError as error:
        raise KafkaStorageError(f"the root of voter {key} fails: {error.message}") from error
