"""The kind of file 04 about what a leader knows of one follower.

Kafka's leader remembers when a follower fetched; here a report says where its log ends, and what
it lacks was appended at known times. A vector says when the leader's log was seen at which end:
what is new since the last inspection was appended just after it.
"""

from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.controller.isr import lagging_members
from kafka_on_spark.log import operations
from tests.conformance.adapters.replication.leader import FETCH_TIMES, LAG, Leader
from tests.conformance.kafka_memory import FetchTimes
from tests.conformance.logs import batch_of
from tests.conformance.runner import Adapter, Answer, CutOffError
from tests.conformance.world import World, extended

FOLLOWER = BrokerId(2)
UNKNOWN = -1
ENDS = ("log_start_offset", "log_end_offset")


class FetchState(Leader):
    """Fetches at a partition, or, where the setup is a replica's state, at one replica's."""

    @classmethod
    def for_setup(cls, setup):
        return OneReplica if "replica" in setup else cls

    @classmethod
    def sorts(cls):
        return (cls, OneReplica)


class OneReplica(Adapter):
    """One follower of a leader whose log grows."""

    def __init__(self, replica, now_ms, registered_broker_epoch=0, broker_epochs=None):
        epochs = broker_epochs or {"2": registered_broker_epoch}
        self.leader = Leader(replicas=[1, 2], now_ms=now_ms, broker_epochs=epochs)
        assert replica["log_end_offset"] == UNKNOWN, "vectors begin with an unknown replica"
        self.leader.memory = {
            FOLLOWER: FetchTimes(
                last_caught_up_ms=replica["last_caught_up_ms"],
                last_fetch_leader_end=replica["last_fetch_leader_log_end_offset"],
                last_fetch_ms=replica["last_fetch_ms"],
            )
        }
        self.seen_at_ms = replica["last_fetch_ms"]
        self.starts_above_end = False

    @property
    def world(self) -> World:
        return self.leader.world

    @property
    def memory(self) -> FetchTimes:
        return self.leader.memory[FOLLOWER]

    def op_advance_clock(self, ms):
        self.leader.op_advance_clock(ms)

    def op_update_fetch_state(
        self, fetch_offset, follower_start, leader_end_offset, broker_epoch=None
    ):
        self.leader._see_incarnation(FOLLOWER, broker_epoch)
        self._grow(leader_end_offset)
        self.memory.fetched(fetch_offset, leader_end_offset, self.world.now_ms)
        self.world.see_follower(FOLLOWER, fetch_offset)
        self.starts_above_end = follower_start > fetch_offset
        if self.starts_above_end:
            return self._about()
        advance = operations.advance_log_start(self.world.followers[FOLLOWER], follower_start)
        if advance is not None:
            follower = self.world.followers[FOLLOWER].apply(advance)
            self.world.followers[FOLLOWER] = follower
        return self._about()

    def op_reset_replica_state(self, leader_end_offset, is_new_leader, is_follower_in_sync):
        self._grow(leader_end_offset)
        self.memory.reset(
            leader_end_offset,
            self.world.now_ms,
            is_new_leader=is_new_leader,
            is_in_sync=is_follower_in_sync,
        )
        if is_new_leader:
            self.world.followers.clear()
            self.leader.fetched_epochs.clear()
        return self._about()

    def op_snapshot(self):
        return self._about()

    def op_is_caught_up(self, leader_end_offset, lag_ms):
        self._grow(leader_end_offset)
        self.leader.lag_ms_max = lag_ms
        self.world.configure("replica.lag.time.max.ms", lag_ms)
        if not self.leader._lag_is_told_alike():
            return Answer(left_out={"": LAG})
        report = self.world.report()
        return FOLLOWER not in lagging_members(self.world.image, self.world.partition, report)

    def _grow(self, end):
        """Have the leader's log end at `end`."""
        missing = end - self.world.leader.log_end_offset
        if missing < 0:
            raise CutOffError("leader-log-never-shrinks")
        begin = self.world.leader.log_end_offset
        new = [batch_of(begin + each, 0, appended_at_ms=self.seen_at_ms) for each in range(missing)]
        self.world.leader = extended(self.world.leader, new)
        self.seen_at_ms = self.world.now_ms

    def _about(self):
        about = self.leader._about(FOLLOWER)
        facts = {
            "last_caught_up_ms": self.memory.last_caught_up_ms,
            "last_fetch_leader_log_end_offset": self.memory.last_fetch_leader_end,
            "last_fetch_ms": self.memory.last_fetch_ms,
        }
        left_out = dict.fromkeys(FETCH_TIMES, LAG) | {"broker_epoch": "brokers-are-roots"}
        if FOLLOWER not in self.world.followers:
            left_out |= dict.fromkeys(ENDS, "nothing-is-remembered")
        elif self.starts_above_end:
            left_out["log_start_offset"] = "log-starts-within-itself"
        return Answer(about, left_out, facts)

    def expected(self):
        return self._about()
