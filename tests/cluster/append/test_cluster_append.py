"""What can be appended, where it goes, and that it comes back as it was given."""

import logging
from datetime import UTC, datetime, timedelta

import pandas as pd
import pyarrow as pa
import pytest

from kafka_on_spark.produce.append_rounds import AppendRounds
from kafka_on_spark.produce.records import Record
from tests.cluster.disks import values_of

MOMENT = datetime(2013, 7, 1, 12, 30, 0, 123456, tzinfo=UTC)
A_MILLISECOND = timedelta(milliseconds=1)
"""The clock of appends is cut off to milliseconds."""


def table(**columns):
    return pa.table(columns)


# fmt: off
FORMS = [
    pytest.param([(b"k", b"v")],                                         id="tuples of key and value"),
    pytest.param([("k", "v")],                                           id="texts are UTF-8"),
    pytest.param([Record(b"k", b"v")],                                   id="Record"),
    pytest.param([{"key": b"k", "value": b"v"}],                         id="mappings"),
    pytest.param(iter([(b"k", b"v")]),                                   id="an iterator"),
    pytest.param(table(key=[b"k"], value=[b"v"]),                        id="Arrow table"),
    pytest.param(table(key=[b"k"], value=[b"v"]).to_batches()[0],        id="Arrow record batch"),
    pytest.param(table(key=pa.array(["k"], pa.large_string()), value=pa.array([b"v"], pa.large_binary())),
                                                                         id="Arrow's large types"),
    pytest.param(table(key=[b"k"], value=[b"v"], partition=pa.array([0], pa.int64()), offset=[7]),
                                                                         id="rows that were read"),
    pytest.param(pd.DataFrame({"key": ["k"], "value": [b"v"]}, index=[7]), id="pandas frame"),
    pytest.param(pd.DataFrame([("k", "v", 0.0)], columns=["key", "value", "partition"]), id="pandas frame with a partition"),
]
# fmt: on


@pytest.mark.parametrize("form", FORMS)
def test_a_record_comes_back_whatever_form_it_was_given_in(cluster, topic, form):
    result = cluster.append(topic, form)

    rows = cluster.read(topic).select(["key", "value", "topic", "partition", "offset"]).to_pylist()
    assert rows == [{"key": b"k", "value": b"v", "topic": topic, "partition": 0, "offset": 0}]
    assert (result.topic, result.record_count, result.is_duplicate) == (topic, 1, False)
    assert result.partitions[0].base_offset == 0


def test_a_pandas_frame_has_missing_values_mixed_ones_times_and_headers(cluster, topic):
    frame = pd.DataFrame(
        {
            "key": ["text", b"bytes", None, float("nan")],
            "value": [b"1", "2", "", None],
            "partition": [0, None, 0, None],
            "timestamp": pd.to_datetime([MOMENT, None, MOMENT, MOMENT], utc=True),
            "headers": [[("h", b"1")], None, {"h": None}, float("nan")],
        }
    )

    cluster.append(topic, frame)

    rows = cluster.read(topic).to_pylist()
    assert [row["key"] for row in rows] == [b"text", b"bytes", None, None]
    assert [row["value"] for row in rows] == [b"1", b"2", b"", None]
    assert [row["headers"] for row in rows] == [
        [{"key": "h", "value": b"1"}], None, [{"key": "h", "value": None}], None,
    ]  # fmt: skip
    assert [row["timestamp"] == MOMENT for row in rows] == [True, False, True, True]
    cluster.append(topic, cluster.read(topic).to_pandas())
    assert cluster.read(topic)["key"].to_pylist() == [b"text", b"bytes", None, None] * 2


@pytest.mark.parametrize(
    "acks, seen", [("all", [b"v"]), ("1", []), ("0", [])], ids=["all", "one", "none"]
)
def test_only_acks_all_waits_until_readers_see_the_records(cluster, topic, acks, seen):
    cluster.append(topic, [(b"k", b"v")], acks=acks)

    assert values_of(cluster, topic) == seen
    assert cluster.offsets(topic)[0].log_end_offset == 1

    cluster.replicate([topic])

    assert values_of(cluster, topic) == [b"v"]


