"""Holds elections, the first one of a new cluster's log, too.

An election has a voter stand, gathers votes, and begins the leadership.

Any process may, for any voter, and end one that another process began. What an election needs of
the quorum is decided in `raft`; here are its commits, in their order. Invariants that these keep:
Q1 (one vote an epoch, in the voter's own table) and Q8 (the mark and the no-op are one commit,
after a majority of votes).

Where a cluster is created, every root is empty. Each table's version 0 holds the same bootstrap
batch (epoch 0: cluster, voters), put if absent; then the first election is held. The same call goes
on with what an earlier try has left, if nothing else was written. The cluster is there once its
first decision is.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from kafka_on_spark.base.config import SETTINGS
from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitError,
    InconsistentClusterIdError,
    InvalidRootError,
    ProtocolError,
    QuorumUnavailableError,
)
from kafka_on_spark.base.ids import Clock, Offset, QuorumEpoch
from kafka_on_spark.metadata.quorum.raft import (
    Candidacy,
    Waiting,
    begin_leadership,
    decide_candidacy,
    decide_vote,
    has_majority,
    next_epoch,
    stand,
)
from kafka_on_spark.metadata.quorum.voter_table import (
    BatchKind,
    RaftBatch,
    TableChange,
    VoterKey,
    VoterSet,
    VoterTable,
    best_log,
)
from kafka_on_spark.metadata.quorum.voter_tables import VoterTables
from kafka_on_spark.metadata.records import (
    LeaderChangeRecord,
    MetadataBatch,
    Stamp,
    VotersRecord,
    stamp_ms,
)

log = logging.getLogger(__name__)

VOTES_MAX: Final = 4
"""How often a voter is asked again whose table another has just committed on."""

CLOCK_AHEAD_MAX_MS: Final = int(SETTINGS["clock.ahead.max.ms"].default)

TRIES_MAX: Final = 8
"""Processes that create the same cluster at once may lose an election to each other."""

FIRST_EPOCH: Final = 1
"""A new cluster's: nobody need hear of that election."""


