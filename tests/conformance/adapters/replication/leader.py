"""Kinds of file 04 about a leader and its followers: high watermark, ISR, what fetches change.

A follower's fetch from an offset is a report that its log ends there. Kafka's leader proposes a
change of the ISR and waits for the controller; here it is decided and committed in one step. So
"proposed" is our decision, "answered with success" its commit, and in between nobody decides.
"""

from dataclasses import replace

from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, PartitionEpoch
from kafka_on_spark.controller.fetch_plan import check_request, plan_fetches
from kafka_on_spark.controller.isr import lagging_members, may_join
from kafka_on_spark.log.truncation import check_fetch, epoch_history
from kafka_on_spark.metadata.image import MetadataImage, snapshot_records
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import BrokerChangeRecord, BrokerState
from kafka_on_spark.metadata.reports import is_at_min_isr, is_under_min_isr
from tests.builders import KEY, disk
from tests.conformance.adapters.replication.leader_grounds import Grounds
from tests.conformance.kafka_memory import FetchTimes
from tests.conformance.logs import batch_of, entries_of, log_of
from tests.conformance.runner import Answer, CutOffError
from tests.conformance.world import World, adopted

PENDING = "pending-alter-partition"
MAXIMAL = "high-watermark-waits-for-the-isr-alone"
LAG = "lag-by-append-time"
ONE_ORDER = "metadata-in-one-order"

FETCH_TIMES = ("last_caught_up_ms", "last_fetch_leader_log_end_offset", "last_fetch_ms")
STATES = {
    "active": BrokerState.ACTIVE,
    "fenced": BrokerState.FENCED,
    "shutting_down": BrokerState.DRAINING,
}
# The controller's answers after which Kafka's leader takes its proposal back, and those after
# which it proposes the same again at once. After all others it waits for new metadata.
TAKEN_BACK = {"INELIGIBLE_REPLICA", "OPERATION_NOT_ATTEMPTED"}
WAITED_FOR = {
    "UNKNOWN_TOPIC_OR_PARTITION",
    "UNKNOWN_TOPIC_ID",
    "FENCED_LEADER_EPOCH",
    "INVALID_UPDATE_VERSION",
    "INVALID_REQUEST",
    "NEW_LEADER_ELECTED",
}


