"""Who is in sync: by lag, by AlterPartition's checks, and where logs diverge or can't be read."""

from dataclasses import replace
from itertools import product

import pytest

from kafka_on_spark.base.errors import InvalidRequestError, KafkaStorageError
from kafka_on_spark.base.ids import KEEP, LOST, BrokerId, LeaderEpoch, PartitionKey
from kafka_on_spark.controller.election import lose_replica
from kafka_on_spark.controller.isr import alter_isr, conclude, leave_unreadable, raise_epoch
from tests.builders import (
    KEY,
    NOW_MS,
    broker,
    brokers,
    disk,
    image_of,
    partition,
    report,
    seen,
    uuid_on,
)

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


JUST_NOW = NOW_MS - 30_000


FULL = partition("1 2 3", hw=10, leo=20)


# fmt: off
JOINING = [  # what is seen of broker 3, out of the ISR; high watermark 10, leadership from 8
    pytest.param(seen(3, 20),                                       True,  id="caught-up"),
    pytest.param(seen(3, 10),                                       True,  id="at-the-high-watermark"),
    pytest.param(seen(3, 9),                                        False, id="below-the-high-watermark"),
    pytest.param(seen(3, 20, fence=4),                              False, id="fenced-at-an-older-leadership"),
    pytest.param(seen(3, 20, fence=6),                              False, id="fenced-at-a-newer-leadership"),
    pytest.param(seen(3, 20, fence=None),                           False, id="not-fenced"),
    pytest.param(seen(3, 20, is_matched=False),                     False, id="not-the-leaders-log"),
    pytest.param(seen(3, 20, **OFFLINE),                            False, id="not-readable"),
    # Of another making or another disk (KIP-903).
    pytest.param(seen(3, 20, replica_uuid="uuid9"),                 False, id="another-making"),
    pytest.param(seen(3, 20, directory_id=disk(9)),                 False, id="another-disk"),
    pytest.param(seen(3, 20, directory_id=None),                    False, id="disk-not-seen"),
    pytest.param(seen(2, 20),                                       False, id="in-sync-already"),
    pytest.param(seen(4, 20),                                       False, id="not-a-replica"),
]

# fmt: on


@pytest.mark.parametrize("follower, joins", JOINING)
def test_follower_joins_with_all_that_is_asked_of_it(follower, joins):
    round_ = report(seen(1, 20), seen(2, 20), follower, epoch_start=8)

    record = alter_isr(image_of(SHORT), round_)

    assert (record is not None) is joins
    if record is not None:
        assert record.change.isr == {1, 2, 3}
        assert record.cause == f"broker 3: caught up at offset {follower.log_end_offset} in epoch 5"
        assert (record.leader_epoch, record.partition_epoch) == (5, 10)


# fmt: off
LEAVING = [  # what is seen of broker 3, in the ISR                                   bytes  leaves
    pytest.param(seen(3, 20),                                                          None, False, id="lacks-nothing"),
    pytest.param(seen(3, 12, missing_since_ms=JUST_NOW),                               None, False, id="behind-but-not-for-long"),
    pytest.param(seen(3, 12, missing_since_ms=LATE),                                   None, True,  id="behind-too-long"),
    pytest.param(seen(3, 12, missing_since_ms=NOW_MS + 99),                            None, False, id="append-time-in-the-future"),
    pytest.param(seen(3, 12, missing_since_ms=JUST_NOW, missing_bytes=101),            "100", True,  id="too-many-bytes-behind"),
    pytest.param(seen(3, 12, missing_since_ms=JUST_NOW, missing_bytes=100),            "100", False, id="as-many-bytes-behind-as-allowed"),
    pytest.param(seen(3, 12, missing_since_ms=JUST_NOW, missing_bytes=10**9),          None, False, id="no-limit-of-bytes"),
    pytest.param(seen(3, 12, missing_since_ms=JUST_NOW, missing_bytes=1), "0", True, id="no-bytes-behind-are-allowed"),
    # Not to be counted: as if its log ended at the high watermark (uncommitted since LATE).
    pytest.param(seen(3, 20, fence=4),                                                 None, True,  id="not-fenced-at-this-leadership"),
    pytest.param(seen(3, 20, is_matched=False),                                        None, True,  id="not-the-leaders-log"),
    pytest.param(seen(3, 0, **OFFLINE),                                                None, True,  id="not-readable"),
    pytest.param(None,                                                                 None, True,  id="not-seen-at-all"),
]