class Elections:
    """Elections that this process holds. Threads may share it.

    `new_id` returns an id that nobody else makes, `votes_ms` how long votes are waited for, and
    each commit of the candidate.
    """

    def __init__(
        self,
        tables: VoterTables,
        clock: Clock,
        new_id: Callable[[], str],
        votes_ms: Callable[[], int],
    ) -> None:
        self._votes_ms = votes_ms
        self._tables = tables
        self._clock = clock
        self._new_id = new_id

    def ask(self, waiting: Waiting, unwritable: Collection[VoterKey]) -> Candidacy | None:
        """Decide who is to stand, by what a majority of voters says (pre-vote); None: nobody, since
        a voter hears a leader.

        `unwritable`: voters that take no commits, and so can't stand.

        Raises:
            QuorumUnavailableError: No majority of the voters answers.
        """
        readable: dict[VoterKey, VoterTable] = {}
        asked: set[VoterKey] = set(unwritable)
        while keys := [key for key in self._tables.voters.keys if key not in asked]:
            asked.update(keys)
            for table in self._tables.each(keys, self._tables.look):
                readable[table.key] = table
                if self._tables.voters.is_majority(readable):
                    break
            # Whom they name decides, not whom a root that is away named.
            self._tables.learn_voters(readable.values())
        return decide_candidacy(self._tables.voters, readable, waiting)

    def elect_again(self, leader: VoterTable, *roots: VoterTable) -> VoterTable | None:
        """Have the leader itself stand, above every epoch that was seen of voters, and of `roots`:
        one of them is stranded in a later one. Return its table if it leads."""
        seen = [leader, *roots, *self._tables.newest_of_all().values()]
        return self.elect(Candidacy(leader.key, next_epoch(seen)))

    def elect(self, candidacy: Candidacy) -> VoterTable | None:
        """Have a voter stand; return its table if it leads. Where its root fails, why is kept."""
        key = candidacy.key
        self._tables.failures.pop(key, None)
        try:
            return self._elected(candidacy)
        except CommitConflictError:
            return None  # another process was quicker
        except (CommitError, ProtocolError) as error:
            self._tables.failures[key] = error
            log.info("voter %s can't stand: %s", key, error)
            return None

    def _elected(self, candidacy: Candidacy) -> VoterTable | None:
        candidate = self._tables.in_time(
            candidacy.key, partial(self._stood, candidacy), self._votes_ms()
        )
        if candidate is None:
            return None
        votes = {candidate.key}
        self._tables.learn_voters([candidate])  # by whom its votes are counted
        others = [key for key in self._tables.voters.keys if key != candidate.key]
        if not has_majority(candidate, votes):
            for voted in self._tables.each(
                others, partial(self._vote, candidate), timeout_ms=self._votes_ms()
            ):
                votes.add(voted.key)
                if has_majority(candidate, votes):
                    break
        if not has_majority(candidate, votes):
            log.info(
                "voter %s stood in epoch %d and has %d votes",
                candidate.key,
                candidate.quorum_epoch,
                len(votes),
            )
            return None
        return self._begun(candidate, votes)

    def _stood(self, candidacy: Candidacy) -> VoterTable | None:
        """Return the candidate's table as it is *after* it stood, by whomever; votes are given by
        its log there. None: it has seen that epoch, and does not stand in it."""
        key, epoch = candidacy.key, candidacy.epoch
        table = self._tables.look(key)
        if table.quorum_epoch >= epoch:
            return table if _stands(table, epoch) else None
        try:
            return self._tables.commit(table, stand(table, epoch))
        except CommitError:
            table = self._tables.load(key)
            if _stands(table, epoch):
                return table
            raise

    def _vote(self, candidate: VoterTable, key: VoterKey) -> VoterTable | None:
        """Return a voter's table with its vote for the candidate; None: it gives none."""
        voter = self._tables.look(key)
        for _ in range(VOTES_MAX):
            decision = decide_vote(voter, candidate)
            if decision.change is None:
                return voter if decision.is_granted else None
            try:
                return self._tables.commit(voter, decision.change)
            except CommitConflictError:
                voter = self._tables.load(key)
        raise QuorumUnavailableError(f"others keep committing on the table of voter {key}")

    def _begun(self, candidate: VoterTable, votes: Collection[VoterKey]) -> VoterTable | None:
        """Return the candidate's table with its mark and its no-op; None: it stands no more."""
        change = begin_leadership(candidate, votes, self._new_id())
        record = LeaderChangeRecord(
            leader=candidate.key.node_id,
            directory_id=candidate.key.directory_id,
            cause=f"elected in epoch {candidate.quorum_epoch} by {len(votes)} voters",
        )
        key, most_ms = candidate.key, self._votes_ms()
        stamp = first_stamp(self._tables, key, self._clock)
        batch = MetadataBatch(base_offset=candidate.log.end_offset, stamp=stamp, records=(record,))
        try:
            leader = self._tables.in_time(
                key, partial(self._tables.append, candidate, change, batch), most_ms
            )
        except CommitError:  # it may have landed, or another process have begun it
            leader = self._tables.in_time(key, partial(self._tables.load, key), most_ms)
        if not leader.leads or leader.quorum_epoch != candidate.quorum_epoch:
            return None
        level = logging.INFO if leader.quorum_epoch == FIRST_EPOCH else logging.WARNING
        log.log(
            level, "voter %s leads the metadata quorum in epoch %d", leader.key, leader.quorum_epoch
        )
        return leader

    def begin_log(self, cluster_id: str) -> None:
        """Have the voters' tables begin with their bootstrap batch, and one of them lead.

        Raises:
            InvalidRootError: A root holds something else, or there is a cluster.
            QuorumUnavailableError: No voter could be elected.
            KafkaStorageError, CommitOutcomeUnknownError: A root fails; the same call goes on with
                what is there.
        """
        tables, voters = self._tables, self._tables.voters
        for _ in range(TRIES_MAX):
            found = [tables.load(key) for key in voters.keys]
            check_beginning(found, voters, cluster_id)
            if not all(each.log.batches for each in found):
                self._put_bootstrap(found, cluster_id)
            elif any(each.leads for each in found):
                return
            else:
                self.elect(Candidacy(best_log(found).key, next_epoch(found)))
        raise QuorumUnavailableError(
            "no voter of the new cluster could be elected: create it again, which goes on with what"
            " is there"
        )

    def _put_bootstrap(self, found: Sequence[VoterTable], cluster_id: str) -> None:
        """Put the first batch on the first voter, or copy it from one that has it to all that lack
        it: another try made it at another time, and one log has one batch there."""
        voters, write_id = self._tables.voters, bootstrap_id(cluster_id)
        start, end = Offset(0), Offset(1)
        header = RaftBatch(start, end, QuorumEpoch(0), write_id, BatchKind.DECISION, voters)
        change = TableChange(appended=(header,))
        begun = next((table for table in found if table.log.batches), None)
        lacking = [table for table in found if not table.log.batches]
        if begun is not None:
            for table in lacking:
                with suppress(CommitConflictError):  # another process was quicker
                    self._tables.commit(table, change, source=begun.key)
            return
        record = VotersRecord(
            voters=tuple(map(str, voters.voters)),
            cluster_id=cluster_id,
            cause="the cluster is made",
        )
        stamp = first_stamp(self._tables, voters.keys[0], self._clock)
        batch = MetadataBatch(base_offset=start, stamp=stamp, records=(record,))
        with suppress(CommitConflictError):
            self._tables.append(lacking[0], change, batch)


def first_stamp(tables: VoterTables, key: VoterKey, clock: Clock) -> Stamp:
    """Return the stamp of a batch that a process puts on voter `key` without having read the log:
    by the setting's default, and without a newest commit."""
    root_ms = tables.root_ms(key)
    return Stamp(time_ms=stamp_ms(clock.now_ms(), root_ms, 0, CLOCK_AHEAD_MAX_MS))


def _stands(table: VoterTable, epoch: QuorumEpoch) -> bool:
    return table.is_candidate and table.quorum_epoch == epoch


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
