"""The times of commits: which clock counts, and where a log ended at a moment."""

from itertools import product

import pytest

from kafka_on_spark.base.ids import stamp_ms, too_old_by_ms
from kafka_on_spark.metadata.records import log_end_at

NOW = 10**12
MINUTE = 60_000
HOUR = 60 * MINUTE
YEARS = 10 * 365 * 24 * HOUR

# fmt: off
STAMPS = [  # own clock     the root's     the newest commit      it is
    pytest.param(NOW,       NOW,           NOW - HOUR,  NOW,          id="all clocks are right"),
    pytest.param(NOW + 5,   NOW,           NOW - HOUR,  NOW + 5,      id="its own is a little ahead"),
    pytest.param(NOW - 5,   NOW,           NOW - HOUR,  NOW - 5,      id="its own is a little behind"),
    pytest.param(NOW + HOUR,  NOW,         NOW - HOUR,  NOW + MINUTE, id="its own is hours ahead"),
    pytest.param(NOW + YEARS, NOW,         NOW - HOUR,  NOW + MINUTE, id="its own is years ahead"),
    pytest.param(NOW - YEARS, NOW,         NOW - 7,     NOW - 7,      id="its own is years behind"),
    pytest.param(NOW,       NOW,           NOW + YEARS, NOW,          id="the newest commit is years ahead"),
    pytest.param(NOW,       NOW,           NOW - YEARS, NOW,          id="the newest commit is years behind"),
    pytest.param(NOW,       NOW + YEARS,   NOW - HOUR,  NOW,          id="the root's is years ahead"),
    pytest.param(NOW,       NOW - YEARS,   NOW - 7,     NOW - 7,      id="the root's is years behind"),
    pytest.param(NOW + HOUR,  None,        NOW,         NOW + HOUR,   id="the root tells none"),
    pytest.param(NOW - YEARS, None,        NOW,         NOW,          id="the root tells none, and its own is behind"),
]
# fmt: on


@pytest.mark.parametrize("own_ms, root_ms, newest_ms, expected", STAMPS)
def test_one_wrong_clock_of_three_does_not_give_a_commit_its_time(
    own_ms, root_ms, newest_ms, expected
):
    assert stamp_ms(own_ms, root_ms, newest_ms, MINUTE) == expected


def test_something_is_too_old_by_the_earliest_of_three_clocks():
    assert {too_old_by_ms(*clocks) for clocks in product((1, 2), repeat=3)} == {1, 2}
    assert [clocks for clocks in product((1, 2), repeat=3) if too_old_by_ms(*clocks) == 2] == [
        (2, 2, 2)
    ]


# fmt: off
LOGS = [  # times of batches          the moment   batches before its end
    pytest.param([],                        5,     0, id="an empty log"),
    pytest.param([1, 2, 3],                 0,     0, id="before the first"),
    pytest.param([1, 2, 3],                 2,     2, id="at one"),
    pytest.param([1, 2, 3],                 9,     3, id="after the last"),
    pytest.param([1, 2, 90, 3, 4, 5],       4,     5, id="one by a clock that is ahead hides none after it"),
    pytest.param([1, 2, 90, 3, 4, 5],       2,     2, id="and stands after what came before"),
    pytest.param([11, 12, 13, 0, 14],      11,     1, id="one by a clock that is behind hides none before it"),
    pytest.param([1, 3, 2, 4],              2,     1, id="of two places that are as good, the first one"),
]
# fmt: on


@pytest.mark.parametrize("times, moment, count", LOGS)
def test_where_a_log_ended_at_a_moment(times, moment, count):
    batches = [(10 * number, time) for number, time in enumerate(times)]

    assert log_end_at(batches, 10 * len(times), moment) == 10 * count