# fmt: on


@pytest.mark.parametrize("follower, bytes_max, leaves", LEAVING)
def test_member_leaves_by_lag(follower, bytes_max, leaves):
    configs = {} if bytes_max is None else {"replica.lag.max.bytes": bytes_max}
    followers = [seen(2, 20)] if follower is None else [seen(2, 20), follower]
    round_ = report(seen(1, 20), *followers, uncommitted_since_ms=LATE)

    record = alter_isr(image_of(FULL, configs=configs), round_)

    assert (record is not None) is leaves
    if record is not None:
        assert record.change.isr == {1, 2}
        assert record.change.leader is KEEP
        assert "broker 3: lags by" in record.cause


def test_nobody_leaves_while_nothing_is_uncommitted():
    """An idle partition has no lag, however long a root does not answer: probes are for that."""
    round_ = report(seen(1, 10), seen(2, 10), seen(3, 0, **OFFLINE), uncommitted_since_ms=None)

    assert alter_isr(image_of(FULL), round_) is None


# fmt: off
STALE = [  # a report that was made on an older image
    pytest.param({"version": 8},                    id="another-change-came-between"),
    pytest.param({"version": 10},                   id="report-of-the-future"),
    pytest.param({"epoch": 4},                      id="older-leadership"),
    pytest.param({"key": PartitionKey(KEY.topic_id, 7)}, id="partition-is-gone"),
    pytest.param({"key": PartitionKey("0" * 32, 0)}, id="topic-is-gone"),
]

# fmt: on


@pytest.mark.parametrize("fields", STALE)
def test_report_on_an_older_image_says_nothing(fields):
    round_ = report(seen(1, 20), seen(2, 20), seen(3, 20), **fields)

    assert alter_isr(image_of(SHORT), round_) is None


def leaves(registration, *, broker_id=1, uuid=None, readable="2 3", fenced=""):
    image = image_of(*registration, fenced=fenced)
    result = leave_unreadable(
        image,
        KEY,
        BrokerId(broker_id),
        uuid_on(broker_id) if uuid is None else uuid,
        readable=frozenset(brokers(readable)),
        cause="EIO",
    )
    assert result.response is bool(result.records)
    return result.response


# fmt: off
CASES = [
    pytest.param([partition("1 2 3")],              {},                  True,  id="the leader"),
    pytest.param([partition("1 2 3")],              {"broker_id": 3, "readable": "1 2"}, False, id="a follower"),
    pytest.param([],                                {},                  False, id="the partition is gone"),
    pytest.param([partition("1 2 3", isr="2 3", leader=2)], {},          False, id="it is out of the ISR"),
    pytest.param([partition("1 2 3")],              {"uuid": ""},        False, id="an earlier incarnation"),
    pytest.param([partition("1 2 3")],              {"uuid": "~"},       False, id="a later incarnation"),
    pytest.param([partition("1 2 3")],              {"readable": ""},    False, id="nobody can be read"),
    pytest.param([partition("1 2 3")],              {"readable": "1"},   False, id="it alone can be read"),
    pytest.param([partition("1 2 3", isr="1 2")],   {"readable": "3"},   False, id="only who is not in sync can be read"),
    pytest.param([partition("1 2 3")],              {"readable": "2", "fenced": "2"}, False, id="only who is fenced can be read"),
]

# fmt: on


@pytest.mark.parametrize("registration, how, expected", CASES)
def test_a_replica_leaves_where_a_member_is_left_that_can_be_read(registration, how, expected):
    assert leaves(registration, **how) is expected


def test_a_person_may_call_a_replica_lost_that_is_made_and_no_other():
    image = image_of(partition("1 2 3", unmade="3", isr="1 2"))

    [record] = lose_replica(image, KEY, BrokerId(2), "by request").records
    assert image.partition(KEY).merge(record.change).directory_of(BrokerId(2)) == LOST

    for broker_id in (3, 4):
        with pytest.raises(InvalidRequestError, match="one of the brokers 1, 2"):
            lose_replica(image, KEY, BrokerId(broker_id), "by request")


