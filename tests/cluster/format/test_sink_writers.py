"""The sink's writers on a real cluster: topics by row, conditions, expansion, replicas in sync."""

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType

from kafka_on_spark.base.errors import (
    InvalidRecordError,
    UnexpectedOffsetError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.spark.sink import BatchWriter
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


def test_the_high_watermarks_of_all_topics_move_in_one_commit(disks, monkeypatch):
    write_batch(disks, both(), monkeypatch)
    before = len(disks.cluster._metadata.history())

    write_batch(disks, both(6), monkeypatch)

    assert len(disks.cluster._metadata.history()) == before + 1


def test_the_option_wins_over_a_column_of_any_type(disks, monkeypatch):
    write_batch(disks, [[{"partition": 0, "value": b"a"}]], monkeypatch, topic="two")
    monkeypatch.setitem(TYPES, "topic", (IntegerType(), pa.int32()))

    write_batch(disks, [[row(5, b"b")]], monkeypatch, topic="two")

    assert values_of(disks.cluster, "two") == [b"a", b"b"]


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


@pytest.mark.parametrize("given", [{}, {"topic": "one"}], ids=["by row", "by option"])
def test_a_batch_that_runs_again_after_its_topic_was_expanded_is_the_same(
    disks, monkeypatch, given
):
    keys = [[row("one", b"%d" % n, key=b"key-%d" % n) for n in range(20)]]
    Query(disks, monkeypatch, run="first", **given).add(0, keys)
    disks.cluster.add_partitions("one", to=7)

    again = Query(disks, monkeypatch, run="second", **given)
    again.add(0, keys)
    assert len(values_of(disks.cluster, "one")) == 20
    again.add(1, keys)

    assert len(values_of(disks.cluster, "one")) == 40
    assert len(numbers_of(disks.cluster)) > 2


def numbers_of(cluster) -> set[int]:
    return set(cluster.read("one").column("partition").to_pylist())


def test_a_write_says_what_it_has_appended_and_what_it_has_found(disks, monkeypatch, caplog):
    rows = [[{"partition": n % 2, "value": b"%d" % n} for n in range(5)]]
    caplog.set_level("INFO", "kafka_on_spark.spark.sink")

    for _ in range(2):
        write_batch(disks, rows, monkeypatch, topic="one", producer_id="p", sequence=0)

    offsets = "offsets by partition: 0: 0-2, 1: 0-1"
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("INFO", f"5 records appended to one, 0 found as appended before; {offsets}"),
        ("WARNING", f"0 records appended to one, 5 found as appended before; {offsets}"),
    ]
