"""Where a consumer stands: commits, seeks, pauses, and what comes again after a failure."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from kafka_on_spark import Record
from kafka_on_spark.base.errors import OffsetOutOfRangeError
from kafka_on_spark.consume.consuming import Consuming
from tests.cluster.consuming.polled import drained, values
from tests.cluster.disks import records


def test_a_group_goes_on_where_it_stood(cluster, topic):
    cluster.append(topic, records(*(b"%d" % each for each in range(5))))
    with cluster.consumer(
        topic, group=topic, auto_offset_reset="earliest", max_poll_records=3
    ) as first:
        assert len(drained(first, 3)) == 3

    with cluster.consumer(topic, group=topic) as second:
        assert second.committed([(topic, 0)]) == {(topic, 0): 3}
        assert drained(second, 2) == [b"3", b"4"]
    assert cluster.describe_group(topic)[0].offset == 5


def test_what_a_failing_loop_had_in_hand_is_read_again(cluster, topic):
    cluster.append(topic, records(b"a", b"b", b"c"))
    options = {"group": topic, "auto_offset_reset": "earliest"}

    def fail_at(value):
        with cluster.consumer(topic, **options) as consumer:
            for record in consumer:
                assert record.value != value, "it fails"

    with pytest.raises(AssertionError, match="it fails"):
        fail_at(b"b")

    with cluster.consumer(topic, consumer_timeout_ms=0, **options) as consumer:
        assert [each.value for each in consumer] == [b"b", b"c"]
        assert list(consumer) == []
    assert cluster.describe_group(topic)[0].lag == 0


def test_without_automatic_commits_a_group_stands_where_it_was_told(cluster, topic):
    cluster.append(topic, records(b"a", b"b", b"c", b"d"))
    options = {"group": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with cluster.consumer(topic, **options) as consumer:
        assert [next(consumer).value, next(consumer).value] == [b"a", b"b"]
        consumer.commit()
        next(consumer)
    assert cluster.describe_group(topic)[0].offset == 2

    with cluster.consumer(topic, **options) as consumer:
        assert consumer.position((topic, 0)) == 2
        consumer.commit({(topic, 0): 3})
        assert consumer.committed((topic, 0)) == {(topic, 0): 3}
        with pytest.raises(
            OffsetOutOfRangeError, match="from its log start 0 to its high watermark 4"
        ):
            consumer.commit({(topic, 0): 5})
        assert next(consumer).value == b"c", "a commit of other offsets moves no position"


def test_a_long_loop_commits_as_it_goes(cluster, topic):
    cluster.append(topic, records(*(b"%d" % each for each in range(50))))
    options = {"group": topic, "auto_offset_reset": "earliest", "auto_commit_interval_ms": 0}

    with cluster.consumer(topic, **options) as consumer:
        for record in consumer:
            if record.offset == 40:
                break
            threading.Event().wait(0.01)
        committed = consumer.committed((topic, 0))[topic, 0]

    assert committed is not None
    assert 0 < committed <= 40


def test_seeking_pausing_and_asking(cluster, new_topic):
    topic = new_topic(partitions=2)
    start = datetime(2024, 1, 1, tzinfo=UTC)
    rows = [
        Record(None, b"%d" % each, timestamp=start + timedelta(hours=each), partition=each % 2)
        for each in range(10)
    ]
    cluster.append(topic, rows)
    zero, one = (topic, 0), (topic, 1)

    with cluster.consumer(partitions=[zero, one], auto_offset_reset="earliest") as consumer:
        assert consumer.assignment() == [zero, one]
        consumer.pause([one])
        assert consumer.paused() == [one]
        assert drained(consumer, 5) == [b"0", b"2", b"4", b"6", b"8"]
        assert consumer.poll(0).num_rows == 0
        consumer.resume([one])
        assert drained(consumer, 5) == [b"1", b"3", b"5", b"7", b"9"]
        consumer.seek(zero, 3)
        assert drained(consumer, 2) == [b"6", b"8"]
        found = consumer.offsets_for_times(
            {zero: start + timedelta(hours=3), one: 4_000_000_000_000}
        )
        assert found == {zero: 2, one: None}
        assert consumer.end_offsets([zero, one]) == {zero: 5, one: 5}
        assert consumer.beginning_offsets(one) == {one: 0}
        consumer.seek_to_beginning([one])
        assert consumer.position(one) == 0
        assert consumer.current_lag(one) == 5
        consumer.seek_to_end()
        assert consumer.current_lag(one) == 0
        assert consumer.poll(0).num_rows == 0


def test_what_was_read_ahead_is_void_after_a_seek_or_a_poll(cluster, topic):
    cluster.append(topic, records(*(b"%d" % each for each in range(6))))

    with cluster.consumer(topic, auto_offset_reset="earliest", max_poll_records=2) as consumer:
        assert next(consumer).value == b"0"
        assert values(consumer.poll(0)) == [b"1", b"2"]
        assert next(consumer).value == b"3"
        consumer.seek((topic, 0), 1)
        assert next(consumer).value == b"1"


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError], ids=["^C", "an alarm"])
def test_a_record_that_a_loop_has_read_and_not_handed_out_yet_comes_again(
    cluster, topic, monkeypatch, error
):
    cluster.append(topic, records(*(b"%d" % each for each in range(4))))
    read = Consuming.next_record

    def read_and_be_interrupted(consuming, timeout_ms):
        read(consuming, timeout_ms)
        raise error

    with cluster.consumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=0) as consumer:
        assert next(consumer).value == b"0"
        with monkeypatch.context() as patched:
            patched.setattr(Consuming, "next_record", read_and_be_interrupted)
            with pytest.raises(error):
                next(consumer)

        assert [each.value for each in consumer] == [b"1", b"2", b"3"]
