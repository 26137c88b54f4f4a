"""Records, columns and arguments of an append that are refused."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from kafka_on_spark.base.errors import (
    InvalidRecordError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    MessageTooLargeError,
)
from kafka_on_spark.log.segments import HEADERS
from kafka_on_spark.produce.records import Record

NAIVE = datetime(2013, 7, 1)  # noqa: DTZ001
LATE = pa.array([10_000 * 365 * 86_400 * 1_000_000], pa.timestamp("us", tz="UTC"))
HALF = "a\udcff"
WRAPPED = pa.array([2**60]).cast(pa.timestamp("s", tz="UTC"))
TWICE = pa.table([[b"a"], [b"b"]], names=["value", "value"])
NULL_HEADER = pa.array([None, [None]], HEADERS)


def table(**columns):
    return pa.table({"value": [b"v"], **columns})


def frame(**cells):
    return pd.DataFrame({name: [cell] for name, cell in cells.items()}, dtype=object)


# fmt: off
COLUMNS = [
    pytest.param(pa.table({"key": [b"k"]}),                ["Required attribute 'value' not found", "given: key"],                          id="no value"),
    pytest.param(table(kye=[b"k"]),                        ["unknown column 'kye'", "did you mean 'key'?"],                                 id="unknown column"),
    pytest.param(pa.table({"value": [1]}),                 ["value attribute unsupported type int", "must be a(n) string or binary"],       id="value of numbers"),
    pytest.param(table(partition=["0"]),                   ["partition attribute unsupported type string", "must be a(n) int"],             id="partition of texts"),
    pytest.param(table(timestamp=[5]),                     ["timestamp attribute unsupported type int", "timestamp with a time zone: make one of milliseconds by"],          id="timestamp of numbers"),
    pytest.param(table(timestamp=[NAIVE]),                 ["timestamp attribute unsupported type timestamp[us]"],                          id="timestamp without a zone"),
    pytest.param(table(headers=[b"h"]),                    ["headers attribute unsupported type binary", "array<struct<key:string,value:binary>>"], id="headers of bytes"),
    pytest.param([(b"k", 5)],                              ["'value'", "int"],                                                              id="a number in a list"),
    pytest.param([Record(b"k", b"v", partition="first")],  ["'partition'", "first"],                                                        id="a text for a partition"),
    pytest.param([Record(b"k", b"v", partition=2**40)],    ["'partition'"],                                                                 id="more than an int"),
    pytest.param([Record(b"k", b"v", timestamp="today")],  ["'timestamp'", "today"],                                                        id="a text for a timestamp"),
    pytest.param([Record(b"k", b"v", timestamp=-1)],       ["'timestamp'", "-1", "milliseconds since 1970"],                                id="Kafka's number for no timestamp"),
    pytest.param([Record(b"k", b"v", timestamp=1.5e12)],   ["'timestamp'", "float", "milliseconds since 1970"],                             id="a fraction for a timestamp"),
    pytest.param(TWICE,                                    ["more than one column 'value'", "give one"],                                    id="a column twice"),
    pytest.param([Record(b"k", b"v", timestamp=NAIVE)],    ["timestamp", "time zone"],                                                      id="a timestamp without a zone"),
    pytest.param([Record(b"k", b"v", headers="abc")],      ["'headers'"],                                                                   id="headers that are a text"),
    pytest.param([Record(b"k", b"v", headers=[("a",)])],   ["'headers'"],                                                                   id="a header without a value"),
    pytest.param([(b"k", HALF)],                           ["'value'", "no text that UTF-8 has"],                                            id="half a character in a list"),
    pytest.param([Record(b"k", b"v", headers=[(HALF, b"")])], ["'headers'"],                                                                 id="half a character in a header's name"),
    pytest.param(frame(value=HALF),                        ["'value'", "no text that UTF-8 has"],                                            id="half a character in a frame"),
    pytest.param([b"value"],                               ["b'value'", "(key, value, headers, timestamp, partition)"],                     id="bytes in a list"),
    pytest.param([(b"k",)],                                ["(b'k',)", "(key, value, headers, timestamp, partition)"],                      id="too few"),
    pytest.param("text",                                   ["can't append a str", "a DataFrame, an Arrow table, or a list"],                id="a text"),
    pytest.param(5,                                        ["can't append a int", "a DataFrame, an Arrow table, or a list"],                id="a number"),
]
# fmt: on


@pytest.mark.parametrize("given, words", COLUMNS)
def test_columns_and_types(cluster, refused, given, words):
    with refused(InvalidRequestError, *words):
        cluster.append("orders", given)


RANGE = "is not in the range [0, 3)"
# fmt: off
RECORDS = [
    pytest.param([Record(b"k", b"v", partition=3)],               InvalidRecordError,   ["3 " + RANGE, "leave `partition` null"],            id="partition too high"),
    pytest.param(table(partition=pa.array([2**40])),              InvalidRecordError,   ["partition"],                                       id="partition beyond an int"),
    pytest.param(table(timestamp=WRAPPED),                        InvalidRecordError,   ["timestamp", "can't be stored"],                    id="seconds that microseconds have no room for"),
    pytest.param(table(timestamp=LATE),                           InvalidRecordError,   ["timestamp"],                                       id="a timestamp after the year 9999"),
    pytest.param([Record(b"k", b"v", [(None, b"1")])],            InvalidRecordError,   ["header", "give each header a name"],               id="a header without a name"),
    pytest.param(pa.table({"value": ["v", "w"], "headers": NULL_HEADER}), InvalidRecordError, ["header that is null"],                     id="a header that is null"),
    pytest.param([(b"k", b"v" * 1001)],                           MessageTooLargeError, ["1002 bytes", "max.message.bytes=1000", "raise"],   id="value too large"),
    pytest.param([Record(b"k", b"v", [("h", b"x" * 999)])],       MessageTooLargeError, ["1002 bytes", "max.message.bytes=1000"],            id="headers too large"),
]
# fmt: on


@pytest.mark.parametrize("given, error, words", RECORDS)
def test_records(cluster, refused, given, error, words):
    with refused(error, *words):
        cluster.append("orders", given)


@pytest.mark.parametrize("acks", ["most", 2, None, True])
def test_acks(cluster, refused, acks):
    with refused(InvalidRequiredAcksError, f"acks can't be {acks!r}", "'all', 1 or 0"):
        cluster.append("orders", [(b"k", b"v")], acks=acks)


def test_expected_offsets_of_a_partition_that_does_not_exist(cluster, refused):
    with refused(InvalidRecordError, "names partition 7", "partitions 0 to 2"):
        cluster.append("orders", [(b"k", b"v")], expected_offsets={7: 0})


# fmt: off
NO_NUMBERS = [
    pytest.param({"expected_offsets": {0: "end"}},                            ["partition 0 can't be 'end'", "whole number"], id="expected offset"),
    pytest.param({"timeout_ms": "soon"},                                      ["timeout_ms can't be 'soon'", "whole number"], id="time"),
    pytest.param({"producer_id": "p", "sequence": "1"},                       ["sequence can't be '1'", "whole number"],      id="sequence"),
    pytest.param({"producer_id": "p", "sequence": 1, "producer_epoch": 0.5},  ["producer_epoch can't be 0.5"],                id="producer epoch"),
    pytest.param({"producer_id": 5, "sequence": 1},                           ["producer_id can't be 5", "give a text"],      id="producer id"),
    pytest.param({"producer_id": "transaction/t", "sequence": 1},             ["'transaction/t'", "transactional ids", "another one"], id="a writer's name"),
]
# fmt: on


@pytest.mark.parametrize("arguments, words", NO_NUMBERS)
def test_numbers_that_are_none(cluster, refused, arguments, words):
    with refused(InvalidRequestError, *words):
        cluster.append("orders", [(b"k", b"v")], **arguments)


def test_a_number_for_a_timestamp_is_milliseconds(cluster):
    moment = datetime.now(UTC).replace(microsecond=7000)
    millis = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    cluster.create_topic("times", replication_factor=3)

    cluster.append("times", [Record(b"k", b"v", timestamp=millis), (b"k", b"v", (), millis)])
    cluster.append("times", [{"key": b"k", "value": b"v", "timestamp": np.int64(millis)}])
    cells = {"key": [b"k"] * 3, "value": [b"v"] * 3, "timestamp": [millis, moment, pd.NaT]}
    cluster.append("times", pd.DataFrame(cells, dtype=object))
    with cluster.producer() as producer:
        producer.send("times", b"k", b"v", timestamp=millis)

    found = cluster.read("times").column("timestamp").to_pylist()
    assert [each == moment for each in found] == [True] * 5 + [False, True]
