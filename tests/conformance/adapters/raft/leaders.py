"""The kind of file 06 about a leader's high watermark: counted over voters' tables."""

from kafka_on_spark.metadata.quorum.raft import adopt, fetch, follows, view_of
from kafka_on_spark.metadata.quorum.voter_table import BatchKind, RaftBatch, VoterTable
from tests.conformance.adapters.raft.words import NamedLog, key_of, voters_of
from tests.conformance.runner import Adapter, Answer, CutOffError, IllegalArgumentError

EPOCH = 5
SHRINKS = "logs-under-a-mark-only-grow"


class LeaderHighWatermark(Adapter):
    """A leader, its log, and the tables of those that fetch from it."""

    def __init__(self, local, voters, epoch_start_offset):
        self.key, self.start = key_of(local), epoch_start_offset
        self.voters = voters_of(voters)
        self.tables = {}
        self.leader = self._led(epoch_start_offset)
        self.view = view_of(self.leader)
        self.has_begun = False

    def _led(self, end):
        """Return the leader's table: a record of an earlier epoch each, then those of its own."""
        batches = tuple(
            RaftBatch(
                at,
                at + 1,
                EPOCH if at >= self.start else EPOCH - 1,
                f"w{at}",
                BatchKind.NO_OP if at == self.start else BatchKind.DECISION,
            )
            for at in range(end)
        )
        mark = ((self.key, EPOCH),)
        log = NamedLog(batches, voters=self.voters)
        return VoterTable(self.key, EPOCH, mark, mark, log)

    def _told(self, before):
        found = self.view.counted_end
        return {"high_watermark": found, "updated": found != before}

    def op_local_end_offset(self, offset, voters=None):
        if offset < self.leader.log.end_offset:
            raise CutOffError(SHRINKS)
        before = self.view.counted_end
        self.voters = self.voters if voters is None else voters_of(voters)
        if voters is not None and before is not None:
            self._check_counted(before)
        self.leader = self._led(offset)
        self.view = self.view.seen(self.leader)
        self.has_begun = True
        return self._told(before)

    def _check_counted(self, before):
        """A set that holds less than was committed is put into force by nobody: it is counted."""
        held = sum(self.view.held.get(each, -1) >= before for each in self.voters.keys)
        if held < self.voters.majority:
            raise CutOffError("changes-keep-what-is-committed")

    def op_replica_fetch_offset(self, replica, offset):
        key, end = key_of(replica), self.leader.log.end_offset
        if replica == self.key.node_id:
            return Answer(left_out={"": "no-requests"})
        before = self.view.counted_end
        table = self._following(key)
        if offset < table.log.end_offset or offset > end:
            raise CutOffError(SHRINKS)
        if offset > table.log.end_offset:
            count = offset - table.log.end_offset
            table = table.apply(fetch(table, self.leader, records_max=count))
        self.tables[key] = table
        self.view = self.view.seen(table)
        return self._told(before)

    def _following(self, key):
        table = self.tables.get(key, VoterTable(key))
        change = adopt(table, self.leader)
        return table if change is None else table.apply(change)

    def op_preferred_successors(self):
        return Answer(left_out={"": "no-requests"})

    def op_non_acked(self):
        others = (each for each in self.voters.keys if each != self.key)
        tables = [self.tables.get(each, VoterTable(each)) for each in others]
        return [each.key.node_id for each in tables if not follows(each, self.leader)]

    def op_ack(self, voter):
        found = self.voters.voter_of(voter)
        if found is None:
            raise IllegalArgumentError
        if found.key != self.key:
            self.tables[found.key] = self._following(found.key)

    def expected(self):
        return {"high_watermark": self.view.counted_end}
