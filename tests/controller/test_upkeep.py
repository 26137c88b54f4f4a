"""Rounds of upkeep: whom they visit, within how much of the time, and what the next one gets."""

import pickle
from itertools import pairwise

import pytest

from kafka_on_spark.base.errors import KafkaStorageError, UnknownTopicOrPartitionError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.scheduler import ROOTS_INTERVAL_MS
from kafka_on_spark.controller.upkeep import PART_MS, TASK_MS, raise_epochs_over_orphans
from kafka_on_spark.log.upkeep_work import VISIT_TIMES_MAX, UpkeepResult, WorkDone
from tests.builders import TOPIC_ID, image_of, partition
from tests.controller.worked_rounds import INTERVAL_MS, Worked, begun


def test_the_first_round_of_a_cluster_owes_nothing():
    worked = Worked(4)

    assert worked.share() == []
    assert worked.share() == [0, 1, 2, 3]


def test_each_created_replica_on_a_broker_that_is_online_has_an_order():
    worked = begun()
    worked.share()

    assert [order.address.broker_id for order in worked.done] == [1, 2, 3]
    assert [order.is_of_leader for order in worked.done] == [True, False, False]
    assert pickle.loads(pickle.dumps(worked.done[0])) == worked.done[0]


def test_a_failed_replica_is_visited_again():
    worked = begun()
    worked.work = lambda order: WorkDone().failed(KafkaStorageError("away"))
    worked.share()
    assert [str(row) for row in worked.report.rows] == [
        f"orders-0 on broker {each}: work: KafkaStorage: away" for each in (1, 2, 3)
    ]

    assert worked.share() == [0]


def test_what_was_done_is_counted_by_kind():
    worked = begun()
    worked.work = lambda order: WorkDone(count=2, size_bytes=100, written_bytes=40)
    worked.share()
    worked.work = lambda order: WorkDone().failed(KafkaStorageError("away"))
    worked.maintain()

    found = {each.name: each.value for each in worked.process.counts.metrics()}

    assert found == {"done-count": 6, "done-bytes": 300, "written-bytes": 120, "failures": 3}


class Pass:
    """A pass that finds what it is given, or fails."""

    kind = "retention"

    def __init__(self, found=(), error=None):
        self.found, self.error, self.scopes = list(found), error, []

    def run(self, scope, *, submit=None, **given):
        self.scopes.append(scope)
        if self.error is not None:
            raise self.error
        return self.found


def test_a_decision_that_fails_is_left_and_the_share_goes_on():
    worked = begun()
    work = WorkDone(count=7, what="records too old, or too many")
    result = UpkeepResult(key=KEY, broker_id=1, done=(("compaction", work),))
    failing = Pass(error=KafkaStorageError("the metadata root does not answer"))
    worked.upkeep.passes = (failing, Pass([result]))

    assert worked.share() == [0]

    assert [(row.kind, row.count) for row in worked.report.rows] == [("compaction", 7)]
    assert worked.report.visited == 3
    counted = {
        (each.name, each.labels["kind"]): each.value for each in worked.process.counts.metrics()
    }
    assert counted["failures", "retention"] == 1
    with pytest.raises(KafkaStorageError):
        worked.upkeep.maintain(None)


def test_topics_are_named_or_refused():
    worked = begun()
    worked.upkeep.passes = passes = (Pass(), Pass())

    worked.upkeep.maintain(["orders"])

    assert [each.scopes for each in passes] == [[{TOPIC_ID}], [{TOPIC_ID}] * 3]
    with pytest.raises(UnknownTopicOrPartitionError):
        worked.upkeep.maintain("nowhere")


def test_a_round_takes_no_more_than_its_share_of_the_time():
    worked = begun(2000, cluster={"log.cleaner.share": "0.01"})
    worked.took_ms = 10.0

    worked.share(INTERVAL_MS)

    # 600 ms; the first part is small, to learn how long a visit takes
    assert sum(worked.took_ms for _ in worked.done) <= 2 * 600
    assert all(order.work_ms_max <= 600 for order in worked.done)


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
    worked = begun(800, cluster={"log.cleaner.share": "0.1"})
    worked.took_ms = 50.0
    worked.upkeep = worked.new_upkeep()
    worked.upkeep._processor_ms = lambda: processor_part * worked.clock.monotonic_ms()
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


def test_a_long_visit_is_cut_into_parts_until_the_round_has_had_its_time():
    """A round of cron: a quarter of a minute for one partition that has much to do."""
    worked = begun()
    worked.work = lambda order: WorkDone(count=1, is_left=True)
    worked.took_ms, worked.side_by_side = 1000.0, 3
    parts = []

    worked.clock.advance(INTERVAL_MS)
    worked.done = []
    report = worked.upkeep.run_share(after_part=lambda: parts.append(len(worked.done)))

    assert {order.work_ms_max for order in worked.done} == {TASK_MS}
    assert len(worked.done) == 48  # a third of a second each: 15 s, but for those it is at
    most = max(after - before for before, after in pairwise([0, *parts, 48]))
    assert most * VISIT_TIMES_MAX * TASK_MS <= PART_MS
    assert [row.count for row in report.rows] == [16, 16, 16]


def test_bytes_keep_to_the_throttle():
    worked = begun(cluster={"log.cleaner.io.max.bytes.per.second": "1000"})
    worked.work = lambda order: WorkDone(is_left=True)
    worked.moved_bytes = 1000
    worked.share()
    assert [order.bytes_max for order in worked.done] == [1000, 0, 0]

    worked.share(1000)

    assert [order.bytes_max for order in worked.done] == [0, 0, 0]


KEY = PartitionKey(TOPIC_ID, 0)


def seen(size_bytes, *, broker_id=1, epoch=5):
    return KEY, broker_id, epoch, size_bytes


def decided(*orphans, **fields):
    image = image_of(partition("1 2 3", **fields), configs={"orphan.bytes.max": "100"})
    return raise_epochs_over_orphans(image, orphans)


def test_the_same_leader_begins_a_new_epoch():
    result = decided(seen(101, broker_id=2))

    [record] = result.records
    assert result.response == [KEY]
    assert (record.change.leader, record.leader_epoch, record.partition_epoch) == (1, 6, 10)
    assert record.cause == (
        "broker 2: 101 bytes of files of epoch 5 that no log names, more than orphan.bytes.max 100"
    )


@pytest.mark.parametrize(
    "orphans",
    [
        pytest.param([], id="nothing-was-seen"),
        pytest.param([seen(100)], id="not-too-many"),
        pytest.param([seen(60), seen(60, broker_id=2)], id="of-two-replicas-together"),
        pytest.param([seen(101, epoch=4)], id="seen-under-an-older-epoch"),
    ],
)
def test_the_epoch_stays(orphans):
    assert not decided(*orphans).records


def test_a_partition_without_a_leader_waits_for_its_election():
    assert not decided(seen(101), leader=None, isr="").records


def test_a_round_of_some_topics_leaves_the_roots():
    worked = begun()
    worked.clock.advance(ROOTS_INTERVAL_MS)

    worked.upkeep.run_share("orders")

    assert worked.roots_cleaned == 0


def test_an_order_that_gets_on_no_more_does_not_come_again():
    worked = begun()
    worked.work = lambda order: WorkDone(is_left=True)

    worked.share()

    assert len(worked.done) == 3
