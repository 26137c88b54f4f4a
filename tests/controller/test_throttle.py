"""Bytes dealt out to fetches: what accrues, who gets how much, and that nobody starves."""

import pytest

from kafka_on_spark.controller.fetch_plan import Demand, Quota, accrue, deal, is_named, wait_ms

LEADER, FOLLOWER = 0, 1

# fmt: off
WAITS = [  # credit in thousandths  rate   ms
    pytest.param(1000,    500,   0,     id="a-byte-is-there"),
    pytest.param(0,       500,   2,     id="a-byte-takes-two"),
    pytest.param(999,     1,     1,     id="rounded-up"),
    pytest.param(-500_000, 500,  1002,  id="debt-and-a-byte"),
]
# fmt: on


@pytest.mark.parametrize("credit, rate, expected", WAITS)
def test_wait(credit, rate, expected):
    quota = Quota(credit, 0)

    wait = wait_ms(quota, bytes_per_s=rate)

    assert wait == expected
    assert accrue(quota, bytes_per_s=rate, now_ms=wait).credit_bytes >= 1


def both(**fields):
    return Demand((LEADER, FOLLOWER), **fields)


# fmt: off
DEALT = [  # demands                                           credits        least  dealt
    pytest.param([],                                             (100, 100),  10,    [],             id="nobody"),
    pytest.param([Demand(())],                                   (0, 0),      10,    [None],         id="unthrottled"),
    pytest.param([both()],                                       (100, 70),   10,    [70],           id="the-smaller-of-two-quotas"),
    pytest.param([Demand((LEADER,)), Demand((FOLLOWER,))],       (100, 70),   10,    [100, 70],      id="each-its-own"),
    pytest.param([both(), both()],                               (100, 100),  10,    [50, 50],       id="equal-shares"),
    pytest.param([both(), both(), both()],                       (20, 20),    10,    [10, 10, 0],    id="few-in-full-rather-than-all-in-small-parts"),
    pytest.param([both(), both()],                               (5, 5),      10,    [5, 0],         id="less-than-the-least-serves-one"),
    pytest.param([both(served_in=3), both(served_in=2)],         (5, 5),      10,    [0, 5],         id="who-was-served-longest-ago-first"),
    pytest.param([both(), both(served_in=9, is_in_sync=True)],   (5, 5),      10,    [0, 5],         id="in-sync-first-all-the-same"),
    pytest.param([both(), both()],                               (0, 100),    10,    [0, 0],         id="one-quota-is-spent"),
    pytest.param([both()],                                       (1, 1),      0,     [1],            id="no-least"),
    pytest.param([both(), both(), both()],                       (2, 2),      0,     [1, 1, 0],      id="a-byte-is-the-least-of-all"),
]
# fmt: on


@pytest.mark.parametrize("demands, credits, least, expected", DEALT)
def test_dealing(demands, credits, least, expected):
    assert deal(demands, dict(enumerate(credits)), share_bytes_min=least) == expected


@pytest.mark.parametrize("batch_bytes", [1, 90, 1000, 7000])
@pytest.mark.parametrize("fetch_count", [1, 3, 10])
def test_a_job_keeps_to_its_rate_and_every_fetch_gets_on(batch_bytes, fetch_count):
    """Whole batches, more of them than the rate lets through, for ten minutes of rounds."""
    rate, seconds = 500, 600
    quota, copied = None, [0] * fetch_count
    served = [0] * fetch_count
    for number in range(1, 2 * seconds + 1):
        quota = accrue(quota, bytes_per_s=rate, now_ms=500 * number)
        demands = [Demand((0,), served_in=each) for each in served]
        dealt = deal(demands, {0: quota.credit_bytes}, share_bytes_min=100)
        assert sum(dealt) <= quota.credit_bytes
        for place, granted in enumerate(dealt):
            if granted:
                served[place] = number
                size = batch_bytes * -(-granted // batch_bytes)  # whole, and one at least
                copied[place] += size
                quota = quota.less(size)

    overshoot = fetch_count * batch_bytes  # the last batch of each
    assert sum(copied) <= rate * (seconds + 1) + overshoot
    assert sum(copied) >= rate * seconds - overshoot
    assert min(copied) >= batch_bytes


# fmt: off
NAMED = [  # list          partition  broker  named
    pytest.param("*",            7, 9,  True,  id="all"),
    pytest.param("",             0, 1,  False, id="none"),
    pytest.param("0:1,0:2",      0, 2,  True,  id="one-of-two"),
    pytest.param("0:1,0:2",      1, 2,  False, id="another-partition"),
    pytest.param("10:12",        0, 1,  False, id="whole-numbers"),
]
# fmt: on


@pytest.mark.parametrize("text, number, broker_id, expected", NAMED)
def test_throttled_replicas(text, number, broker_id, expected):
    assert is_named(text, number, broker_id) is expected
