"""What an append that waits decides for itself: for what it waits for alone, and with care."""

from dataclasses import replace

import pytest

from kafka_on_spark.controller.commands.small_pass import (
    SMALL_PASS,
    Facts,
    reached_by_others,
    readmitted_by_others,
    small_pass,
    why_all_lost,
)
from kafka_on_spark.ids import KEEP, BrokerId, ControllerEpoch, Offset, PartitionKey
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.image import ControllerLease
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import (
    ControllerRecord,
    MetadataBatch,
    PartitionChangeRecord,
    Stamp,
)
from tests.builders import KEY, TOPIC, TOPIC_ID, brokers, disk, image_of, partition, whole

TWO = {"min.insync.replicas": "2"}
SECOND = PartitionKey(TOPIC_ID, 1)
RESIGNED = ControllerLease(
    controller_id=None, controller_epoch=ControllerEpoch(4), offset=Offset(90)
)


def facts(image, *, silent="1", answering="2 3", waits=(KEY,), **fields):
    given = {
        "waits": {key: image.partition(key) for key in waits},
        "silent": {each: "probe failed 7 times in 9.1 s (away)" for each in brokers(silent)},
        "before": dict.fromkeys(brokers(silent), image),
        "answering": frozenset(brokers(answering)),
        "lease": image.controller,
        "controller_id": "host-7-abc",
        "caller": "process 7 on host",
    }
    return Facts(**(given | fields))


# fmt: off
DECISIONS = [
    # the partition, who is silent, who answers; the leader and the ISR that it leads to
    pytest.param(partition("1 2 3"),                     "1",   "2 3", 2,    "2 3", id="the leader"),
    pytest.param(partition("1 2 3"),                     "3",   "1 2", KEEP, "1 2", id="a follower"),
    pytest.param(partition("2 1 3", leader=1),           "1",   "2 3", 2,    "2 3", id="the first that is left"),
    pytest.param(partition("1 2 3", leader=None),        "",    "1 2 3", 1,  None,  id="nobody led"),
    pytest.param(partition("1 2 3", leader=None),        "1",   "2 3", 2,    "2 3", id="nobody led, one is silent"),
    pytest.param(partition("1 2 3", unmade="1 2 3"),     "1",   "2 3", 2,    "2 3", id="never made"),
    pytest.param(partition("1 2 3 4"),                   "1 2", "3 4", 3,    "3 4", id="two at once"),
]
# fmt: on


@pytest.mark.parametrize("registration, silent, answering, leader, isr", DECISIONS)
def test_the_silent_leave_the_isr_and_a_member_that_answers_leads(
    registration, silent, answering, leader, isr
):
    image = image_of(registration, ids="1 2 3 4", configs=TWO)

    result = small_pass(image, facts(image, silent=silent, answering=answering))

    [claim, change, resignation] = result.records
    assert (change.change.leader, change.change.elr) == (leader, KEEP)
    assert change.change.isr == (KEEP if isr is None else frozenset(brokers(isr)))
    assert (claim.controller_epoch, claim.cause, claim.is_resignation) == (0, SMALL_PASS, False)
    assert (resignation.controller_epoch, resignation.is_resignation) == (0, True)
    assert result.response.decided == (KEY,)


# fmt: off
REFUSALS = [
    # the partition, who is silent, who answers, what else is known, why nothing is decided
    pytest.param(partition("1"),                  "1",   "2 3", {}, "0 left, and min.insync.replicas asks for 1",   id="the only one"),
    pytest.param(partition("1 2"),                "1",   "2",   {}, "1 left, and min.insync.replicas asks for 2",   id="nothing would be won"),
    pytest.param(partition("1 2 3", isr="1 2"),   "1",   "2 3", {}, "1 left, and min.insync.replicas asks for 2",   id="an out-of-sync replica does not count"),
    pytest.param(partition("1 2 3"),              "1",   "2",   {}, "broker 3, which would be left in the ISR, does not answer either", id="another does not answer"),
    pytest.param(partition("1 2 3"),              "1",   "",    {}, "broker 2, broker 3, which would be left",      id="nobody answers"),
    pytest.param(partition("1 2 3", leader=None), "",    "",    {}, "broker 1, broker 2, broker 3, which would be", id="nobody led, nobody answers"),
    pytest.param(partition("1 2 3"),              "1",   "2 3", {"readmitted": frozenset({(KEY, BrokerId(1))})}, "has readmitted its replica to the ISR, so the fault is of process 7 on host", id="readmitted by another"),
    pytest.param(partition("1 2 3"),              "1",   "2 3", {"reached_elsewhere": frozenset({BrokerId(1)})}, "tasks on other hosts have written to broker 1, so the fault is of process 7 on host", id="executors reach it"),
]
# fmt: on


@pytest.mark.parametrize("registration, silent, answering, more, why", REFUSALS)
def test_nothing_is_decided_where_it_could_harm_or_would_win_nothing(
    registration, silent, answering, more, why
):
    image = image_of(registration, configs=TWO)

    result = small_pass(image, facts(image, silent=silent, answering=answering, **more))

    assert result.records == []
    assert why in result.response.refusals[KEY]


