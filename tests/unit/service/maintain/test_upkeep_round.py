"""Rounds of upkeep: the share of a round, what is left of it, throttles, and all at once."""

import pickle
from dataclasses import replace
from itertools import pairwise

import pytest

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.compaction import Compaction
from kafka_on_spark.metadata.records import BrokerChangeRecord, ConfigRecord, RemoveTopicRecord
from kafka_on_spark.service.maintain.replica_upkeep import (
    ATTEMPTS_MAX,
    WORKS,
    apply_log_start,
    run_upkeep,
)
from kafka_on_spark.service.maintain.root_upkeep import RootWork
from kafka_on_spark.service.maintain.upkeep_plan import PART_MS, TURN_MS
from kafka_on_spark.service.maintain.upkeep_round import UPKEEP, ReplicaUpkeep
from kafka_on_spark.service.maintain.upkeep_work import (
    KIND_PART,
    VISIT_TIMES_MAX,
    UpkeepPorts,
    UpkeepResult,
    WorkDone,
)
from kafka_on_spark.service.replicate.sweep_progress import SweepProgress
from tests.builders import TOPIC_ID
from tests.fakes import Fault, MemoryReplicaFolders, MemorySweepHints
from tests.unit.service.rounds import Rounds

INTERVAL_MS = 60_000


class Worked(Rounds):
    """Rounds of upkeep on replicas in memory; `work` says what each order does, and for how long."""

    def __init__(self, partition_count=1, **options):
        super().__init__(partition_count, **options)
        self.done = []
        self.work = lambda order: WorkDone()
        self.took_ms = 1.0
        self.side_by_side = 1
        self.moved_bytes = 0
        self.upkeep_hints = MemorySweepHints()
        self.upkeep = self.new_upkeep()

    def new_upkeep(self, **options):
        progress = SweepProgress(
            self.clock, self.upkeep_hints, random_below=lambda below: 0, pace=UPKEEP
        )
        return ReplicaUpkeep(
            self.metadata, self.clock, progress=progress, run_upkeep=self.run_orders, **options
        )

    def run_orders(self, orders):
        self.done += orders
        self.clock.advance(int(self.took_ms * len(orders) / self.side_by_side))
        return [
            UpkeepResult(
                key=order.key,
                broker_id=order.address.broker_id,
                done=(("work", self.work(order)),),
                took_ms=self.took_ms,
                moved_bytes=self.moved_bytes,
            )
            for order in orders
        ]

    def share(self, after_ms=INTERVAL_MS):
        """Do a round `after_ms` after the last one; return the visited partitions."""
        self.clock.advance(after_ms)
        self.done = []
        self.report = self.upkeep.run_share()
        return sorted({order.key.partition for order in self.done})

    def maintain(self):
        return self.upkeep.run_all()

    def ports(self):
        return UpkeepPorts(
            replicas=self.replicas,
            segments=self.segments,
            folders=MemoryReplicaFolders(self.roots),
            compactor=None,
            clock=self.clock,
        )

    def configure(self, configs):
        self.submit(
            [
                ConfigRecord(topic_id=None, config_name=name, config_value=value)
                for name, value in configs.items()
            ]
        )


def begun(partition_count=1, *, cluster=None, **options):
    """Return a cluster whose first round was a moment ago; `cluster`: its settings."""
    worked = Worked(partition_count, **options)
    worked.configure(cluster or {})
    worked.share(0)
    return worked


def test_the_first_round_of_a_cluster_owes_nothing():
    worked = Worked(4)

    assert worked.share() == []
    assert worked.share() == [0, 1, 2, 3]


