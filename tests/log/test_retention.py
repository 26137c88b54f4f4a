"""What a log may keep: by age, by size, and never more than is committed goes."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.config import Settings
from kafka_on_spark.log.retention import RetentionLimits, is_lower, limits_of, retained
from tests.builders import NOW_MS, batch, log

AGE_MS = 1000
OLD = AGE_MS + 1
YEAR_MS = 365 * 24 * 60 * 60 * 1000


def log_of(*ages, sizes=None, append_time=False):
    """Return a log of single records; an age is (of the append, of the timestamp), or both."""
    batches = []
    for base, age in enumerate(ages):
        appended, stamped = age if isinstance(age, tuple) else (age, age)
        made = batch("abcdefgh"[base], base)
        time_us = (NOW_MS - stamped) * 1000
        size = 100 if sizes is None else sizes[base]
        segment = replace(
            made.segments[0], size_bytes=size, timestamp_min_us=time_us, timestamp_max_us=time_us
        )
        batches.append(
            replace(
                made,
                segments=(segment,),
                appended_at_ms=NOW_MS - appended,
                has_append_time=append_time,
            )
        )
    return replace(log(), batches=tuple(batches), log_end_offset=len(batches))


def kept_from(state, ms=None, size=None, *, high_watermark=None, start=0, now_ms=NOW_MS):
    found = retained(
        state,
        RetentionLimits(retention_ms=ms, retention_bytes=size),
        log_start_offset=start,
        high_watermark=state.log_end_offset if high_watermark is None else high_watermark,
        now_ms=now_ms,
    )
    return found.log_start_offset


# fmt: off
BY_AGE = [  # ages, oldest first                                kept from
    pytest.param([OLD, OLD, 0],                                 2, id="old-ones-go"),
    pytest.param([OLD, OLD, OLD],                               3, id="the-newest-goes-too"),
    pytest.param([AGE_MS, 0],                                   0, id="exactly-as-old-as-allowed"),
    pytest.param([0, OLD],                                      0, id="behind-a-young-one-nothing-goes"),
    pytest.param([],                                            0, id="no-batches"),
    pytest.param([(OLD, -YEAR_MS), 0],                          1, id="a-timestamp-in-the-future-keeps-nothing-for-ever"),
    pytest.param([(0, OLD), 0],                                 1, id="an-old-timestamp-goes-at-once-as-in-kafka"),
    pytest.param([(0, OLD), (YEAR_MS, 0), 0],                   1, id="an-append-time-before-the-one-before-is-a-wrong-clock"),
    pytest.param([(-YEAR_MS, OLD), (OLD, OLD)],                 2, id="an-append-time-in-the-future-keeps-nothing-either"),
]
# fmt: on


@pytest.mark.parametrize("ages, expected", BY_AGE)
def test_what_is_too_old_goes(ages, expected):
    assert kept_from(log_of(*ages), AGE_MS) == expected


@pytest.mark.parametrize("ages, expected", [([OLD, OLD, 0], 2), ([0, YEAR_MS], 0)])
def test_with_append_time_it_alone_counts(ages, expected):
    assert kept_from(log_of(*ages, append_time=True), AGE_MS) == expected


# fmt: off
BY_SIZE = [  # sizes, oldest first  limit  kept from
    pytest.param([100, 100, 100],   200,   1, id="what-is-left-is-still-as-much-as-the-limit"),
    pytest.param([100, 100, 100],   201,   0, id="less-would-be-left"),
    pytest.param([100, 100, 100],   300,   0, id="exactly-the-limit"),
    pytest.param([100, 100, 100],   100,   2, id="the-last-one-alone-is-as-much"),
    pytest.param([100, 100, 100],   0,     3, id="nothing-is-allowed"),
    pytest.param([500, 100, 100],   200,   1, id="a-large-one-first"),
    pytest.param([100, 100, 500],   200,   2, id="a-large-one-last-stays"),
]
# fmt: on


@pytest.mark.parametrize("sizes, limit, expected", BY_SIZE)
def test_what_is_too_much_goes(sizes, limit, expected):
    state = log_of(*[0] * len(sizes), sizes=sizes)

    assert kept_from(state, size=limit) == expected


@pytest.mark.parametrize("high_watermark", range(4))
def test_nothing_at_or_above_the_high_watermark_goes(high_watermark):
    state = log_of(OLD, OLD, OLD)

    assert kept_from(state, AGE_MS, high_watermark=high_watermark) == high_watermark
    assert kept_from(state, size=0, high_watermark=high_watermark) == high_watermark


def test_a_batch_that_is_committed_in_part_stays_whole():
    made = batch("a", 0, "4")
    state = replace(log(), batches=(replace(made, appended_at_ms=0),), log_end_offset=4)

    assert kept_from(state, AGE_MS, high_watermark=3) == 0


def test_it_says_what_goes_what_stays_and_when_the_next_batch_goes():
    found = retained(
        log_of(OLD + 5, OLD, 300, 0),
        RetentionLimits(retention_ms=AGE_MS, retention_bytes=100),
        log_start_offset=0,
        high_watermark=4,
        now_ms=NOW_MS,
    )

    assert (found.expired_to, found.log_start_offset) == (2, 3)
    assert (found.removed_bytes, found.kept_bytes) == (300, 100)
    assert found.newest_ms == NOW_MS - OLD
    assert found.expires_at_ms == NOW_MS + AGE_MS + 1


# fmt: off
LIMITS = [  # cleanup.policy            ms    bytes   limits
    pytest.param("delete",              "5",  "-1",   (5, None),    id="age"),
    pytest.param("delete",              "-1", "7",    (None, 7),    id="size"),
    pytest.param("compact, delete",     "0",  "0",    (0, 0),       id="both"),
    pytest.param("delete",              "-1", "-1",   None,         id="neither"),
    pytest.param("compact",             "5",  "7",    None,         id="compacted-only"),
]
# fmt: on


@pytest.mark.parametrize("policy, ms, size, expected", LIMITS)
def test_limits_of_settings(policy, ms, size, expected):
    given = {"cleanup.policy": policy, "retention.ms": ms, "retention.bytes": size}

    limits = limits_of(Settings((given,)))

    assert (limits and (limits.retention_ms, limits.retention_bytes)) == expected


# fmt: off
LOWER = [  # ms and bytes now, and before; None: everything is kept
    pytest.param(None,       (5, None), False, id="nothing-goes"),
    pytest.param((5, None),  None,      True,  id="what-was-kept"),
    pytest.param((5, None),  (6, None), True,  id="younger"),
    pytest.param((6, None),  (5, None), False, id="older"),
    pytest.param((5, 9),     (5, None), True,  id="also-by-size"),
    pytest.param((9, 5),     (5, 9),    True,  id="one-of-both"),
    pytest.param((5, 9),     (5, 9),    False, id="equal"),
]
# fmt: on


@pytest.mark.parametrize("now, before, expected", LOWER)
def test_limits_are_lower_if_one_of_them_is(now, before, expected):
    now, before = (
        each and RetentionLimits(retention_ms=each[0], retention_bytes=each[1])
        for each in (now, before)
    )

    assert is_lower(now, before) is expected