def test_a_draining_broker_is_not_elected():
    image = image_of(partition("1 2 3", leader=None), configs=TWO, draining="1 2 3")

    result = small_pass(image, facts(image, silent="", answering="1 2 3"))

    assert result.records == []
    assert "may lead: let one that drains lead again" in result.response.refusals[KEY]


def test_a_fenced_last_member_that_answers_again_is_fenced_no_more_and_leads_in_one_commit():
    last = partition("1 2 3", isr="1", leader=None)
    image = image_of(last, last, configs=TWO, fenced="1 2 3")

    result = small_pass(image, facts(image, silent="", answering="1 2", waits=(KEY, SECOND)))

    _, back, first, second, _ = result.records
    assert (back.broker_id, back.broker_state) == (1, BrokerState.ACTIVE)
    assert [(each.key, each.change.leader) for each in (first, second)] == [(KEY, 1), (SECOND, 1)]
    assert back.cause == "broker 1 answers an append of process 7 on host, and is to lead"


def test_a_broker_stays_fenced_that_does_not_answer_or_is_not_to_lead():
    last = partition("1 2 3", isr="1", leader=None)
    fenced = image_of(last, fenced="1 2")
    led = image_of(partition("1 2 3", isr="1 3", leader=None), fenced="1")

    mute = small_pass(fenced, facts(fenced, silent="", answering="2 3"))
    other = small_pass(led, facts(led, silent="", answering="1 3"))

    assert mute.records == []
    assert [type(each) for each in other.records[1:-1]] == [PartitionChangeRecord]
    assert other.records[1].change.leader == 3


# fmt: off
LOST_WORDS = [
    # the partition, what an append that waits for it is told that can be done
    pytest.param(partition("1", leader=None, lost="1"), ["on broker 1, is lost", "give its disk back", "the topic must be made anew"], id="the only one"),
    pytest.param(partition("1 2 3", isr="1", leader=None, lost="1"), ["give its disk back", "whether broker 2, broker 3 has all committed records", "--election-type unclean"], id="others were out of sync"),
]
# fmt: on


@pytest.mark.parametrize("registration, words", LOST_WORDS)
def test_where_the_last_replica_is_lost_it_is_said_what_can_be_done(registration, words):
    image = image_of(registration)

    result = small_pass(image, facts(image, silent="", answering="1"))

    assert result.records == []
    assert all(each in result.response.refusals[KEY] for each in words)


def test_a_partition_of_which_one_in_sync_is_not_lost_is_not_called_lost():
    assert why_all_lost(partition("1 2", leader=None, lost="1")) is None
    assert why_all_lost(partition("1 2", isr="1", leader=1)) is None


def test_a_lost_member_that_is_whole_is_taken_back_and_leads_in_one_commit():
    lost = partition("1 2", isr="1", leader=None, lost="1")
    image = image_of(lost)
    found = whole(1, lost.partition_epoch)

    records = small_pass(image, facts(image, silent="", answering="1", whole=[found])).records

    after = lost.merge(records[1].change).merge(records[2].change)
    assert len(records) == 4
    assert (after.leader, after.directory_of(1), after.partition_epoch) == (1, disk(1), 11)


def test_a_lost_member_that_is_not_whole_does_not_lead():
    image = image_of(partition("1 2", isr="1", leader=None, lost="1"))

    result = small_pass(image, facts(image, silent="", answering="1"))

    assert result.records == []


def test_only_what_is_waited_for_is_decided():
    image = image_of(partition("1 2 3"), partition("1 2 3"))

    result = small_pass(image, facts(image, waits=(SECOND,)))

    assert [each.key for each in result.records[1:-1]] == [SECOND]


def test_all_that_is_waited_for_is_one_commit_under_the_next_epoch():
    image = image_of(partition("1 2 3"), partition("2 1 3"), controller=RESIGNED)

    result = small_pass(image, facts(image, waits=(KEY, SECOND)))

    assert [each.key for each in result.records[1:-1]] == [KEY, SECOND]
    assert {each.controller_epoch for each in (result.records[0], result.records[-1])} == {5}


def test_the_cause_names_host_and_process_and_what_was_met():
    image = image_of(partition("1 2 3"))

    [_, change, _] = small_pass(image, facts(image)).records

    assert change.cause == (
        "broker 1: probe failed 7 times in 9.1 s (away); decided by an append of process 7 on host:"
        " nobody controls"
    )


def test_a_process_that_was_overtaken_by_a_claim_decides_nothing():
    seen = image_of(partition("1 2 3"))

    result = small_pass(replace(seen, controller=RESIGNED), facts(seen))

    assert (result.records, result.response.is_outdated) == ([], True)


@pytest.mark.parametrize("fields", [{"version": 10}, {"epoch": 6}])
def test_a_partition_that_has_changed_since_it_was_tried_is_left_alone(fields):
    seen = image_of(partition("1 2 3"))

    result = small_pass(image_of(partition("1 2 3", **fields)), facts(seen))

    assert (result.records, result.response.refusals) == ([], {})


