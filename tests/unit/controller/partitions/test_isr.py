"""Which members leave and join the ISR: the ladder of AlterPartition's checks, and lag."""

from dataclasses import replace
from itertools import product

import pytest

from kafka_on_spark.controller.partitions.isr import alter_isr
from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.ids import LOST
from tests.builders import NOW_MS, broker, disk, image_of, partition, report, seen

LATE = NOW_MS - 30_001  # replica.lag.time.max.ms is 30,000
OFFLINE = {"error_code": KafkaStorageError.code, "error": "no answer"}
SHORT = partition("1 2 3", isr="1 2", hw=10, leo=20)


HALF = NOW_MS - 15_000


# fmt: off
EDGE = [  # what broker 3 lacks, with the high watermark; bytes allowed             joins
    pytest.param({},                                                   None,  True,  id="nothing"),
    pytest.param({"missing_since_ms": HALF},                           None,  True,  id="half-of-the-time-allowed"),
    pytest.param({"missing_since_ms": HALF - 1},                       None,  False, id="more-than-half-of-it"),
    pytest.param({"missing_since_ms": LATE},                           None,  False, id="it-would-leave-at-once"),
    pytest.param({"missing_since_ms": HALF, "missing_bytes": 50},      "100", True,  id="half-of-the-bytes-allowed"),
    pytest.param({"missing_since_ms": HALF, "missing_bytes": 51},      "100", False, id="more-than-half-of-them"),
    pytest.param({"missing_since_ms": HALF, "missing_bytes": 1},       "0",   False, id="no-bytes-are-allowed"),
    pytest.param({"missing_since_ms": HALF, "missing_bytes": 1},       "1",   False, id="half-of-one-is-none"),
    pytest.param({"missing_since_ms": HALF, "missing_bytes": 10**9},   None,  True,  id="however-many-bytes"),
    pytest.param({"missing_since_ms": NOW_MS + 9},                     None,  True,  id="append-time-in-the-future"),
]
# fmt: on


@pytest.mark.parametrize("lag, bytes_max, joins", EDGE)
def test_follower_joins_only_where_it_would_stay(lag, bytes_max, joins):
    configs = {} if bytes_max is None else {"replica.lag.max.bytes": bytes_max}
    round_ = report(seen(1, 20), seen(2, 20), seen(3, 12, **lag))

    assert (alter_isr(image_of(SHORT, configs=configs), round_) is not None) is joins


@pytest.mark.parametrize("fields", [{"lost": "3"}, {"unmade": "3"}])
def test_replica_that_is_not_made_does_not_join(fields):
    round_ = report(seen(1, 20), seen(2, 20), seen(3, 20))

    assert alter_isr(image_of(partition("1 2 3", isr="1 2", hw=10, **fields)), round_) is None


def test_replica_that_was_made_on_another_disk_than_the_brokers_does_not_join():
    """The broker has another disk; that the replica is lost was not recorded yet."""
    image = image_of(SHORT)
    image = replace(image, brokers={**image.brokers, 3: replace(broker(3), directory_id=disk(9))})
    round_ = report(seen(1, 20), seen(2, 20), seen(3, 20, directory_id=disk(9)))

    assert alter_isr(image, round_) is None


# fmt: off
BAD = [  # who is bad                  isr after, leader after
    pytest.param(SHORT, "leader",   {2},       2,    id="leader-is-bad"),
    pytest.param(SHORT, "member",   {1},       1,    id="member-is-bad"),
    pytest.param(SHORT, "outsider", {1, 2},    1,    id="outsider-is-bad"),
    pytest.param(partition("1 2 3", isr="1", hw=10), "leader", {1}, None, id="last-member-is-bad"),
]
# fmt: on


@pytest.mark.parametrize("before, who, isr, leader", BAD)
def test_bad_replica_is_lost_whatever_else_was_seen(before, who, isr, leader):
    bad = {"is_bad": True, "is_bad_twice": True, **OFFLINE}
    rows = [
        seen(1, 20, **(bad if who == "leader" else {})),
        seen(2, 20, **(bad if who == "member" else {})),
    ]
    round_ = report(*rows, seen(3, 20, **(bad if who == "outsider" else {})))

    record = alter_isr(image_of(before), round_)
    after = before.merge(record.change)

    place = ("leader", "member", "outsider").index(who)
    assert (after.isr, after.leader, after.directories[place]) == (isr, leader, LOST)
    assert record.cause == f"broker {place + 1}: replica is bad: no answer"


def test_every_small_round_keeps_the_isr_sound():
    """Each follower absent, behind, late, caught up, or wrong: leader stays, nobody unfit joins."""
    reports = {
        "absent": lambda each: None,
        "behind": lambda each: seen(each, 9),
        "late": lambda each: seen(each, 9, missing_since_ms=LATE),
        "caught-up": lambda each: seen(each, 20),
        "stale": lambda each: seen(each, 20, fence=4),
        "unreadable": lambda each: seen(each, **OFFLINE),
    }
    checked = 0
    for isr, second, third, since in product(
        ["1", "1 2", "1 3", "1 2 3"], reports, reports, [None, LATE]
    ):
        followers = [row for row in (reports[second](2), reports[third](3)) if row is not None]
        before = partition("1 2 3", isr=isr, hw=10)
        round_ = report(seen(1, 20), *followers, uncommitted_since_ms=since)
        checked += 1

        record = alter_isr(image_of(before), round_)

        after = before if record is None else before.merge(record.change)
        by_name = {2: second, 3: third}
        assert 1 in after.isr
        assert after.leader == 1
        assert after.leader_epoch == before.leader_epoch
        assert {by_name[each] for each in after.isr - before.isr} <= {"caught-up"}
        for gone in before.isr - after.isr:
            assert by_name[gone] == "late" or (
                since is not None and by_name[gone] in ("absent", "stale", "unreadable")
            )
    assert checked == 288
