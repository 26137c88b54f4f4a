"""Which record answers a time: one that was committed then, of a partition that is there now."""

import pytest

from kafka_on_spark.log.offset_lookup import look_up_offset
from tests.builders import KEY, NOW_MS, image_of, log, partition
from tests.log.test_reading import replicas_of

LED = image_of(partition("1", epoch=0, hw=3, hw_epoch=0, hw_chain=log("0:abc").chain_digest, leo=3))
EMPTY = image_of(partition("1", epoch=0))


def nobody(*_):
    raise AssertionError("nothing is to be read")


# fmt: off
LOOKUPS = [  # now        then    after the records  the answer
    pytest.param(LED,        LED,    0,                 0,    id="the first record"),
    pytest.param(LED,        LED,    1,                 None, id="newer than all"),
    pytest.param(image_of(), LED,    0,                 None, id="the topic is gone"),
    pytest.param(LED,        EMPTY,  0,                 None, id="nothing was committed then"),
]
# fmt: on


@pytest.mark.parametrize("now, then, later_ms, expected", LOOKUPS)
def test_a_time_is_answered_by_what_was_committed_and_is_there(now, then, later_ms, expected):
    replicas, time_us = replicas_of(on_1="0:abc"), (NOW_MS + later_ms) * 1000

    found = look_up_offset(now, then, KEY, time_us, replicas=replicas, read_timestamps=nobody)

    assert (None if found is None else found.offset) == expected
