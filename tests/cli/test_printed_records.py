"""A record as it is printed, by Kafka's properties; and where to begin."""

import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.cli.consume import start_offset
from kafka_on_spark.cli.lines import FLAGS, form_of, properties_of
from kafka_on_spark.consume.consumed import ConsumerRecord

HEADERS = [("h", b"1"), ("i", None)]
RECORD = ConsumerRecord("t", 3, 7, 1_700_000_000_123_456, 0, b"k", b"v\xff", HEADERS, 58)
BARE = ConsumerRecord("t", 0, 0, 0, 1, None, None, [], 0)
ALL = "timestamp", "partition", "offset", "epoch", "headers", "key", "value"

# fmt: off
PROPERTIES = [
    pytest.param({},                                             RECORD, b"v\xff\n",           id="the value alone"),
    pytest.param({},                                             BARE,   b"null\n",            id="a tombstone"),
    pytest.param({"null.literal": ""},                           BARE,   b"\n",                id="null is nothing"),
    pytest.param({"null.literal": "\\N"},                        BARE,   b"\\N\n",             id="null as databases write it"),
    pytest.param({"print.key": "true"},                          RECORD, b"k\tv\xff\n",        id="key and value"),
    pytest.param({"print.key": "true", "key.separator": "\\x00"}, RECORD, b"k\0v\xff\n",       id="a separator of their own"),
    pytest.param({"print.key": "true", "print.value": "false"},  RECORD, b"k\n",               id="the key alone"),
    pytest.param({"print.value": "false"},                       RECORD, b"",                  id="nothing"),
    pytest.param({"line.separator": "\\0"},                      RECORD, b"v\xff\0",           id="another end"),
    pytest.param({"print.headers": "true"},                      BARE,   b"NO_HEADERS\tnull\n", id="no headers"),
    pytest.param({f"print.{each}": "true" for each in ALL},      RECORD, b"CreateTime:1700000000123\tPartition:3\tOffset:7\tEpoch:58\th:1,i:null\tk\tv\xff\n", id="all"),
    pytest.param({"print.timestamp": "true"},                    BARE,   b"LogAppendTime:0\tnull\n", id="the time of the append"),
]
# fmt: on


@pytest.mark.parametrize("properties, record, written", PROPERTIES)
def test_properties_say_what_is_printed(properties, record, written):
    assert form_of(properties)(record) == written


@pytest.mark.parametrize(
    "properties, why",
    [
        ({"print.keys": "true"}, "did you mean 'print.key'"),
        ({"print.key": "1"}, "give true or false"),
    ],
)
def test_properties_that_mean_nothing_are_refused(properties, why):
    with pytest.raises(InvalidRequestError, match=why):
        form_of(properties_of(["=".join(each) for each in properties.items()], "--property", FLAGS))


# fmt: off
STARTS = [
    pytest.param("latest",   20, id="what comes"),
    pytest.param("earliest", 10, id="the log start"),
    pytest.param(15,         15, id="an offset"),
    pytest.param(5,          5,  id="an offset that is gone is told of"),
    pytest.param(42,         20, id="an offset that is not there yet"),
    pytest.param(-3,         17, id="the last three"),
    pytest.param(-30,        10, id="as many as there are"),
]
# fmt: on


@pytest.mark.parametrize("start, offset", STARTS)
def test_call_begins_where_it_is_told_to(start, offset):
    assert start_offset(start, 10, 20) == offset
