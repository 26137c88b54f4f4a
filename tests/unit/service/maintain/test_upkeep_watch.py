"""What a process has seen of upkeep: what fails, what is left for long, since when, and sums."""

import pytest

from kafka_on_spark.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.ids import BrokerId, PartitionKey
from kafka_on_spark.service.maintain.upkeep_watch import (
    LEFT,
    LEFT_INTERVALS,
    ROOT,
    ROUND,
    UpkeepWatch,
)
from kafka_on_spark.service.maintain.upkeep_work import UPKEEP, UpkeepResult, WorkDone
from tests.builders import TOPIC, TOPIC_ID, image_of, partition
from tests.fakes import FakeClock

KEY = PartitionKey(TOPIC_ID, 0)
IMAGE = image_of(partition("1 2 3"))
INTERVAL_MS = 60_000


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def watch(clock):
    return UpkeepWatch(clock)


def told(watch, image=IMAGE):
    return [(each.broker_id, each.kind, each.error, each.since_ms) for each in watch.current(image)]


def result(broker_id=1, took_ms=1.0, **works):
    return UpkeepResult(
        key=KEY, broker_id=BrokerId(broker_id), done=tuple(works.items()), took_ms=took_ms
    )


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


def test_work_that_is_left_is_told_once_many_rounds_have_left_it(watch, clock):
    watch.record(KEY, 1, {"merge": LEFT})
    clock.advance(LEFT_INTERVALS * INTERVAL_MS - 1)
    watch.record(KEY, 1, {"merge": LEFT})
    assert told(watch) == []

    clock.advance(1)
    [trouble] = watch.current(IMAGE)
    assert "is left since" in str(trouble)
    assert "log.cleaner.share" in str(trouble)


def test_what_may_pass_by_itself_is_told_once_it_has_not(watch, clock):
    watch.record(KEY, None, {"retention": "not adopted"}, may_pass=True)
    assert told(watch) == []

    clock.advance(LEFT_INTERVALS * INTERVAL_MS)
    assert [error for _, _, error, _ in told(watch)] == ["not adopted"]

    watch.record(KEY, None, {"retention": "corrupt"})
    assert told(watch) == [(None, "retention", "corrupt", clock.now_ms())]


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


def test_what_was_done_is_summed_by_kind(watch, clock):
    assert watch.since_last_run_ms is None
    merged = WorkDone(count=2, what="merges", size_bytes=100, written_bytes=40)
    watch.take([result(1, merge=merged), result(2, merge=merged, clean=WorkDone())])
    watch.take([result(1, merge=WorkDone().failed(CorruptLogError("broken")))])
    clock.advance(70)

    total = watch.totals["merge"]

    assert (total.count, total.size_bytes, total.written_bytes, total.failures) == (4, 200, 80, 1)
    assert watch.totals.keys() == {"merge"}
    assert watch.since_last_run_ms == 70


def test_the_last_cleaning_is_that_of_the_last_tasks_which_compacted(watch):
    def compacted(size, written, percent):
        return WorkDone(count=1, size_bytes=size, written_bytes=written, buffer_percent=percent)

    watch.take([result(1, 5.0, compact=compacted(9, 9, 90))])
    watch.take(
        [
            result(1, 20.0, compact=compacted(100, 30, 10)),
            result(2, 30.0, compact=compacted(100, 50, 20)),
            result(3, 99.0, compact=WorkDone()),
        ]
    )

    last = watch.last_cleaning

    assert (last.read_bytes, last.written_bytes, last.buffer_percent) == (200, 80, 20)
    assert last.took_ms == 30.0


class Notes:
    """UpkeepNotes in memory."""

    def __init__(self):
        self.noted = {}
        self.writes = 0
        self.is_offline = False

    def read(self, cluster_id):
        if self.is_offline:
            raise KafkaStorageError("the metadata root does not answer")
        return dict(self.noted)

    def write(self, cluster_id, failures):
        self.noted = dict(failures)
        self.writes += 1


def test_processes_tell_each_other_what_fails_and_since_when(clock):
    notes = Notes()
    first, second = UpkeepWatch(clock, notes), UpkeepWatch(clock, notes)
    began_ms = clock.now_ms()
    first.record(KEY, 2, {"compact": "broken", "merge": LEFT})
    first.share(IMAGE)
    clock.advance(INTERVAL_MS)

    second.share(IMAGE)
    assert told(second) == [(2, "compact", "broken", began_ms)]

    third = UpkeepWatch(clock, notes)
    third.record(KEY, 2, {"compact": "broken again"})
    third.share(IMAGE)
    assert told(third) == [(2, "compact", "broken again", began_ms)], "it has failed since then"

    fourth = UpkeepWatch(clock, notes)
    fourth.record(KEY, 2, {"compact": None})
    fourth.share(IMAGE)
    clock.advance(INTERVAL_MS)
    for each in (first, second, third, fourth):
        each.share(IMAGE)
        assert told(each) == []


def test_notes_are_read_and_written_seldom_without_news(clock):
    notes = Notes()
    watch = UpkeepWatch(clock, notes)
    watch.share(IMAGE)
    for _ in range(3):
        watch.record(KEY, 1, {"merge": None, "clean": LEFT})
        watch.share(IMAGE)
    assert notes.writes == 0

    watch.record(KEY, 1, {"merge": "broken"})
    watch.share(IMAGE)
    assert notes.writes == 1

    notes.is_offline = True
    watch.record(KEY, 1, {"merge": None})
    watch.share(IMAGE)
    assert told(watch) == []
    notes.is_offline = False
    watch.share(IMAGE)
    assert notes.noted == {}, "what could not be noted is noted later"


def test_what_is_noted_of_what_is_gone_is_removed(clock):
    notes = Notes()
    watch = UpkeepWatch(clock, notes)
    watch.record(KEY, 2, {"compact": "broken"})
    watch.share(IMAGE)
    clock.advance(INTERVAL_MS)

    UpkeepWatch(clock, notes).share(image_of(partition("1 3")))

    assert notes.noted == {}
