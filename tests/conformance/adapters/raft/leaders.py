"""Kinds of file 06 about what a leader knows: its high watermark, and whether it still may lead."""

from dataclasses import replace

from kafka_on_spark.raft.states.leader_state import leading
from tests.conformance.adapters.raft.words import Times, key_of, voters_of
from tests.conformance.runner import Adapter, IllegalArgumentError


class LeaderHighWatermark(Adapter):
    """A leader, its own log end and its followers' fetches."""

    SETS = frozenset()

    def __init__(self, local, voters, epoch_start_offset):
        self.times = Times()
        moment = self.times.moment()
        self.voters = voters_of(voters)
        self.leader = leading(key_of(local), 5, epoch_start_offset, self.voters, moment)

    def _become(self, leader):
        before, self.leader = self.leader, leader
        return {
            "high_watermark": leader.high_watermark,
            "updated": leader.high_watermark != before.high_watermark,
        }

    def op_local_end_offset(self, offset, voters=None):
        """The voters that are given are in force from then on, whether or not this is refused."""
        self.voters = self.voters if voters is None else voters_of(voters)
        return self._become(self.leader.with_local_end(offset, self.voters))

    def op_replica_fetch_offset(self, replica, offset):
        return self._become(self.leader.with_fetch(key_of(replica), offset, self.times.moment()))

    def op_preferred_successors(self):
        return list(self.leader.preferred_successors)

    def op_non_acked(self):
        return sorted(self.leader.unacknowledged)

    def op_ack(self, voter):
        try:
            self.leader = self.leader.with_acknowledgement(voter)
        except AssertionError as error:
            raise IllegalArgumentError from error

    def expected(self):
        return {"high_watermark": self.leader.high_watermark}


class CheckQuorum(Adapter):
    """A leader's time until it resigns, in ms, or in parts of the whole, C."""

    def __init__(self, local, voters, check_quorum_timeout=None, check_quorum_timeout_ms=None):
        self.is_in_parts = check_quorum_timeout_ms is None
        self.whole_ms = check_quorum_timeout_ms or 75_000
        self.times = Times()
        self.leader = leading(key_of(local), 5, 0, voters_of(voters), self._moment())

    def _moment(self):
        return replace(self.times.moment(), fetch_timeout_ms=self.whole_ms * 2 // 3)

    def op_sleep(self, ms):
        self.times.now_ms += self._ms(ms)

    def _ms(self, given):
        if isinstance(given, int):
            return given
        whole, _, part = given.partition("/")
        if whole != "C":
            raise ValueError(given)
        return self.whole_ms // int(part or 1)

    def op_fetch_from(self, replica):
        self.leader = self.leader.with_quorum_checked(key_of(replica), self._moment())
        return {"remaining": self.op_remaining()}

    def op_remaining(self):
        left_ms = self.leader.check_quorum_remaining_ms(self.times.now_ms)
        if left_ms is None:
            return "infinite"
        if not self.is_in_parts or left_ms == 0:
            return left_ms
        parts = {self.whole_ms // part: f"C/{part}" for part in (2, 3, 4)}
        return {**parts, self.whole_ms: "C"}.get(left_ms, left_ms)

    def op_set_voters(self, voters):
        """Take the set from the leader's log, which has its no-op at least."""
        self.leader = self.leader.with_local_end(1, voters_of(voters))

    def expected(self):
        return {"high_watermark": self.leader.high_watermark}
