"""The quorum's decisions as the model calls them: the production's, each once for the same tables.

Tables and views are numbered, so that a state of the model is a tuple of small numbers; a decision is
looked up by the numbers that it is asked with.
"""

from functools import cache

from kafka_on_spark.base.errors import (
    CommitConflictError,
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
)
from kafka_on_spark.metadata.quorum.raft import (
    adopt,
    append,
    begin_leadership,
    decide_vote,
    fetch,
    has_majority,
    stand,
    view_of,
)
from kafka_on_spark.metadata.quorum.voter_table import (
    BatchKind,
    RaftBatch,
    RaftLog,
    Voter,
    VoterKey,
    VoterSet,
    VoterTable,
)
from tests.voter_fakes import mismatch


class Numbers:
    def __init__(self, key=lambda value: value):
        self._key, self._numbers, self._values = key, {}, []

    def of(self, value):
        key = self._key(value)
        if key not in self._numbers:
            self._numbers[key] = len(self._values)
            self._values.append(value)
        return self._numbers[key]

    def __getitem__(self, number):
        return self._values[number]


def _view_key(view):
    return (view.key, view.epoch, view.log, tuple(sorted(view.held.items())))


class Rules:
    """The production's decisions, on numbers of tables and views. Answers are numbers, or None."""

    def __init__(self):
        self.tables, self.views = Numbers(), Numbers(_view_key)
        self.keys = [VoterKey(each, f"d{each}") for each in range(3)]
        self.voters = VoterSet.of(Voter(each) for each in self.keys)
        for name in ("leads", "is_candidate", "grant", "begin", "looked", "adopted", "fetched"):
            setattr(self, name, cache(getattr(self, name)))
        for name in ("seen", "committed_names", "is_confirmed", "appended", "stood", "names"):
            setattr(self, name, cache(getattr(self, name)))
        for name in ("first_tables", "epoch", "place", "mismatch"):
            setattr(self, name, cache(getattr(self, name)))

    def first_tables(self):
        """Return the tables as `create` leaves them: each holds the same bootstrap batch."""
        bootstrap = RaftBatch(0, 1, 0, "bootstrap", BatchKind.DECISION, self.voters)
        log = RaftLog((bootstrap,))
        return tuple(self.tables.of(VoterTable(key, log=log)) for key in self.keys)

    def wiped(self, place):
        """Return the table of a root that was emptied and made again: its directory is another."""
        key = self.keys[place]._replace(directory_id="wiped")
        return self.tables.of(VoterTable(key))

    def rolled_back(self, table):
        """Return a table as a copy of before its last batch has it."""
        found = self.tables[table]
        log = found.log.cut_to(found.log.batches[-1].base_offset)
        epoch = log.end.epoch
        leaders = tuple(mark for mark in found.leaders if mark[1] <= epoch)
        return self.tables.of(VoterTable(found.key, epoch, (), leaders, log))

    def names(self, table):
        return tuple(each.write_id for each in self.tables[table].log.batches)

    def mismatch(self, table, other):
        return mismatch(*(self.tables[each].log.batches for each in (table, other)))

    def place(self, table):
        return self.tables[table].key.node_id

    # Elections.

    def leads(self, table):
        return self.tables[table].leads

    def is_candidate(self, table):
        return self.tables[table].is_candidate

    def epoch(self, table):
        return self.tables[table].quorum_epoch

    def stood(self, table, epoch):
        found = self.tables[table]
        return self.tables.of(found.apply(stand(found, epoch)))

    def grant(self, voter, candidate):
        """Return (granted, the voter's table after it)."""
        found = self.tables[voter]
        decision = decide_vote(found, self.tables[candidate])
        if decision.change is None:
            return decision.is_granted, voter
        return decision.is_granted, self.tables.of(found.apply(decision.change))

    def begin(self, candidate, votes):
        """Return the candidate's table once it leads, or None."""
        found = self.tables[candidate]
        keys = {self.tables[each].key for each in votes}
        if not found.is_candidate or not has_majority(found, keys):
            return None
        write_id = f"{found.key.node_id}:{found.quorum_epoch}"
        return self.tables.of(found.apply(begin_leadership(found, keys, write_id)))

    # A leader's work.

    def looked(self, table):
        view = view_of(self.tables[table])
        return None if view is None else self.views.of(view)

    def seen(self, view, table):
        return self.views.of(self.views[view].seen(self.tables[table]))

    def committed_names(self, view):
        found = self.views[view]
        end = found.committed_end
        return tuple(each.write_id for each in found.log.batches if each.end_offset <= end)

    def is_confirmed(self, view):
        return self.views[view].is_confirmed

    def appended(self, leader, view, value):
        """Return the leader's table with a decision more; None: the tail is to be ended first."""
        found, seen = self.tables[leader], self.views[view]
        try:
            change = append(
                found,
                seen.epoch,
                seen.committed_end,
                base_offset=found.log.end_offset,
                record_count=1,
                write_id=f"v{value}:{seen.epoch}",
            )
        except (CommitConflictError, NotLeaderOrFollowerError):
            return None
        return self.tables.of(found.apply(change))

    def adopted(self, voter, leader):
        """Return the voter's table once it has adopted the leader; None: it has, or refuses."""
        found = self.tables[voter]
        try:
            change = adopt(found, self.tables[leader])
        except FencedLeaderEpochError:
            return None
        return None if change is None else self.tables.of(found.apply(change))

    def fetched(self, voter, leader, records_max):
        """Return the voter's table with more of the leader's log, or None."""
        found = self.tables[voter]
        try:
            change = fetch(found, self.tables[leader], records_max=records_max)
        except (FencedLeaderEpochError, NotLeaderOrFollowerError):
            return None
        return None if change is None else self.tables.of(found.apply(change))
