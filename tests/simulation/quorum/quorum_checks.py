"""What must hold of a quorum after every commit, read and answer: Q1 to Q10, by name.

What is committed is worked out here from the tables alone, as far as they are durable, and never
from what a process says: a batch is, once each voter of a majority had it at some time in its
epoch, under its leader's mark. What processes learn is held against that: who counts more counts
what no majority holds, or an older epoch's batch before one of the leader's epoch (Q3). Q5 has
several rules for a change of voters, and each a name of its own.
"""

from collections import Counter
from dataclasses import dataclass, field

from kafka_on_spark.fsck.voter_trace import appended_flaws
from kafka_on_spark.metadata.quorum.raft import majority_end
from kafka_on_spark.metadata.quorum.voter_table import BatchKind
from tests.simulation.world.scheduler import Violation
from tests.voter_fakes import mismatch


def require(holds: bool, invariant: str, message: str) -> None:
    if not holds:
        raise Violation(invariant, message)


@dataclass
class QuorumChecker:
    """The truth about a quorum.

    Attributes:
        first_voters: The voters that the cluster was made with.
        committed: The batches that are committed.
        held_end: Up to where a majority held a leader's log, be it committed or not: batches of
            older epochs are committed by one of the leader's own, and by nothing else (Q3).
        seen: How often what happened.
    """

    first_voters: object
    committed: tuple = ()
    held_end: int = 0
    seen: Counter = field(default_factory=Counter)
    roots: list = field(default_factory=list)
    _votes: dict = field(default_factory=dict)
    _gave: dict = field(default_factory=dict)
    _leaders: dict = field(default_factory=dict)
    _held: dict = field(default_factory=dict)
    _logs: dict = field(default_factory=dict)
    _refused: set = field(default_factory=set)

    @property
    def voters(self):
        """The newest set of voters that is committed."""
        sets = (each.voters for each in reversed(self.committed) if each.voters is not None)
        return next(sets, self.first_voters)

    @property
    def is_settled(self):
        """Whether no table names a set that is not committed: it may come to be."""
        return all(
            each.table.log.voters_batch is None or each.table.log.voters_batch in self.committed
            for each in self.roots
        )

    @property
    def end(self):
        """Up to where the log is committed."""
        return self.committed[-1].end_offset if self.committed else 0

    # Commits on the tables.

    def put(self, root, before, change):
        """Check a commit that was just put on a voter's table."""
        after = root.table
        require(after.quorum_epoch >= before.quorum_epoch, "Q4", f"{after.key} goes back")
        begins, leaders = change.leader == after.key, [*filter(None, (after.leader,))]
        kept = after.log.batches[: len(after.log.batches) - len(change.appended)]
        epoch, new = after.quorum_epoch, change.appended
        for flaw in appended_flaws(after.key, epoch, leaders, kept, new, begins=begins):
            require(False, flaw[0], f"{after.key}: {flaw[1]}")
        if begins:
            self._begins(after, change)
        elif change.appended and after.leads:
            self._decides(before, change)
        for other in self.roots:
            if other is not root:
                found = mismatch(after.log.batches, other.table.log.batches)
                require(found is None, "Q7", f"{found} are at one place in one epoch")

    def _begins(self, after, change):
        epoch = after.quorum_epoch
        known = self._leaders.setdefault(epoch, after.key)
        require(known == after.key, "Q1", f"epoch {epoch} has leaders {known} and {after.key}")
        is_no_op = change.appended[0].kind is BatchKind.NO_OP
        require(is_no_op, "Q8", f"{after.key} leads without its no-op")
        votes = self._votes.get((epoch, after.key), set())
        voters = after.log.voters
        require(voters.is_majority(votes), "Q8", f"{after.key} leads {epoch} by {votes}")
        for each in self.committed:
            is_there = each.epoch >= epoch or each in after.log.batches
            require(is_there, "Q2", f"the leader of {epoch} lacks {each}, which is committed")
        self.seen["leaderships"] += 1

    def _decides(self, before, change):
        for each in change.appended:
            if each.voters is not None:
                self._changes_voters(before, each)
            if each.kind is not BatchKind.NO_OP:
                self._check_counted(each.base_offset, "Q9", f"{each} is decided on its tail")

    def _changes_voters(self, before, batch):
        old, new, leader = before.log.voters, batch.voters, before.key
        added = [each for each in new.keys if each not in old.keys]
        removed = [each for each in old.keys if each not in new.keys]
        is_one = len(added) + len(removed) == 1
        require(is_one, "Q5: one voter at a time", f"{old} becomes {new}")
        last = before.log.voters_batch
        is_next = last is None or last in self.committed or last.end_offset == 1
        words = f"{new} follows {last}, which is not committed"
        require(is_next, "Q5: one change at a time", words)
        is_led = before.quorum_epoch in {each.epoch for each in self.committed}
        require(is_led, "Q3", f"{new} comes before {leader} has committed a batch of its epoch")
        require(leader in new.keys, "Q5: the leader stays", f"{leader} removes itself: {new}")
        for key in added:
            self._check_caught_up(before.log, self._root_of(key).durable)
        self.seen["voters added"] += len(added)
        self.seen["voters removed"] += len(removed)

    def _check_caught_up(self, log, table):
        last = log.batches[-1]
        lacking = [each for each in log.batches[:-1] if each not in table.log.batches]
        words = f"{table.key} is added and lacks {lacking}, of a log up to {last}"
        require(not lacking, "Q5: a new voter has caught up", words)

    def _root_of(self, key):
        return next(each for each in self.roots if each.key == key)

    def flushed(self, root, tables):
        """Learn versions of a voter's table that are durable from now on."""
        for table in tables:
            for key, epoch in table.votes:
                given = self._gave.setdefault((table.key, epoch), key)
                require(given == key, "Q1", f"{table.key} votes twice in {epoch}")
                self._votes.setdefault((epoch, key), set()).add(table.key)
            if table.leader is None:
                continue
            term = (table.quorum_epoch, table.leader)
            held = self._held.setdefault(term, {})
            held[table.key] = max(table.log.end_offset, held.get(table.key, 0))
            longest = self._logs.get(term)
            if longest is None or table.log.end_offset > longest.end_offset:
                self._logs[term] = table.log
            self._count(term)

    def _count(self, term):
        epoch, log = term[0], self._logs[term]
        if log.voters is None:
            return
        end = majority_end(self._held[term].get(each) for each in log.voters.keys)
        start = log.epoch_start(epoch)
        self.held_end = max(end or 0, self.held_end)
        if end is None or start is None or end <= start:
            return
        now = tuple(each for each in log.batches if each.end_offset <= end)
        shared = min(len(now), len(self.committed))
        is_same = now[:shared] == self.committed[:shared]
        require(is_same, "Q2", f"committed {self.committed} is rewritten as {now}")
        for each in now[len(self.committed) :]:
            require(self.value(each) not in self._refused, "Q2", f"{each} was called lost")
        self.committed = max(now, self.committed, key=len)

    def _check_counted(self, end, invariant, message):
        """Check what a process takes for committed: all up to `end`."""
        words = f"{message}: committed to {self.end}, counted to {end}"
        is_of_an_older_epoch = self.end < end <= self.held_end
        require(not is_of_an_older_epoch, "Q3", f"{words}, which a majority holds by older epochs")
        require(end <= self.end, invariant, words)

    # What processes are told.

    def read(self, began, start, batches):
        """Check what a read returned that began when the log was committed to `began`."""
        end = batches[-1].end_offset if batches else start
        self._check_counted(end, "Q6", f"{len(batches)} batches are read")
        require(end >= began, "Q10", f"read up to {end}, committed to {began} before")
        expected = [each for each in self.committed if start <= each.base_offset < end]
        places = [(each.base_offset, each.end_offset) for each in batches]
        is_same = places == [(each.base_offset, each.end_offset) for each in expected]
        require(is_same, "Q6", f"read {places}, committed are {expected}")
        for batch, header in zip(batches, expected, strict=True):
            found = self.content(header.write_id)
            require(batch == found, "Q7", f"{header.write_id} is read as {batch}")
        self.seen["reads"] += 1

    def content(self, write_id):
        return next(root.content[write_id] for root in self.roots if write_id in root.content)

    def acknowledged(self, batch):
        """Check a decision that was answered: a majority holds it."""
        found = [each for each in self.committed if each.base_offset == batch.base_offset]
        is_there = bool(found) and self.content(found[0].write_id) == batch
        require(is_there, "Q2", f"{batch} is answered, committed are {self.committed}")
        self.seen["decisions"] += 1

    def changed(self, voters):
        """Check a change of voters that was answered: a majority of them holds it."""
        is_there = any(each.voters == voters for each in self.committed)
        require(is_there, "Q2", f"{voters} are told, committed are {self.committed}")

    def value(self, header):
        """Return what a batch decides; None for a no-op."""
        return getattr(self.content(header.write_id).records[0], "config_name", None)

    def refused(self, value):
        """Check a decision that was called a conflict: it never is in the log."""
        is_there = any(self.value(each) == value for each in self.committed)
        require(not is_there, "Q2", f"{value} is called lost, and is committed")
        self._refused.add(value)
        self.seen["conflicts"] += 1