def test_keyless_records_of_one_append_stay_together_and_of_many_are_spread(cluster, new_topic):
    topic = new_topic(partitions=3)

    results = [cluster.append(topic, [(None, b"1"), (None, b"2")]) for _ in range(15)]

    assert {len(result.partitions) for result in results} == {1}
    assert len({number for result in results for number in result.partitions}) > 1


def test_an_empty_key_is_a_key_and_an_empty_value_is_no_tombstone(cluster, topic):
    cluster.append(topic, [(b"", b""), (b"k", None), (None, b"")])

    rows = cluster.read(topic).select(["key", "value"]).to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == [(b"", b""), (b"k", None), (None, b"")]


def test_headers_keep_their_order_their_repeats_and_their_nulls(cluster, topic):
    headers = [("b", b"1"), ("a", None), ("b", b""), ("", b"2")]

    cluster.append(topic, [Record(b"k", b"v", headers=headers), Record(b"k", b"w")])

    kept = cluster.read(topic).column("headers").to_pylist()
    assert kept == [[{"key": key, "value": value} for key, value in headers], None]


@pytest.mark.parametrize(
    "headers", [{"a": b"1"}, [{"key": "a", "value": b"1"}], [("a", b"1")]], ids=type
)
def test_headers_may_be_a_mapping_mappings_or_pairs(cluster, topic, headers):
    cluster.append(topic, [{"value": b"v", "headers": headers}])

    assert cluster.read(topic).column("headers").to_pylist() == [[{"key": "a", "value": b"1"}]]


def test_a_timestamp_is_kept_to_the_microsecond_and_set_where_none_is_given(cluster, topic):
    before = datetime.now(UTC)

    cluster.append(topic, [Record(b"k", b"v", timestamp=MOMENT), Record(b"k", b"w")])

    kept, made = cluster.read(topic).column("timestamp").to_pylist()
    assert kept == MOMENT
    assert before - A_MILLISECOND <= made <= datetime.now(UTC)
    assert cluster.read(topic).column("timestampType").to_pylist() == [0, 0]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_an_arrow_table_may_have_any_unit_and_zone(cluster, topic, unit):
    moment = MOMENT.replace(microsecond=0)
    stamps = pa.array([moment], pa.timestamp(unit, tz="America/New_York"))

    cluster.append(topic, pa.table({"value": [b"v"], "timestamp": stamps}))

    assert cluster.read(topic).column("timestamp").to_pylist() == [moment]


def test_a_call_may_forbid_its_append_to_control(cluster, topic, monkeypatch):
    """That it then does not is a case of tests/produce/test_append_watch.py."""
    allowed, run = [], AppendRounds.run

    def noting(rounds):
        allowed.append(rounds._waiting()._is_allowed)
        return run(rounds)

    monkeypatch.setattr(AppendRounds, "run", noting)

    cluster.append(topic, [(b"k", b"v")], configs={"auto.controller": False})
    cluster.append(topic, [(b"k", b"v")])

    assert allowed == [False, True]


def test_an_empty_append_writes_nothing(cluster, topic):
    before = cluster.image.offset

    results = [cluster.append(topic, []), cluster.append(topic, pa.table({"value": pa.nulls(0)}))]

    assert [dict(result.partitions) for result in results] == [{}, {}]
    assert cluster.image.offset == before


def test_an_append_says_once_that_retention_deletes_its_records(disks, caplog):
    disks.cluster.create_topic("history", partitions=1, configs={"retention.ms": 60_000})
    records = [Record(b"k", b"v", timestamp=MOMENT), Record(b"l", b"v", timestamp=MOMENT)]

    with caplog.at_level(logging.WARNING, "kafka_on_spark"):
        results = [disks.cluster.append("history", records) for _ in range(2)]
        of_now = disks.cluster.append("history", [*records, (b"k", b"of now")])

    [warning] = [each.getMessage() for each in caplog.records if "retention" in each.getMessage()]
    assert warning.startswith(
        "2 of the records of an append to history are older than retention.ms"
    )
    assert [each.notice for each in (*results, of_now)] == [warning, warning, None]
