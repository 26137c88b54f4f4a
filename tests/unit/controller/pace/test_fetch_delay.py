"""When a refused fetch is tried again: growth, jitter, reset, and what no time helps."""

from itertools import product

import pytest

from kafka_on_spark.controller.pace.fetch_delay import FetchDelay, backoff_ms, delay_after
from kafka_on_spark.errors import (
    NO_ERROR,
    CorruptLogError,
    FencedLeaderEpochError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
)

FIRST_MS, MAX_MS, NOW_MS = 1000, 10_000, 50_000
MIDDLE = 0.5  # the jitter that changes nothing


def delay(code, before=None, *, asked=5, current=5, has_progressed=False, random=MIDDLE):
    return delay_after(
        code,
        before,
        asked_epoch=asked,
        current_epoch=current,
        has_progressed=has_progressed,
        now_ms=NOW_MS,
        first_ms=FIRST_MS,
        max_ms=MAX_MS,
        random=random,
    )


# fmt: off
BACKOFFS = [  # refusals  first   max     random  back-off
    pytest.param(1,       1000,   10_000, MIDDLE, 1000,   id="first"),
    pytest.param(2,       1000,   10_000, MIDDLE, 2000,   id="twice-as-long"),
    pytest.param(4,       1000,   10_000, MIDDLE, 8000,   id="and-again"),
    pytest.param(5,       1000,   10_000, MIDDLE, 10_000, id="up-to-the-most"),
    pytest.param(10**6,   1000,   10_000, MIDDLE, 10_000, id="for-days"),
    pytest.param(1,       1000,   10_000, 0.0,    800,    id="a-fifth-less"),
    pytest.param(5,       1000,   10_000, 0.75,   11_000, id="a-tenth-more"),
    pytest.param(3,       1000,   100,    MIDDLE, 1000,   id="a-most-below-the-first-does-not-shorten-it"),
    pytest.param(3,       0,      10_000, MIDDLE, 0,      id="none"),
]
DELAYS = [  # code                          asked current  refusals  until
    pytest.param(NO_ERROR,                     5, 5,       None,                      id="no-refusal"),
    pytest.param(KafkaStorageError.code,       5, 5,       (1, NOW_MS + 1000),        id="storage"),
    pytest.param(CorruptLogError.code,         5, 5,       (1, NOW_MS + 1000),        id="corrupt"),
    pytest.param(NotLeaderOrFollowerError.code, 5, 5,      (1, NOW_MS + 1000),        id="not-the-leader"),
    pytest.param(UnknownLeaderEpochError.code, 5, 5,       (1, NOW_MS + 1000),        id="leader-is-behind"),
    pytest.param(UnknownTopicIdError.code,     5, 5,       (1, NOW_MS + 1000),        id="topic-not-known-yet"),
    pytest.param(OffsetOutOfRangeError.code,   5, 5,       (1, NOW_MS + 1000),        id="out-of-range"),
    pytest.param(-1,                           5, 5,       (1, NOW_MS + 1000),        id="unknown"),
    pytest.param(FencedLeaderEpochError.code,  5, 5,       (1, None),                 id="fenced-under-the-newest-known-waits-for-a-newer"),
    pytest.param(FencedLeaderEpochError.code,  5, 6,       None,                      id="fenced-under-an-older-tries-the-newer"),
    pytest.param(KafkaStorageError.code,       5, 6,       None,                      id="another-leader-is-tried-at-once"),
    pytest.param(KafkaStorageError.code,       5, None,    None,                      id="partition-is-gone"),
]
# fmt: on


@pytest.mark.parametrize("count, first_ms, max_ms, random, expected", BACKOFFS)
def test_back_off(count, first_ms, max_ms, random, expected):
    assert backoff_ms(count, first_ms=first_ms, max_ms=max_ms, random=random) == expected


@pytest.mark.parametrize("code, asked, current, expected", DELAYS)
def test_delay_after_one_refusal(code, asked, current, expected):
    after = delay(code, asked=asked, current=current)

    assert (None if after is None else (after.refusal_count, after.until_ms)) == expected


def test_refusals_in_a_row_wait_longer_and_progress_starts_again():
    waits, last = [], None
    for has_progressed in (False, False, False, True, False):
        last = delay(KafkaStorageError.code, last, has_progressed=has_progressed)
        waits.append(last.until_ms - NOW_MS)

    assert waits == [1000, 2000, 4000, 1000, 2000]
    assert delay(NO_ERROR, last) is None


def test_refusals_of_an_older_leadership_do_not_count():
    before = FetchDelay(leader_epoch=4, refusal_count=7, until_ms=NOW_MS)

    assert delay(KafkaStorageError.code, before).refusal_count == 1


# fmt: off
REMAINING = [  # until     asked under  remaining
    pytest.param(NOW_MS + 5, 5,         5,    id="some-time"),
    pytest.param(NOW_MS,     5,         0,    id="over"),
    pytest.param(NOW_MS - 5, 5,         0,    id="long-over"),
    pytest.param(None,       5,         None, id="no-time-helps"),
    pytest.param(None,       6,         0,    id="but-a-newer-leadership-does"),
    pytest.param(NOW_MS + 5, 6,         0,    id="a-newer-leadership-ends-a-back-off"),
]
# fmt: on


def test_an_inspection_does_not_wait_for_a_newer_leadership():
    delay = FetchDelay(5, 1, None, inspect_at_ms=NOW_MS + 7)

    assert delay.remaining_ms(5, NOW_MS) is None
    assert delay.remaining_ms(5, NOW_MS, is_inspection=True) == 7
    assert delay.remaining_ms(5, NOW_MS + 7, is_inspection=True) == 0
    assert delay.remaining_ms(6, NOW_MS, is_inspection=True) == 0


@pytest.mark.parametrize("until_ms, leader_epoch, expected", REMAINING)
def test_remaining(until_ms, leader_epoch, expected):
    assert FetchDelay(5, 1, until_ms).remaining_ms(leader_epoch, NOW_MS) == expected


def test_every_small_history_waits_at_most_the_most_and_never_without_a_refusal():
    codes = (NO_ERROR, KafkaStorageError.code, FencedLeaderEpochError.code)
    checked = 0
    for history in product(codes, repeat=4):
        last = None
        for code in history:
            last = delay(code, last, random=0.999)
            checked += 1
            assert (last is None) is (code == NO_ERROR)
            if code == KafkaStorageError.code:
                assert 0 < last.until_ms - NOW_MS <= 1.2 * MAX_MS
    assert checked == 4 * 3**4