class Leader(Grounds):
    """A partition on the broker that leads (or follows) it, and what it has seen of the others."""

    def __init__(
        self,
        local=1,
        role="leader",
        leader=None,
        leader_epoch=0,
        partition_epoch=0,
        replicas=(1,),
        isr=None,
        log_start_offset=0,
        log_end_offset=0,
        leader_log_end_offset=None,
        leader_epoch_start_offset=0,
        high_watermark=0,
        min_isr=1,
        replica_lag_time_max_ms=30000,
        now_ms=100_000,
        broker_epochs=None,
        checkpointed_high_watermark=None,
        note=None,
    ):
        end = log_end_offset if leader_log_end_offset is None else leader_log_end_offset
        older = max(0, leader_epoch - 1)
        # Vectors do not say when their first records were appended: as the leadership begins.
        batches = [
            batch_of(
                offset,
                older if offset < leader_epoch_start_offset else leader_epoch,
                appended_at_ms=now_ms,
            )
            for offset in range(log_start_offset, end)
        ]
        self.world = World(
            log_of(batches, start=log_start_offset, fence=leader_epoch),
            local=local,
            replicas=replicas,
            isr=isr,
            leader_id=local if role == "leader" else leader,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            high_watermark=checkpointed_high_watermark or high_watermark,
            now_ms=now_ms,
            configs={
                "min.insync.replicas": min_isr,
                "replica.lag.time.max.ms": replica_lag_time_max_ms,
            },
        )
        self.lag_ms_max = replica_lag_time_max_ms
        self.broker_epochs = {int(each): epoch for each, epoch in (broker_epochs or {}).items()}
        self.fetched_epochs: dict[int, int] = {}
        self.memory: dict[int, FetchTimes] = {}
        self.proposal: frozenset[int] | None = None
        self.is_outstanding = self.is_in_limbo = False
        self.snapshot = []
        self._begin(is_new_leader=True)
        if leader_log_end_offset is not None:  # IsrExpirationTest: caught up when it began
            for each in self.world.partition.isr - {self.world.local}:
                self.memory[each] = FetchTimes(0, now_ms, 0, now_ms)
                self.world.see_follower(each, 0)

    def op_follower_fetch(
        self, replica, offset, broker_epoch=None, current_leader_epoch=None, note=None
    ):
        check_request(
            self.world.partition,
            self.world.local,
            leader_epoch=current_leader_epoch,
            fetched_by=BrokerId(replica),
        )
        check_fetch(self.world.leader, offset)
        # With a note: it was the registered one's when it came, and another's right after.
        self._see_incarnation(replica, broker_epoch, was_valid=note is not None)
        before = self.memory[replica].log_end_offset
        self.world.see_follower(replica, offset)
        end_offset = self.world.followers[replica].log_end_offset
        self.memory[replica].fetched(end_offset, self._end(), self.world.now_ms)
        self._propose(self._joined_by(replica))
        if end_offset != before:
            self._decide_high_watermark()
        answer = self._state()
        answer.value["log_end_offset"] = self.world.report_of(replica).log_end_offset
        answer.facts["last_caught_up_ms"] = self.memory[replica].last_caught_up_ms
        return answer

    def op_append_leader(self, count):
        self.world.append(count)
        self._decide_high_watermark()
        return self._state()

    def op_advance_clock(self, ms):
        self.world.now_ms += ms

    def op_broker_state(self, replica, state):
        broker = self.world.image.brokers[replica]
        self.world.commit(
            BrokerChangeRecord(
                broker_id=broker.broker_id,
                broker_epoch=broker.broker_epoch,
                broker_state=STATES[state],
            )
        )

    def op_maybe_shrink_isr(self):
        if self._may_propose():
            if not self._lag_is_told_alike():
                raise CutOffError(LAG)
            lagging = lagging_members(self.world.image, self.world.partition, self.world.report())
            self._propose(self.world.partition.isr - lagging.keys() if lagging else None)
        return self._state()

    def op_out_of_sync_replicas(self):
        if self.proposal is not None:
            return Answer(left_out={"": PENDING})
        if not self._lag_is_told_alike():
            return Answer(left_out={"": LAG})
        return self._out_of_sync()

    def op_alter_partition_success(self, partition_epoch):
        if self.is_in_limbo or self.proposal is None:  # an answer to what is no longer asked
            self.is_outstanding = False
            return self._state()
        if partition_epoch < self.world.partition.partition_epoch:
            raise CutOffError(ONE_ORDER)
        self.world.change(PartitionChange(isr=frozenset(self.proposal)))
        self._set_partition_epoch(partition_epoch)
        self._forget_proposal()
        self.is_outstanding = False
        self._decide_high_watermark()
        return self._state()

    def op_alter_partition_error(self, error):
        is_asked = self.proposal is not None and not self.is_in_limbo
        if error in TAKEN_BACK | WAITED_FOR or not is_asked:
            self.is_outstanding = False
        if is_asked and error in TAKEN_BACK:
            self._forget_proposal()
        elif is_asked and error in WAITED_FOR:
            self.is_in_limbo = True
        return self._state()

    def op_make_leader(
        self, isr, replicas, leader_epoch=None, partition_epoch=None, adding=(), removing=()
    ):
        known = self.world.partition
        epoch = known.leader_epoch if leader_epoch is None else leader_epoch
        version = known.partition_epoch if partition_epoch is None else partition_epoch
        if version < known.partition_epoch:
            # The metadata log has one order: nothing older ever comes later.
            state = self._state()
            state.left_out |= dict.fromkeys(state.value, ONE_ORDER) | {"new_leader": ONE_ORDER}
            return state
        is_new_leader = known.leader != self.world.local
        self._assign(isr, replicas, adding, removing, leader=self.world.local)
        self.world.register(
            replace(
                self.world.partition,
                leader_epoch=LeaderEpoch(epoch),
                partition_epoch=PartitionEpoch(version),
            )
        )
        self._forget_proposal()
        if is_new_leader or epoch > known.leader_epoch:
            self._begin(is_new_leader=is_new_leader)
        else:
            self._track_replicas()
        self._decide_high_watermark()
        answer = self._state()
        answer.value["new_leader"] = is_new_leader
        return answer

    def op_make_follower(self, leader, leader_epoch, partition_epoch, isr, replicas):
        before = self.world.leader
        self.world.leader = adopted(before, leader_epoch)
        self._assign(isr, replicas, (), (), leader=BrokerId(leader))
        self.world.register(
            replace(
                self.world.partition,
                leader_epoch=LeaderEpoch(leader_epoch),
                partition_epoch=PartitionEpoch(partition_epoch),
            )
        )
        self._forget_proposal()
        return {"changed": self.world.leader is not before}

    def op_state(self):
        return self._state()

    op_snapshot = op_state

    def op_load(self):
        self.op_checkpoint()
        self._read_snapshot()

    def op_checkpoint(self):
        self.snapshot = snapshot_records(self.world.image)

    def op_read_checkpoint(self):
        return self._read_snapshot().partition(KEY).high_watermark

    def _read_snapshot(self):
        world = World(self.world.leader)
        world.image = MetadataImage()
        world.commit(*self.snapshot)
        return world.image

    def op_update_high_watermark(self, offset):
        for each in self.world.partition.isr - {self.world.local}:
            self.world.see_follower(each, min(offset, self._end()))
        self._decide_high_watermark()

    # What the product says.

    def _state(self):
        world, partition = self.world, self.world.partition
        is_leader = partition.leader == world.local
        report = world.report()
        history = entries_of(epoch_history(world.leader))
        value = {
            "high_watermark": partition.high_watermark,
            "isr": sorted(partition.isr),
            "maximal_isr": sorted(partition.isr),
            "pending": None if self.proposal is None else sorted(self.proposal),
            "in_flight": self.proposal is not None,
            "partition_epoch": partition.partition_epoch,
            "leader_epoch": partition.leader_epoch,
            "leader": partition.leader,
            "replicas": list(partition.replicas),
            "under_min_isr": is_under_min_isr(world.image, KEY.topic_id, partition),
            "at_min_isr": is_at_min_isr(world.image, KEY.topic_id, partition),
            "under_replicated": partition.is_under_replicated,
            "remote_replicas": sorted(
                order.follower.broker_id
                for order in plan_fetches(world.image, KEY, is_inspection=True)
                if order.leader.broker_id == world.local and order.follower is not None
            ),
            "leader_epoch_start_offset": report.epoch_start_offset,
            "latest_epoch_entry": history[-1] if history else None,
            "out_of_sync": self._out_of_sync(),
        }
        left_out = dict.fromkeys(FETCH_TIMES, LAG)
        if self.proposal is not None:
            left_out["maximal_isr"] = MAXIMAL
        if self.is_in_limbo or (self.is_outstanding and self.proposal is None):
            left_out |= dict.fromkeys(("pending", "in_flight"), PENDING)
        if not is_leader:
            left_out |= dict.fromkeys(("isr", "under_replicated"), "one-view-of-the-isr")
        if not self._lag_is_told_alike():
            left_out["out_of_sync"] = LAG
        left_out["broker_epoch"] = "brokers-are-roots"
        for replica in partition.replicas:
            value[f"replica_{replica}"] = self._about(replica)
            if replica not in world.followers:
                left_out[f"replica_{replica}"] = "nothing-is-remembered"
        return Answer(value, left_out)

    def _about(self, replica):
        if replica not in self.world.followers:
            return {}
        report = self.world.report_of(BrokerId(replica))
        return {
            "log_start_offset": self.world.followers[BrokerId(replica)].log_start_offset,
            "log_end_offset": report.log_end_offset,
        }

    def _out_of_sync(self):
        report = self.world.report()
        return sorted(lagging_members(self.world.image, self.world.partition, report))

    def _joined_by(self, replica):
        """Return the ISR with `replica`, if our rule lets it join."""
        seen = self.world.report_of(BrokerId(replica))
        partition = self.world.partition
        if seen.broker_id in partition.isr:
            return None
        if not may_join(self.world.image, partition, self.world.report(), seen):
            return None
        return partition.isr | {BrokerId(replica)}

    def _may_propose(self):
        return self.proposal is None and not self.is_outstanding

    def _propose(self, isr):
        if isr is not None and self._may_propose():
            self.proposal, self.is_outstanding = isr, True

    def _forget_proposal(self):
        self.proposal, self.is_in_limbo = None, False

    def _decide_high_watermark(self):
        if self.world.partition.leader != self.world.local:
            return
        if self._kafka_waits_for_others():
            raise CutOffError(MAXIMAL)
        self.world.decide_high_watermark()

    def _begin(self, *, is_new_leader):
        """The leadership begins: the leader's table is fenced, and so are those of known followers."""
        partition = self.world.partition
        self.world.leader = adopted(self.world.leader, partition.leader_epoch)
        if is_new_leader:
            self.world.followers.clear()
            self.fetched_epochs.clear()
        self.world.followers = {
            each: adopted(state, partition.leader_epoch)
            for each, state in self.world.followers.items()
        }
        self._track_replicas()
        for each, memory in self.memory.items():
            memory.reset(
                self._end(),
                self.world.now_ms,
                is_new_leader=is_new_leader,
                is_in_sync=each in partition.isr,
            )

    def _track_replicas(self):
        others = set(self.world.partition.replicas) - {self.world.local}
        self.memory = {each: self.memory.get(each, FetchTimes()) for each in others}
        self.world.followers = {
            each: state for each, state in self.world.followers.items() if each in others
        }

    def _set_partition_epoch(self, partition_epoch):
        epoch = PartitionEpoch(partition_epoch)
        self.world.register(replace(self.world.partition, partition_epoch=epoch))

    def _assign(self, isr, replicas, adding, removing, *, leader):
        change = PartitionChange(
            replicas=tuple(replicas),
            replica_uuids=tuple(f"uuid{each}" for each in replicas),
            directories=tuple(disk(each) for each in replicas),
            isr=frozenset(isr),
            adding_replicas=tuple(adding),
            removing_replicas=tuple(removing),
            leader=leader,
        )
        self.world.change(change)

    def resolve(self, expectation):
        if expectation == "== high_watermark":
            return self.world.high_watermark
        return expectation

    def expected(self):
        return self._state()