def test_a_round_visits_as_large_a_part_as_the_time_since_the_last_is_of_the_interval():
    worked = begun(10)

    visited = [worked.share(INTERVAL_MS // 4) for _ in range(4)]

    assert sorted(each for part in visited for each in part) == list(range(10))
    assert max(map(len, visited)) <= 3


def test_each_created_replica_on_a_broker_that_is_online_has_an_order():
    worked = begun()
    worked.share()

    assert [order.address.broker_id for order in worked.done] == [1, 2, 3]
    assert [order.is_of_leader for order in worked.done] == [True, False, False]
    assert all(order.image_offset == worked.metadata.image.offset for order in worked.done)
    assert pickle.loads(pickle.dumps(worked.done[0])) == worked.done[0]


def test_a_process_that_ends_is_followed_by_one_that_goes_on():
    worked = begun(8)
    first = worked.share(INTERVAL_MS // 2)
    worked.upkeep = worked.new_upkeep()

    second = worked.share(INTERVAL_MS // 2)

    assert first
    assert sorted({*first, *second}) == list(range(8))
    assert len(first) < 8


def test_what_is_left_is_visited_first_in_the_next_round():
    worked = begun(8)
    worked.work = lambda order: WorkDone(count=1, is_left=order.key.partition == 3)
    worked.share()
    assert worked.report.is_left

    assert worked.share(INTERVAL_MS // 8)[:1] == [3] or worked.done[0].key.partition == 3


def test_an_idle_partition_is_not_visited_again_before_something_may_be_due():
    worked = begun(configs={"file.delete.delay.ms": "600000"})
    assert worked.share() == [0]

    assert [worked.share() for _ in range(3)] == [[], [], []]

    worked.append(0, "a")
    assert worked.share() == [0]
    assert worked.share() == []
    assert worked.share(600_000) == [0]


def test_a_partition_is_visited_again_when_a_result_says_so():
    worked = begun(configs={"file.delete.delay.ms": "3600000"})
    worked.work = lambda order: WorkDone(due_in_ms=3 * INTERVAL_MS)
    assert worked.share() == [0]

    assert [worked.share() for _ in range(3)] == [[], [], [0]]


def test_a_failed_replica_is_visited_again():
    worked = begun()
    worked.work = lambda order: WorkDone().failed(KafkaStorageError("away"))
    worked.share()
    assert [str(row) for row in worked.report.rows] == [
        f"orders-0 on broker {each}: work: KafkaStorage: away" for each in (1, 2, 3)
    ]

    assert worked.share() == [0]


def test_a_share_of_0_leaves_all_to_maintain():
    worked = begun(cluster={"log.cleaner.share": "0"})

    assert worked.share() == []
    assert worked.upkeep.run_all().visited == 3


def test_a_round_takes_no_more_than_its_share_of_the_time():
    worked = begun(2000, cluster={"log.cleaner.share": "0.01"})
    worked.took_ms = 10.0

    worked.share(INTERVAL_MS)

    # 600 ms; the first part is small, to learn how long a visit takes
    assert sum(worked.took_ms for _ in worked.done) <= 2 * 600
    assert all(order.work_ms_max <= 600 for order in worked.done)


def test_tasks_side_by_side_count_for_the_time_that_passed():
    alone = begun(2000, cluster={"log.cleaner.share": "0.01"})
    together = begun(2000, cluster={"log.cleaner.share": "0.01"})
    alone.took_ms = together.took_ms = 10.0
    together.side_by_side = 8

    visited = [len(each.share(INTERVAL_MS)) for each in (alone, together)]

    assert visited[1] > 4 * visited[0]


@pytest.mark.parametrize(
    "processor_part, times",
    [
        pytest.param(1.0, 1, id="a core of its own"),
        pytest.param(0.8, 1.25, id="a busy machine"),
        pytest.param(0.1, 2, id="it waits for its disks"),
        pytest.param(7.0, 1, id="others work in the process"),
    ],
)
def test_a_share_is_one_of_processor_time_and_waiting_counts_half(processor_part, times):
    """Or upkeep falls behind where most is to be done: on a machine that is busy with appends."""
    worked = begun(4000, cluster={"log.cleaner.share": "0.1"})
    worked.took_ms = 10.0
    worked.upkeep = worked.new_upkeep(
        processor_ms=lambda: processor_part * worked.clock.monotonic_ms()
    )
    worked.share(0)

    visited = [len(worked.share(INTERVAL_MS)) for _ in range(3)]

    a_round = 0.1 * INTERVAL_MS / (3 * worked.took_ms)  # three replicas each
    assert sum(visited) == pytest.approx(times * 3 * a_round, rel=0.1)


def test_a_piece_of_work_that_took_too_long_is_made_up_for():
    worked = begun(100)
    worked.took_ms = 10_000.0
    assert worked.share(1000)

    assert worked.share(1000) == []
    assert worked.share(1000) == []


def test_each_kind_of_work_has_its_part_of_a_visit_and_none_is_without():
    assert KIND_PART * len(WORKS) == pytest.approx(1)
    assert pytest.approx(1 + (len(WORKS) - 1) * KIND_PART) == VISIT_TIMES_MAX


def test_a_long_visit_is_cut_into_parts_and_each_order_has_all_its_time():
    """A round of cron: a quarter of a minute for one partition that has much to do."""
    worked = begun()
    worked.work = lambda order: WorkDone(count=1, is_left=True)
    worked.took_ms, worked.side_by_side = 1000.0, 3
    parts = []

    worked.clock.advance(INTERVAL_MS)
    worked.done = []
    report = worked.upkeep.run_share(after_part=lambda: parts.append(len(worked.done)))

    assert {order.work_ms_max for order in worked.done} == {TURN_MS}
    assert len(worked.done) == 3 * 5  # 15 s
    most = max(after - before for before, after in pairwise([0, *parts, 15]))
    assert most * VISIT_TIMES_MAX * TURN_MS <= PART_MS
    assert [row.count for row in report.rows] == [5, 5, 5]


def test_an_order_that_gets_on_no_more_does_not_come_again():
    worked = begun()
    worked.work = lambda order: WorkDone(is_left=True)

    worked.share()

    assert len(worked.done) == 3


class SlowRoots:
    """Roots that take `took_ms`, and remember for how long they were let."""

    def __init__(self, worked, took_ms, read_bytes=0):
        self.worked, self.took_ms, self.read_bytes, self.let = worked, took_ms, read_bytes, []
        self.outcomes = {}

    def run_share(self, work_ms_max):
        self.let.append(work_ms_max)
        self.worked.clock.advance(self.took_ms)
        return RootWork(read_bytes=self.read_bytes, outcomes=self.outcomes)

    def run(self):
        return RootWork(outcomes=self.outcomes)


def test_roots_have_half_of_a_round_s_time_and_replicas_the_rest():
    worked = begun(2000, cluster={"log.cleaner.share": "0.01"})
    worked.took_ms = 10.0
    worked.upkeep._roots = roots = SlowRoots(worked, took_ms=300)

    worked.share(INTERVAL_MS)

    assert roots.let == [300]
    assert sum(worked.took_ms for _ in worked.done) <= 2 * 300


def test_a_long_piece_of_work_on_roots_is_made_up_for():
    worked = begun(10)
    worked.upkeep._roots = roots = SlowRoots(worked, took_ms=4000)

    visited = [worked.share(1000) for _ in range(4)]

    assert len(roots.let) == 1
    assert visited == [[], [], [], []]
    worked.share(INTERVAL_MS)
    assert len(roots.let) == 2


def test_what_is_read_on_roots_keeps_to_the_throttle():
    worked = begun(cluster={"log.cleaner.io.max.bytes.per.second": "1000"})
    worked.upkeep._roots = roots = SlowRoots(worked, took_ms=1, read_bytes=5000)
    worked.share()
    assert len(roots.let) == 1

    worked.share(2000)
    assert len(roots.let) == 1

    worked.share(3000)
    assert len(roots.let) == 2


def test_roots_that_fail_keep_no_replica_from_its_visit(caplog):
    worked = begun()

    class Fails:
        def run_share(self, work_ms_max):
            raise KafkaStorageError("the metadata root may not be cleaned")

    worked.upkeep._roots = Fails()

    assert worked.share() == [0]
    assert "upkeep is left to the next round: the metadata root may not be cleaned" in caplog.text
    assert worked.share() == []


def test_roots_that_can_not_be_cleaned_are_told_by_rounds_and_by_maintain():
    worked = begun()
    worked.upkeep._roots = roots = SlowRoots(worked, took_ms=1)
    told = []
    for outcome, work in [("EIO", worked.share), (None, worked.share), ("away", worked.maintain)]:
        roots.outcomes = {2: outcome}
        work()
        told.append([each.error for each in worked.upkeep._watch.current(worked.metadata.image)])

    assert told == [["EIO"], [], ["away"]]


def test_a_round_of_some_topics_leaves_the_roots():
    worked = begun()
    worked.upkeep._roots = roots = SlowRoots(worked, took_ms=1)
    worked.clock.advance(INTERVAL_MS)

    worked.upkeep.run_share("orders")

    assert roots.let == []


def test_bytes_keep_to_the_throttle():
    worked = begun(cluster={"log.cleaner.io.max.bytes.per.second": "1000"})
    worked.work = lambda order: WorkDone(is_left=True)
    worked.moved_bytes = 1000
    worked.share()
    assert [order.bytes_max for order in worked.done] == [1000, 0, 0]

    worked.share(1000)

    assert [order.bytes_max for order in worked.done] == [0, 0, 0]


def test_maintain_waits_for_the_throttle_and_does_all_that_is_left():
    worked = begun(3, cluster={"log.cleaner.io.max.bytes.per.second": "1000"})
    left = {0: 2, 1: 0, 2: 1}

    def work(order):
        if order.address.broker_id != 1 or not order.bytes_max:
            return WorkDone()
        number = order.key.partition
        left[number] -= left[number] > 0
        return WorkDone(count=1, what="pieces", size_bytes=5, is_left=left[number] > 0)

    worked.work, worked.moved_bytes = work, 1000
    steps = []

    report = worked.upkeep.run_all(after_part=lambda done, total: steps.append((done, total)))

    assert steps == [(0, 3), (3, 3)]
    assert report.visited >= 9
    assert worked.clock.slept_ms


def test_a_dry_run_visits_each_replica_once_and_says_what_is_due():
    worked = Worked(2)
    worked.work = lambda order: WorkDone(count=2, what="pieces", size_bytes=5, is_left=True)

    report = worked.upkeep.run_all(is_dry_run=True)

    assert report.visited == len(worked.done) == 6
    assert all(order.is_dry_run for order in worked.done)
    assert str(report.rows[0]) == "orders-0 on broker 1: work: 2 pieces (5 bytes)"


def test_maintain_goes_on_with_what_has_got_on_without_a_piece_of_work():
    worked = Worked()
    left = {1: 3, 2: 0, 3: 0}

    def work(order):
        broker_id = order.address.broker_id
        left[broker_id] -= left[broker_id] > 0
        return WorkDone(has_advanced=True, is_left=left[broker_id] > 0)

    worked.work = work

    assert not worked.upkeep.run_all().is_left
    assert left[1] == 0


def test_maintain_says_what_it_could_not_look_at_also_in_a_dry_run():
    worked = Worked(2)
    worked.submit(
        [
            BrokerChangeRecord(
                broker_id=broker_id,
                broker_epoch=broker.broker_epoch,
                broker_state=BrokerState.FENCED,
            )
            for broker_id, broker in worked.metadata.image.brokers.items()
            if broker_id == 2
        ]
    )
    of_replicas = tuple(f"orders-{each} on broker 2: the broker is fenced" for each in (0, 1))
    worked.upkeep._roots = SlowRoots(worked, took_ms=1)

    dry = worked.upkeep.run_all(is_dry_run=True)
    done = worked.upkeep.run_all()
    scoped = worked.upkeep.run_all("orders")

    assert (dry.visited, dry.rows, dry.is_left) == (4, (), True)
    assert dry.not_looked_at == scoped.not_looked_at == of_replicas
    assert done.not_looked_at == (*of_replicas, "the root of broker 2: the broker is fenced")
    assert worked.upkeep.run_share().not_looked_at == ()


def alone(**fields):
    """Return two partitions whose leader is alone in the ISR, and must be compacted below 2."""
    compaction = Compaction(compacted_below=Offset(4), cleaned_below=Offset(2))
    given = {"high_watermark": Offset(4), "high_watermark_epoch": 5, "log_end_offset": Offset(4)}
    return Worked(2, **{"isr": "1", **given, "compaction": compaction, **fields})


def finished(worked):
    """Do a round in which nothing else is due; return the orders to compact leaders."""
    worked.share(0)
    return [(each.key.partition, each.address.broker_id, each.works) for each in worked.done]


BOTH = [(0, 1, ("compact",)), (1, 1, ("compact",))]


def test_a_round_compacts_leaders_that_may_not_be_read_before_until_they_are_done():
    worked = alone()
    worked.work = lambda order: WorkDone(count=1, is_left=order.key.partition == 1)

    assert finished(worked) == BOTH
    assert all(each.work_ms_max for each in worked.done)
    worked.work = lambda order: WorkDone().failed(KafkaStorageError("not now"))
    assert finished(worked) == BOTH[1:]
    worked.work = lambda order: WorkDone()
    assert finished(worked) == BOTH[1:]
    assert finished(worked) == []


@pytest.mark.parametrize("is_share", [True, False])
def test_what_is_known_of_deleted_partitions_is_forgotten(is_share):
    worked = alone()
    assert finished(worked) == BOTH
    worked.share()
    known = worked.upkeep._visits._visits, worked.upkeep._finished
    assert [len(each) for each in known] == [2, 2]

    worked.submit([RemoveTopicRecord(topic_id=TOPIC_ID)])
    if is_share:
        worked.share()
    else:
        worked.maintain()

    assert (worked.upkeep._visits._visits, worked.upkeep._finished) == ({}, {})


def test_who_waits_for_it_has_it_done_to_its_end_and_asks_again():
    worked = alone()
    assert finished(worked) == BOTH
    assert finished(worked) == []
    worked.done = []

    worked.upkeep.finish_compaction(worked.keys)

    assert [(each.works, each.work_ms_max) for each in worked.done] == [(("compact",), None)] * 2


def test_followers_that_wait_for_it_are_compacted_with_their_leader_for_a_while():
    worked = alone()
    waiting = {worked.keys[1]: [3]}
    worked.work = lambda order: WorkDone(count=1, is_left=order.is_of_leader)

    assert worked.upkeep.compact_followers(waiting)

    assert [(each.key.partition, each.address.broker_id) for each in worked.done] == [
        (1, 1),
        (1, 3),
    ]
    assert all(each.work_ms_max and each.works == ("compact",) for each in worked.done)
    worked.work = lambda order: WorkDone(count=1, is_left=not order.is_of_leader)
    assert not worked.upkeep.compact_followers(waiting)
    worked.work = lambda order: WorkDone().failed(KafkaStorageError("not now"))
    assert not worked.upkeep.compact_followers(waiting)


def test_a_runner_that_fails_leaves_followers_to_the_next_round():
    worked = alone()

    def fail(orders):
        raise KafkaStorageError("the executors did not do it")

    worked.upkeep._run_upkeep = fail

    assert not worked.upkeep.compact_followers({worked.keys[0]: [3]})


# fmt: off
READ = [
    pytest.param({"isr": "1 2"},                                id="it-is-not-alone-so-it-was-in-sync"),
    pytest.param({"compaction": Compaction()},                  id="nothing-is-compacted"),
    pytest.param({"leader": None},                              id="nobody-leads"),
]
# fmt: on


@pytest.mark.parametrize("fields", READ)
def test_other_leaders_wait_for_their_turn(fields):
    assert finished(alone(**fields)) == []


def test_a_runner_that_fails_fails_no_round():
    worked = begun()

    def fail(orders):
        raise KafkaStorageError("the executors did not do it")

    worked.upkeep._run_upkeep = fail

    assert worked.share() == []


@pytest.mark.parametrize("is_dry_run", [True, False])
def test_a_replica_drops_what_is_below_the_decided_log_start(is_dry_run):
    worked = begun()
    worked.append(0, "a", count=3)
    worked.share()
    order = worked.done[0]
    order = replace(
        order,
        is_dry_run=is_dry_run,
        partition=replace(
            order.partition, high_watermark=3, high_watermark_epoch=5, log_start_offset=2
        ),
    )
    ports = worked.ports()

    result = run_upkeep(order, ports)

    [(kind, work)] = result.done[:1]
    assert (kind, work.count) == ("log start", 2)
    state = worked.replicas.open(order.address).load()
    assert state.log_start_offset == (0 if is_dry_run else 2)


# fmt: off
RACES = [
    pytest.param(1,            2, False, id="lost-once"),
    pytest.param(ATTEMPTS_MAX, 0, True,  id="lost-each-time"),
]
# fmt: on


@pytest.mark.parametrize("conflicts, dropped, is_left", RACES)
def test_a_log_start_that_lost_a_race_is_tried_again_or_left(conflicts, dropped, is_left):
    worked = begun()
    worked.append(0, "a", count=3)
    worked.share()
    state = {"high_watermark": 3, "high_watermark_epoch": 5, "log_start_offset": 2}
    order = replace(worked.done[0], partition=replace(worked.done[0].partition, **state))
    worked.roots["memory://1"].faults.extend([Fault.CONFLICT] * conflicts)

    done = apply_log_start(order, worked.ports(), None)

    assert (done.count, done.is_left) == (dropped, is_left)
    assert worked.replicas.open(order.address).load().log_start_offset == dropped


def test_a_replica_whose_root_does_not_answer_is_a_row():
    worked = begun()
    worked.share()
    worked.roots["memory://1"].is_offline = True
    ports = worked.ports()

    result = run_upkeep(worked.done[0], ports)

    assert len(result.done) == 1
    assert result.done[0][1].error


KINDS = ["log start", "merge", "compact", "clean", "log"]

# fmt: off
AFTER = [
    pytest.param("log start", ["log start", "clean", "log"]),
    pytest.param("merge",     ["log start", "merge", "clean", "log"]),
    pytest.param("compact",   KINDS),
    pytest.param("clean",     ["log start", "merge", "compact", "clean"]),
    pytest.param("log",       KINDS),
]
# fmt: on


@pytest.mark.parametrize("failing, done", AFTER)
def test_after_a_failure_goes_on_what_rests_on_the_table_alone(failing, done):
    """So a full disk gets room, and a file that stays damaged stops no cleaning."""
    worked = begun()
    worked.share()

    def work_of(name):
        def work(order, ports, allowance):
            if name == failing:
                raise KafkaStorageError("no space left")
            return WorkDone(count=1)

        return work

    assert [name for name, _ in WORKS] == KINDS
    result = run_upkeep(worked.done[0], worked.ports(), [(name, work_of(name)) for name in KINDS])

    assert [name for name, _ in result.done] == done
    assert [name for name, work in result.done if work.error] == [failing]


def test_each_kind_of_work_has_a_part_of_a_visit_whatever_those_before_it_take():
    """What is merged anew at each visit would else keep a folder from being cleaned for ever."""
    worked = begun()
    worked.share()
    order = replace(worked.done[0], work_ms_max=100.0, bytes_max=1000)
    seen = []

    def work_of(name):
        def work(order, ports, allowance):
            seen.append((name, allowance.is_time_over, allowance.bytes_left))
            worked.clock.advance(500)
            allowance.charge(1100)
            return WorkDone(count=1, is_left=allowance.is_spent)

        return work

    result = run_upkeep(order, worked.ports(), [(name, work_of(name)) for name in KINDS])

    assert seen == [("log start", False, 1000), *((name, False, 200) for name in KINDS[1:])]
    assert [name for name, _ in result.done] == KINDS
    assert result.is_left
    assert (result.took_ms, result.moved_bytes) == (2500, 5500)


def test_a_throttle_that_lets_nothing_through_gives_no_kind_of_work_anything():
    worked = begun()
    worked.share()
    order = replace(worked.done[0], bytes_max=0)
    left = []

    def work(order, ports, allowance):
        left.append(allowance.bytes_left)
        return WorkDone()

    run_upkeep(order, worked.ports(), [(name, work) for name in KINDS])

    assert left == [0] * len(KINDS)
