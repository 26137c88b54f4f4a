"""The rules of a change of voters, each left out or written wrongly: a seed must tell."""

from dataclasses import replace

from kafka_on_spark.base.errors import CommitOutcomeUnknownError
from kafka_on_spark.metadata.quorum import voter_changes
from kafka_on_spark.metadata.quorum.quorum_log import QuorumLog
from kafka_on_spark.metadata.quorum.raft import LeaderView, majority_end
from kafka_on_spark.metadata.quorum.voter_changes import VoterChanges, remove_voter, with_new_voter
from kafka_on_spark.metadata.quorum.voter_table import BatchKind, RaftBatch, TableChange
from kafka_on_spark.metadata.records import MetadataBatch
from tests.simulation.quorum.quorum_mutants import eager, emptied
from tests.simulation.quorum.quorum_plan import QuorumPlan


def changing(seed: int) -> QuorumPlan:
    """Return a plan of voters that come and go, and of roots that fail."""
    return replace(eager(seed), changes=0.5, spares=2)


def changing_emptied(seed: int) -> QuorumPlan:
    """Return a plan of voters that come and go, and of some that are emptied."""
    return replace(emptied(seed), changes=0.5, spares=2)


def removing_any(seed: int) -> QuorumPlan:
    """Return a plan of people who remove any voter, also while another one is lost."""
    return replace(changing_emptied(seed), removes_any=True)


def next_change_comes_before_the_last_is_committed(patch):
    """Voters are added or removed on whatever the leader's log ends with."""
    confirm = QuorumLog.confirm

    def looked_at(self):
        _, led = self._look_around()
        return confirm(self) if led is None else led

    def decided(self, decide):
        patched, self._log = self._log, Unconfirmed(self._log)
        try:
            return decide(self._log.confirm())
        finally:
            self._log = patched

    class Unconfirmed:
        def __init__(self, inner):
            self._inner = inner

        def __getattr__(self, name):
            return getattr(self._inner, name)

        def confirm(self):
            return looked_at(self._inner)

    def put(self, led, voters, stamp, cause):
        end = led.table.log.end_offset
        write_id = self._log._new_id()
        header = RaftBatch(end, end + 1, led.epoch, write_id, BatchKind.DECISION, voters)
        record = voter_changes.voters_record(voters, cause)
        batch = MetadataBatch(base_offset=end, stamp=stamp, records=(record,))
        self._tables.commit(led.table, TableChange(appended=(header,)), batch)
        followed = self._log.replicate(self._tables.load(led.key))
        if not followed.is_confirmed:
            raise CommitOutcomeUnknownError("no majority has it as yet")
        return voters

    patch.setattr(VoterChanges, "_decided", decided)
    patch.setattr(VoterChanges, "_put", put)
    patch.setattr(voter_changes, "_settled", lambda view: view.log.voters)
    patch.setattr(voter_changes, "majority_end", lambda ends: 1 << 40)


def new_voter_is_counted_by_the_old_set(patch):
    """A change of voters is committed by those before it."""
    counted_end = LeaderView.counted_end.func

    def counted_by_the_old(self):
        sets = [each.voters for each in self.log.batches if each.voters is not None]
        if len(sets) < 2 or counted_end(self) == self.log.end_offset:
            return counted_end(self)
        end = majority_end(self.held.get(each) for each in sets[-2].keys)
        start = self.log.epoch_start(self.epoch)
        return None if end is None or start is None or end <= start else end

    patch.setattr(LeaderView, "counted_end", property(counted_by_the_old))


def leader_removes_itself(patch):
    patch.setattr(VoterChanges, "_elect", lambda self, led, key: None)

    def removed(view, key):
        if key != view.key:
            return remove_voter(view, key)
        return view.log.voters.without_voter(key)

    def remove(self, key, stamp):
        def decide(led):
            return self._put(led, removed(led, key), stamp, "removed")

        return self._decided(decide)

    patch.setattr(VoterChanges, "remove", remove)


def voter_that_is_behind_is_added(patch):
    """A root is a voter from the moment that somebody asks for it."""

    def added(view, voter, table):
        return with_new_voter(view, voter)

    patch.setattr(voter_changes, "add_voter", added)
    patch.setattr(VoterChanges, "_follow", lambda self, leader, key: None)
    patch.setattr(VoterChanges, "_written_to", lambda self, leader, key: self._tables.look(key))


def two_voters_change_at_once(patch):
    """A voter is added in the place of another, in one change."""

    def added(view, voter, table):
        others = [each for each in view.log.voters.voters if each.key != view.key]
        kept = [each for each in view.log.voters.voters if each not in others[:1]]
        return type(view.log.voters).of([*kept, voter])

    patch.setattr(voter_changes, "add_voter", added)


def voter_is_removed_whoever_answers(patch):
    """A voter is removed though those that are left can't decide anything."""
    patch.setattr(voter_changes, "majority_end", lambda ends: 1 << 40)


# fmt: off
VOTER_CHANGE_MUTANTS = {
    # mutant:                                        (plan,             what tells)
    next_change_comes_before_the_last_is_committed:  (changing,         ("Q5: one change at a time", "Q3", "Q9")),
    new_voter_is_counted_by_the_old_set:             (changing,         ("Q2", "Q6", "Q9", "Q10")),
    leader_removes_itself:                           (changing,         ("Q5: the leader stays",)),
    voter_that_is_behind_is_added:                   (changing,         ("Q5: a new voter has caught up",)),
    two_voters_change_at_once:                       (changing,         ("Q5: one voter at a time",)),
    voter_is_removed_whoever_answers:                (removing_any,     ("L1",)),
}
# fmt: on
