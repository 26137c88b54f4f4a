"""Files 04: the ISR and the high watermark as a leader's fetches move them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kafka_on_spark.config import check_acks
from kafka_on_spark.controller.high_watermark import (
    advance_high_watermark,
    is_under_min_isr,
    min_isr,
)
from kafka_on_spark.controller.isr import alter_isr
from kafka_on_spark.controller.reports import PartitionReport, ReplicaReport
from kafka_on_spark.errors import InvalidRequiredAcksError
from kafka_on_spark.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch
from kafka_on_spark.log.epochs import EpochHistory
from kafka_on_spark.log.fetch_checks import check_fetch, check_request
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import (
    MetadataBatch,
    PartitionChangeRecord,
    Record,
    Stamp,
)
from tests.builders import KEY, TOPIC_ID, broker, image_of, partition, seen
from tests.conformance.running import Adapter, NotApplicableError, kafka_name

LEADER = BrokerId(1)
STATES = {
    "active": BrokerState.ACTIVE,
    "fenced": BrokerState.FENCED,
    "shutting_down": BrokerState.DRAINING,
}


class Leader(Adapter):
    """A partition as its leader's broker sees it: the register, and what fetches have shown.

    A fetch at an offset says that the follower's log ends there. What Kafka proposes and waits
    for is one commit here, so a proposal is compared with the decision, and the controller's
    "success" with its commit; whatever Kafka does between the two does not apply.
    """

    def __init__(self, setup: Mapping[str, Any]) -> None:
        super().__init__(setup)
        if setup.get("role", "leader") != "leader":
            raise NotApplicableError("commands_are_the_register")
        if "leader_log_end_offset" in setup or "leader_epoch" not in setup:
            raise NotApplicableError("lag_is_of_the_first_missing_batch")
        self._now_ms = setup.get("now_ms", 100_000)
        self._began_ms = self._now_ms
        self._end = setup["log_end_offset"]
        self._appended: list[tuple[int, int]] = [(0, self._now_ms)]
        self._isr_was_told = False
        self._batches: list[tuple[int, int]] = []
        self._epoch_start = setup.get("leader_epoch_start_offset", 0)
        self._ends: dict[int, int] = {}
        self._pending: PartitionChangeRecord | None = None
        replicas = [LEADER, *(each for each in setup["replicas"] if each != LEADER)]
        registration = partition(
            " ".join(map(str, replicas)),
            " ".join(map(str, setup["isr"])),
            leader=LEADER,
            epoch=setup["leader_epoch"],
            version=setup.get("partition_epoch", 0),
            hw=setup["high_watermark"],
            hw_epoch=0 if setup["high_watermark"] else None,
            leo=self._end,
            start=min(setup.get("log_start_offset", 0), setup["high_watermark"]),
        )
        self._image = image_of(
            registration,
            ids=" ".join(map(str, range(1, max(replicas) + 3))),
            configs={
                "min.insync.replicas": str(setup.get("min_isr", 1)),
            },
        )
        lag_ms_max = str(setup.get("replica_lag_time_max_ms", 30_000))
        self._image = replace(self._image, configs={"replica.lag.time.max.ms": lag_ms_max})

    def _partition(self) -> PartitionRegistration:
        found = self._image.partition(KEY)
        assert found is not None
        return found

    def _report(self) -> PartitionReport:
        registration = self._partition()
        followers = tuple(
            self._seen(replica, end)
            for replica, end in self._ends.items()
            if replica in registration.replicas
        )
        return PartitionReport(
            key=KEY,
            leader_epoch=registration.leader_epoch,
            partition_epoch=registration.partition_epoch,
            leader=self._seen(LEADER, self._end),
            epoch_start_offset=Offset(self._epoch_start),
            uncommitted_since_ms=self._missing_since(registration.high_watermark),
            followers=followers,
            now_ms=self._now_ms,
        )

    def _seen(self, replica: int, end: int) -> ReplicaReport:
        return seen(
            replica,
            end,
            fence=self._partition().leader_epoch,
            missing_since_ms=self._missing_since(end),
        )

    def _missing_since(self, offset: int) -> int | None:
        if offset >= self._end:
            return None
        return next(time for base, time in reversed(self._appended) if base <= offset)

    def _commit(self, record: Record) -> None:
        batch = MetadataBatch(
            base_offset=self._image.offset, stamp=Stamp(time_ms=self._now_ms), records=(record,)
        )
        self._image = self._image.replay(batch)

    def _advance(self) -> None:
        record = advance_high_watermark(self._image, self._report())
        if record is not None and record.high_watermark is not None:
            outside = [
                end
                for replica, end in self._ends.items()
                if replica not in self._partition().isr and end < record.high_watermark
            ]
            if outside:
                raise NotApplicableError("the_high_watermark_waits_for_the_isr_only")
        if record is not None:
            self._commit(record)

    def _decide_isr(self) -> None:
        if self._pending is None:
            self._pending = alter_isr(self._image, self._report())

    def _stop_if_pending(self) -> None:
        if self._pending is not None:
            raise NotApplicableError("no_pending_alter_partition")

    def _isr_after(self) -> list[int]:
        change = None if self._pending is None else self._pending.change.isr
        return sorted(change if isinstance(change, frozenset) else self._partition().isr)

    def state(self) -> Mapping[str, Any]:
        registration = self._partition()
        isr = sorted(registration.isr)
        after = self._isr_after()
        answer: dict[str, Any] = {
            "high_watermark": registration.high_watermark,
            "isr": isr,
            "maximal_isr": sorted({*isr, *after}),
            "pending": after if self._pending else None,
            "in_flight": self._pending is not None,
            "outstanding_requests": int(self._pending is not None),
            "partition_epoch": registration.partition_epoch,
            "leader_epoch": registration.leader_epoch,
            "under_min_isr": is_under_min_isr(self._image, TOPIC_ID, registration),
            "at_min_isr": len(isr) == min_isr(self._image, TOPIC_ID, registration),
            "under_replicated": len(isr) < len(registration.replicas),
            "out_of_sync": self.out_of_sync_replicas() if self._pending is None else [],
            "remote_replicas": sorted(each for each in registration.replicas if each != LEADER),
        }
        for replica, end in self._ends.items():
            answer[f"replica_{replica}"] = {"log_end_offset": end}
        return answer

    def follower_fetch(
        self,
        replica: int,
        offset: int,
        broker_epoch: int | None = None,
        current_leader_epoch: int | None = None,
        last_fetched_epoch: int | None = None,
    ) -> Any:
        self._stop_if_pending()
        if broker_epoch is not None:
            raise NotApplicableError("disks_are_told_by_directory_and_uuid")
        if last_fetched_epoch is not None or replica not in self._partition().replicas:
            raise NotApplicableError("orders_name_the_replica")
        self._check(current_leader_epoch)
        check_fetch(
            EpochHistory(),
            log_start_offset=Offset(0),
            log_end_offset=Offset(self._end),
            fetch_offset=Offset(offset),
            last_fetched_epoch=None,
        )
        if offset < self._ends.get(replica, 0):
            raise NotApplicableError("a_follower_never_goes_back_under_one_epoch")
        if any(base < offset < base + count for base, count in self._batches):
            raise NotApplicableError("followers_end_with_a_whole_batch")
        self._ends[replica] = offset
        self._advance()
        self._expand()
        return {"error": "NONE", "log_end_offset": offset, **self.state()}

    def _expand(self) -> None:
        """Decide; who lags is another step's business (maybe_shrink_isr)."""
        report = self._report()
        prompt = replace(report, now_ms=self._began_ms)
        self._pending = alter_isr(self._image, prompt)

    def _check(self, current_leader_epoch: int | None) -> None:
        named = None if current_leader_epoch is None else LeaderEpoch(current_leader_epoch)
        check_request(self._partition().leader_epoch, named, is_leader=True, needs_leader=True)

    def append_leader(self, count: int) -> Any:
        self._stop_if_pending()
        self._appended.append((self._end, self._now_ms))
        self._batches.append((self._end, count))
        self._end += count
        self._advance()
        return self.state()

    def advance_clock(self, ms: int) -> None:
        self._now_ms += ms

    def broker_state(self, replica: int, state: str) -> None:
        brokers = {**self._image.brokers, BrokerId(replica): broker(replica, state=STATES[state])}
        self._image = replace(self._image, brokers=brokers)

    def maybe_shrink_isr(self) -> Any:
        self._stop_if_pending()
        self._stop_if_lag_counts()
        self._decide_isr()
        return self.state()

    def out_of_sync_replicas(self) -> list[int]:
        self._stop_if_pending()
        self._stop_if_lag_counts()
        record = alter_isr(self._image, self._report())
        if record is None or not isinstance(record.change.isr, frozenset):
            return []
        return sorted(self._partition().isr - record.change.isr)

    def _stop_if_lag_counts(self) -> None:
        """Kafka counts a follower's time since it was caught up; here it is the missing batch's."""
        behind = [
            replica
            for replica in self._partition().isr
            if replica != LEADER and self._ends.get(replica) != self._end
        ]
        if behind and (self._now_ms > self._began_ms or self._isr_was_told):
            raise NotApplicableError("lag_is_of_the_first_missing_batch")

    def alter_partition_success(self, partition_epoch: int) -> Any:
        if self._pending is None or partition_epoch < self._partition().partition_epoch:
            raise NotApplicableError("no_pending_alter_partition")
        registration = replace(
            self._partition(),
            isr=frozenset(BrokerId(each) for each in self._isr_after()),
            partition_epoch=PartitionEpoch(partition_epoch),
        )
        self._pending = None
        self._isr_was_told = True
        self._register(registration)
        self._advance()
        return self.state()

    def alter_partition_error(self, error: str) -> None:
        raise NotApplicableError("no_pending_alter_partition")

    def _register(self, registration: PartitionRegistration) -> None:
        topic = replace(self._image.topics[TOPIC_ID], partitions={0: registration})
        self._image = replace(self._image, topics={TOPIC_ID: topic})

    def make_leader(
        self,
        isr: list[int],
        replicas: list[int],
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        adding: list[int] | None = None,
    ) -> Any:
        self._stop_if_pending()
        before = self._partition()
        epoch = before.leader_epoch if leader_epoch is None else leader_epoch
        version = before.partition_epoch if partition_epoch is None else partition_epoch
        if epoch > before.leader_epoch or adding or len(replicas) != len(before.replicas):
            raise NotApplicableError("commands_are_the_register")
        if version < before.partition_epoch:
            raise NotApplicableError("commands_are_the_register")
        left = before.isr - frozenset(isr)
        if any(each in self._ends for each in left):
            raise NotApplicableError("the_high_watermark_waits_for_the_isr_only")
        self._isr_was_told = True
        self._register(
            replace(
                before,
                isr=frozenset(BrokerId(each) for each in isr),
                partition_epoch=PartitionEpoch(version),
            )
        )
        self._advance()
        return {"new_leader": False, **self.state()}

    def load(self) -> None:
        raise NotApplicableError("replicas_keep_no_high_watermark")

    def checkpoint(self) -> None:
        raise NotApplicableError("replicas_keep_no_high_watermark")

    def read_checkpoint(self) -> None:
        raise NotApplicableError("replicas_keep_no_high_watermark")

    def update_high_watermark(self, offset: int) -> None:
        raise NotApplicableError("replicas_keep_no_high_watermark")

    def produce(self, acks: int, count: int = 1) -> Any:
        self._stop_if_pending()
        try:
            check_acks(acks)
        except InvalidRequiredAcksError as error:
            return {"error": kafka_name(error), "log_end_offset": self._end}
        raise NotApplicableError("appends_wait_by_fetching")

    def produce_status(self) -> None:
        raise NotApplicableError("appends_wait_by_fetching")

    def consumer_fetch(self, **arguments: Any) -> None:
        raise NotApplicableError("any_isr_member_serves")

    def fetch(self, **arguments: Any) -> None:
        raise NotApplicableError("any_isr_member_serves")

    def stop_replica(self, **arguments: Any) -> None:
        raise NotApplicableError("commands_are_the_register")

    def apply_record(self, **arguments: Any) -> None:
        raise NotApplicableError("commands_are_the_register")

    def partition_view(self, **arguments: Any) -> None:
        raise NotApplicableError("commands_are_the_register")

    def stopped_fetchers(self) -> None:
        raise NotApplicableError("commands_are_the_register")

    def make_follower(self, **arguments: Any) -> None:
        raise NotApplicableError("commands_are_the_register")

    def update_fetch_state(self, **arguments: Any) -> None:
        raise NotApplicableError("lag_is_of_the_first_missing_batch")

    def reset_replica_state(self, **arguments: Any) -> None:
        raise NotApplicableError("lag_is_of_the_first_missing_batch")

    def is_caught_up(self, **arguments: Any) -> None:
        raise NotApplicableError("lag_is_of_the_first_missing_batch")

    def snapshot(self) -> None:
        raise NotApplicableError("lag_is_of_the_first_missing_batch")
