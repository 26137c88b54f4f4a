"""When retention looks at a leader's log again."""

import pytest

from kafka_on_spark.controller.pace.retention_looks import (
    LOOK_AGAIN_MS_MAX,
    can_delete,
    is_due,
    last_look,
)
from kafka_on_spark.log.upkeep.retention import Retained, RetentionLimits
from tests.builders import NOW_MS, partition

BOTH = RetentionLimits(retention_ms=1000, retention_bytes=500)
AGE = RetentionLimits(retention_ms=1000, retention_bytes=None)
SIZE = RetentionLimits(retention_ms=None, retention_bytes=500)
INTERVAL_MS = 100
AT_MS = 50


def registered(hw=8, **fields):
    return partition("1 2 3", hw=hw, **fields)


def looked(limits=BOTH, *, expires_in=None, failed=False, before=None):
    found = Retained(
        log_start_offset=0,
        expired_to=0,
        newest_ms=None,
        removed_bytes=0,
        kept_bytes=0,
        kept_batches=1,
        expires_at_ms=None if expires_in is None else NOW_MS + expires_in,
    )
    return last_look(
        limits,
        before or registered(),
        None if failed else found,
        wall_ms=NOW_MS,
        monotonic_ms=AT_MS,
        interval_ms=INTERVAL_MS,
    )


# fmt: off
DUE = [  # limits of now, partition of now, the last look              due after (ms), None: never
    pytest.param(AGE,  registered(),    looked(AGE, expires_in=700),   700,  id="when-a-batch-expires"),
    pytest.param(AGE,  registered(),    looked(AGE, expires_in=7),     100,  id="not-before-the-interval-is-over"),
    pytest.param(AGE,  registered(),    looked(AGE, expires_in=-9),    100,  id="expired-but-not-committed"),
    pytest.param(AGE,  registered(),    looked(AGE, expires_in=10**9), LOOK_AGAIN_MS_MAX, id="a-wrong-clock-is-put-right-some-day"),
    pytest.param(AGE,  registered(9),   looked(AGE, expires_in=700),   700,  id="growth-does-not-age-it"),
    pytest.param(AGE,  registered(9),   looked(AGE),                   100,  id="it-was-empty-and-has-grown"),
    pytest.param(SIZE, registered(),    looked(SIZE),                  None, id="nothing-was-added"),
    pytest.param(SIZE, registered(9),   looked(SIZE),                  100,  id="it-has-grown"),
    pytest.param(BOTH, registered(),    looked(failed=True),           100,  id="the-look-failed"),
    pytest.param(AGE,  registered(),    looked(BOTH, expires_in=700),  0,    id="other-settings"),
    pytest.param(BOTH, registered(),    None,                          0,    id="never-looked-at"),
]
# fmt: on


@pytest.mark.parametrize("limits, now, last, expected", DUE)
def test_due(limits, now, last, expected):
    times = [AT_MS, *(AT_MS + each for each in (99, 100, 699, 700, LOOK_AGAIN_MS_MAX - 1))]
    times += [AT_MS + LOOK_AGAIN_MS_MAX, AT_MS + 10 * LOOK_AGAIN_MS_MAX]

    due = [is_due(now, limits, last, each) for each in times]

    assert due == [expected is not None and each >= AT_MS + expected for each in times]


# fmt: off
NOTHING = [
    pytest.param(registered(leader=None),          id="nobody-leads"),
    pytest.param(registered(unmade="1"),           id="its-leader-was-never-created"),
    pytest.param(registered(hw=3, start=3),        id="no-committed-records"),
]
# fmt: on


@pytest.mark.parametrize("now", NOTHING)
def test_what_has_nothing_to_delete_is_never_due(now):
    assert not can_delete(now)
    assert not is_due(now, BOTH, None, 10**12)