def test_a_cluster_may_forbid_it():
    image = image_of(partition("1 2 3"))
    image = replace(image, configs={"auto.controller": "false"})

    result = small_pass(image, facts(image))

    assert result.records == []
    assert "auto.controller=false forbids it" in result.response.refusals[KEY]


# fmt: off
REACHED = [
    # how another partition, of which broker 1 has a replica, was and is; whether 1 was heard of
    pytest.param(partition("1 2 3", hw=5), partition("1 2 3", hw=6),                      True,  id="its high watermark rose"),
    pytest.param(partition("1 2 3", hw=5), partition("1 2 3", hw=5, leo=6),               True,  id="the log end of what it leads rose"),
    pytest.param(partition("2 1 3", hw=5), partition("2 1 3", hw=6),                      True,  id="it follows, in sync, and the high watermark rose"),
    pytest.param(partition("2 1 3", hw=5), partition("2 1 3", hw=5, leo=6),               False, id="it follows, and the log end rose"),
    pytest.param(partition("2 1 3", isr="2 3", hw=5), partition("2 1 3", hw=5, version=10), True, id="it was found caught up"),
    pytest.param(partition("2 1 3", isr="2 3", hw=5), partition("2 1 3", isr="2 3", hw=6), False, id="it is out of sync"),
    pytest.param(partition("1 2 3", hw=5), partition("1 2 3", isr="2 3", leader=2, epoch=6, version=10, hw=6), False, id="another leads since"),
    pytest.param(partition("2 3", hw=5),   partition("2 3", hw=6),                        False, id="it has no replica"),
    pytest.param(partition("1 2 3", hw=5), partition("1 2 3", hw=5),                      False, id="nothing happened"),
]
# fmt: on


@pytest.mark.parametrize("before, now, is_reached", REACHED)
def test_a_broker_that_others_reached_is_not_silent(before, now, is_reached):
    mine = partition("1 2 3")
    begun, newest = image_of(mine, before), image_of(mine, now)

    result = small_pass(newest, facts(newest, before={BrokerId(1): begun}))

    assert (reached_by_others(begun, newest, BrokerId(1)) is not None) == is_reached
    assert bool(result.records) is not is_reached
    if is_reached:
        assert "others reach broker 1 (orders-1: " in result.response.refusals[KEY]


def commit(offset, isr, *, by_small_pass=False, key=KEY):
    """Return a commit that leads to an ISR."""
    change = PartitionChangeRecord(
        topic_id=key.topic_id,
        partition=key.partition,
        change=PartitionChange(isr=KEEP if isr is None else frozenset(brokers(isr))),
        topic=TOPIC,
        leader_epoch=5,
        partition_epoch=9,
    )
    claim = ControllerRecord(controller_id="x", controller_epoch=1, cause=SMALL_PASS)
    records = (claim, change) if by_small_pass else (change,)
    return MetadataBatch(base_offset=Offset(offset), stamp=Stamp(time_ms=0), records=records)


# fmt: off
HISTORIES = [
    # the ISR before, what followed, which commits are this process's own, whether it is disputed
    pytest.param("1 2 3", [],                                                              set(), False, id="nothing"),
    pytest.param("1 2 3", [commit(1, "2 3", by_small_pass=True)],                          set(), False, id="taken out"),
    pytest.param("1 2 3", [commit(1, "2 3", by_small_pass=True), commit(2, "1 2 3")],      set(), True,  id="readmitted by another"),
    pytest.param("1 2 3", [commit(1, "2 3", by_small_pass=True), commit(2, "1 2 3")],      {2},   False, id="readmitted by this process"),
    pytest.param("1 2 3", [commit(1, "2 3"), commit(2, "1 2 3")],                          set(), False, id="taken out for its lag"),
    pytest.param("2 3",   [commit(1, "1 2 3")],                                            set(), True,  id="taken out before, by whom is not known"),
    pytest.param("1 2 3", [commit(1, "1 2"), commit(2, "1 2 3")],                          set(), False, id="another broker left and joined"),
    pytest.param("1 2 3", [commit(1, None)],                                               set(), False, id="a change of something else"),
    pytest.param("2 3",   [commit(1, "1 2 3", key=SECOND)],                                set(), False, id="another partition"),
    pytest.param("1 2 3", [commit(1, "2 3", by_small_pass=True), commit(2, "1 2 3"), commit(3, "2 3"), commit(4, "1 2 3")], {2}, False, id="readmitted by this process, then out for its lag"),
]
# fmt: on


@pytest.mark.parametrize("isr, batches, own, is_disputed", HISTORIES)
def test_a_process_that_takes_out_a_readmitted_member_is_the_odd_one(
    isr, batches, own, is_disputed
):
    before = image_of(partition("1 2 3", isr=isr, leader=2))

    found = readmitted_by_others(before, batches, KEY, BrokerId(1), is_own=own.__contains__)

    assert found is is_disputed
