"""What a process has seen of upkeep: what fails, since when, and sums."""

import pytest

from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.ids import BrokerId, PartitionKey
from kafka_on_spark.service.maintain.upkeep_watch import (
    ROOT,
    ROUND,
    UpkeepWatch,
)
from kafka_on_spark.service.maintain.upkeep_work import UPKEEP, UpkeepResult, WorkDone
from tests.builders import TOPIC, TOPIC_ID, image_of, partition
from tests.fakes import FakeClock

KEY = PartitionKey(TOPIC_ID, 0)
IMAGE = image_of(partition("1 2 3"))


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def watch(clock):
    return UpkeepWatch(clock)


def told(watch, image=IMAGE):
    return [(each.broker_id, each.kind, each.error, each.since_ms) for each in watch.current(image)]


def result(broker_id=1, **works):
    return UpkeepResult(key=KEY, broker_id=BrokerId(broker_id), done=tuple(works.items()))


def test_what_fails_is_told_since_it_first_did_until_it_succeeds(watch, clock):
    began_ms = clock.now_ms()
    watch.record(KEY, 2, {"compact": "a file is missing"})
    clock.advance(5000)
    watch.record(KEY, 2, {"compact": "a file is still missing", "merge": None})

    assert told(watch) == [(2, "compact", "a file is still missing", began_ms)]
    [trouble] = watch.current(IMAGE)
    assert str(trouble) == (
        f"{TOPIC}-0 on broker 2: compact fails since 2023-11-14 22:13:20 UTC:"
        " a file is still missing"
    )

    watch.record(KEY, 2, {"compact": None})
    assert told(watch) == []


def test_kinds_of_work_that_were_not_tried_stay_as_they_were(watch):
    watch.record(KEY, 1, {"merge": "broken"})
    watch.record(KEY, 1, {"log start": None})

    assert [kind for _, kind, _, _ in told(watch)] == ["merge"]


def test_what_is_gone_fails_no_more(watch):
    watch.record(KEY, 3, {"merge": "broken"})
    watch.record(PartitionKey(TOPIC_ID, 7), None, {"retention": "broken"})

    assert told(watch, image_of(partition("1 2 3", isr="1 2"), fenced="3")) == []
    assert told(watch) == []


def test_a_root_that_fails_is_told_while_its_broker_is_online(watch):
    watch.record(None, 2, {ROOT: "EIO"})

    [trouble] = watch.current(IMAGE)
    assert str(trouble).startswith("upkeep on broker 2: root fails since ")
    assert told(watch, image_of(partition("1 2 3", isr="1 3"), fenced="2")) == []


def test_decisions_that_a_topics_settings_ask_for_no_more_fail_no_more(watch):
    watch.record(KEY, None, {"retention": "broken", "compaction": "broken"})
    compacted = image_of(partition("1 2 3"), configs={"cleanup.policy": "compact"})

    assert [kind for _, kind, _, _ in told(watch)] == ["retention"]
    watch.record(KEY, None, {"retention": "broken", "compaction": "broken"})
    assert [kind for _, kind, _, _ in told(watch, compacted)] == ["compaction"]


def test_a_round_that_fails_concerns_all(watch):
    watch.record(None, None, {ROUND: "no executors"})

    [trouble] = watch.current(IMAGE)

    assert str(trouble).startswith("upkeep: round fails since ")


def test_a_task_that_hung_is_forgotten_once_it_does_not(watch):
    watch.take([result(**{UPKEEP: WorkDone().failed(CorruptLogError("hangs"))})])
    assert [kind for _, kind, _, _ in told(watch)] == [UPKEEP]

    watch.take([result(merge=WorkDone())])
    assert told(watch) == []


def test_what_was_done_is_summed_by_kind(watch):
    merged = WorkDone(count=2, what="merges", size_bytes=100, written_bytes=40)
    watch.take([result(1, merge=merged), result(2, merge=merged, clean=WorkDone())])
    watch.take([result(1, merge=WorkDone().failed(CorruptLogError("broken")))])

    total = watch.totals["merge"]

    assert (total.count, total.size_bytes, total.written_bytes, total.failures) == (4, 200, 80, 1)
    assert watch.totals.keys() == {"merge"}