def diverged(broker_id, **fields):
    """Return a report on a follower whose log diverges from its leader's."""
    return seen(broker_id, 4, is_matched=False, is_diverged=True, **fields)


def raised(*followers, isr="1 2 3", elr="", minimum=1, leader=None, **fields):
    image = image_of(
        partition("1 2 3 4", isr=isr, elr=elr, hw=2, hw_epoch=5, leo=4),
        ids="1 2 3 4",
        configs={"min.insync.replicas": str(minimum)},
    )
    return raise_epoch(image, report(leader or seen(1, 4), *followers, **fields))


# fmt: off
LEAVING_DIVERGED = [  # diverged minimum  ISR afterwards
    pytest.param("2",    1,      {1, 3},  id="one leaves"),
    pytest.param("2",    2,      {1, 3},  id="and leaves the minimum"),
    pytest.param("2",    3,      KEEP,    id="it stays where fewer than the minimum would be left"),
    pytest.param("2 3",  1,      {1},     id="two leave"),
    pytest.param("2 3",  2,      {1, 3},  id="one of two may leave"),
]

# fmt: on


@pytest.mark.parametrize("names, minimum, isr", LEAVING_DIVERGED)
def test_a_diverged_member_leaves_the_isr_as_long_as_its_minimum_is_left(names, minimum, isr):
    record = raised(*(diverged(int(each)) for each in names.split()), minimum=minimum)

    assert record.change.leader == 1
    assert record.leader_epoch == 6
    assert record.partition_epoch == 10
    assert record.change.isr == isr
    assert "its log diverges from broker 1's above the high watermark 2 in epoch 5" in record.cause


# fmt: off
ELIGIBLE = [  # diverged ISR    ELR    ELR afterwards
    pytest.param("3",    "1 2", "3 4", {4},   id="one leaves"),
    pytest.param("3 4",  "1 2", "3 4", {4},   id="one of two may leave"),
    pytest.param("2 3",  "1 2", "3 4", {4},   id="an in-sync member stays below the minimum"),
    pytest.param("2",    "1",   "2",   KEEP,  id="it stays where fewer than the minimum would be left"),
]

# fmt: on


@pytest.mark.parametrize("names, isr, elr, left", ELIGIBLE)
def test_an_eligible_diverged_replica_leaves_the_elr_and_is_not_bad(names, isr, elr, left):
    """Its leader may be the one that was rolled back (found by simulation)."""
    followers = [diverged(int(each)) for each in names.split()]
    record = raised(*followers, isr=isr, elr=elr, minimum=3)

    assert record.change.leader == 1
    assert record.leader_epoch == 6
    assert (record.change.isr, record.change.elr) == (KEEP, left)


# fmt: off
NOTHING = [
    pytest.param({"followers": [seen(2, 4)]},                                  id="no log diverges"),
    pytest.param({"followers": [diverged(4)]},                                   id="the diverged replica is neither in sync nor eligible"),
    pytest.param({"followers": [diverged(2, replica_uuid=uuid_on(9))]},          id="it is another replica"),
    pytest.param({"followers": [diverged(2)], "version": 8},                     id="the partition has changed since"),
    pytest.param({"followers": [diverged(2)], "epoch": LeaderEpoch(4)},          id="of an older leadership"),
    pytest.param({"followers": [diverged(2)], "leader": seen(3, 4)},             id="of another leader"),
    pytest.param({"followers": [diverged(2)], "leader": seen(1, 4, fence=4)},    id="the leader has not adopted it"),
    pytest.param({"followers": [diverged(2)], "leader": seen(1, 4, error_code=56)}, id="the leader was not read"),
]

# fmt: on


@pytest.mark.parametrize("inspected", NOTHING)
def test_no_epoch_is_raised_where(inspected):
    assert raised(*inspected.pop("followers"), **inspected) is None


def test_a_decision_that_raises_the_epoch_counts_no_log_end():
    image = image_of(partition("1 2", hw=2, hw_epoch=5), configs={"min.insync.replicas": "2"})

    decided = conclude(image, [report(seen(1, 4), diverged(2))])

    assert decided.response == 1
    assert all(getattr(each, "high_watermark", None) is None for each in decided.records)
