"""The sink's writers on a real cluster: topics by row, conditions, expansion, replicas in sync."""

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType

from kafka_on_spark.base.errors import (
    InvalidRecordError,
    InvalidRequestError,
    UnexpectedOffsetError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.spark.sink import BatchWriter, StreamWriter
from tests.cluster.disks import values_of
from tests.cluster.format.sinks import (
    TYPES,
    Query,
    both,
    expected,
    options_of,
    row,
    schema_of,
    sink_disks,
    write_batch,
)


@pytest.fixture
def disks():
    with sink_disks() as disks:
        yield disks


def test_each_row_goes_to_its_topic_in_the_order_of_tasks(disks, monkeypatch):
    tasks = both()

    write_batch(disks, tasks, monkeypatch)

    for topic in ("one", "two"):
        assert values_of(disks.cluster, topic) == expected(tasks, topic)


def test_the_option_wins_over_a_column_of_any_type(disks, monkeypatch):
    write_batch(disks, [[{"partition": 0, "value": b"a"}]], monkeypatch, topic="two")
    monkeypatch.setitem(TYPES, "topic", (IntegerType(), pa.int32()))

    write_batch(disks, [[row(5, b"b")]], monkeypatch, topic="two")

    assert values_of(disks.cluster, "two") == [b"a", b"b"]


def test_a_log_is_only_appended_to():
    given = {"cluster": "c"}, schema_of([row("one", b"a")])
    with pytest.raises(InvalidRequestError, match="save mode overwrite is not allowed"):
        BatchWriter(*given, overwrite=True)
    with pytest.raises(InvalidRequestError, match="output mode complete is not allowed"):
        StreamWriter(*given, overwrite=True, run="r")


# fmt: off
REFUSED = [
    pytest.param([row("two", b"a"), row(None, b"b")],   InvalidRecordError,           r"\[KAFKA_NULL_TOPIC_IN_DATA\] The Kafka message data sent to the producer contains a null topic. Use the `topic` option for setting a default topic.", id="null topic"),
    pytest.param([row("two", b"a"), row("tow", b"b")],  UnknownTopicOrPartitionError, "'tow'",                                                                                                                                  id="unknown topic"),
]
# fmt: on


@pytest.mark.parametrize("rows, error, words", REFUSED)
def test_a_row_that_goes_nowhere_takes_all_with_it(disks, monkeypatch, rows, error, words):
    before = disks.cluster.image.offset

    with pytest.raises(error, match=words):
        write_batch(disks, [both()[0], rows], monkeypatch)

    assert disks.cluster.image.offset == before
    assert [values_of(disks.cluster, name) for name in ("one", "two")] == [[], []]


def test_what_is_expected_of_several_topics_is_checked_before_the_first_commit(disks, monkeypatch):
    disks.cluster.append("two", [("k", "first")])
    condition = '{"one":{"0":0,"1":0},"two":{"0":%d}}'

    with pytest.raises(UnexpectedOffsetError, match="ends at 1, not at the expected 0"):
        write_batch(disks, both(), monkeypatch, expected_offsets=condition % 0)
    assert values_of(disks.cluster, "one") == []

    write_batch(disks, both(), monkeypatch, expected_offsets=condition % 1)
    assert len(values_of(disks.cluster, "one")) == 2


def test_a_condition_counts_for_a_write_without_rows(disks, monkeypatch):
    writer = BatchWriter(
        options_of(disks, topic="one", expected_offsets='{"one":{"0":3}}'),
        schema_of([row("one", b"a")]),
        overwrite=False,
    )

    with pytest.raises(UnexpectedOffsetError, match="not at the expected 3"):
        writer.commit([])


def test_a_batch_that_runs_again_after_its_topic_was_expanded_is_the_same(disks, monkeypatch):
    keys = [[row("one", b"%d" % n, key=b"key-%d" % n) for n in range(20)]]
    Query(disks, monkeypatch, run="first").add(0, keys)
    disks.cluster.add_partitions("one", to=7)

    again = Query(disks, monkeypatch, run="second")
    again.add(0, keys)
    assert len(values_of(disks.cluster, "one")) == 20
    again.add(1, keys)

    assert len(values_of(disks.cluster, "one")) == 40
    assert len(set(disks.cluster.read("one").column("partition").to_pylist())) > 2
