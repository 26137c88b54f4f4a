"""What an append that waits decides where nobody controls: for what it waits for, giving up nothing."""

import pytest

from kafka_on_spark.base.ids import KEEP, BrokerId, Offset, PartitionKey
from kafka_on_spark.controller.brokers import (
    OF_APPEND,
    leave_isrs,
    reached_by_others,
    readmitted_at_ms,
)
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import (
    BrokerState,
    ControllerRecord,
    MetadataBatch,
    PartitionChangeRecord,
    Stamp,
)
from tests.builders import KEY, TOPIC, TOPIC_ID, brokers, image_of, partition

TWO = {"min.insync.replicas": "2"}
SECOND = PartitionKey(TOPIC_ID, 1)
NEVER = float("-inf")


def decide(image, failing="1", answering="2 3", only=(KEY,), tried=None):
    return leave_isrs(
        image,
        dict.fromkeys(brokers(failing), "away"),
        {key: (tried or image).partition(key) for key in only},
        frozenset(brokers(answering)),
        "decided by me",
    )


# fmt: off
DECISIONS = [
    # the partition, who fails, who answers; the leader and the ISR that it leads to
    pytest.param(partition("1 2 3"),                     "1",   "2 3", 2,    "2 3", id="the leader"),
    pytest.param(partition("1 2 3"),                     "3",   "1 2", KEEP, "1 2", id="a follower"),
    pytest.param(partition("2 1 3", leader=1),           "1",   "2 3", 2,    "2 3", id="the first that is left"),
    pytest.param(partition("1 2 3", leader=None),        "",    "1 2 3", 1,  None,  id="nobody led"),
    pytest.param(partition("1 2 3", leader=None),        "1",   "2 3", 2,    "2 3", id="nobody led, one fails"),
    pytest.param(partition("1 2 3", unmade="1 2 3"),     "1",   "2 3", 2,    "2 3", id="never made"),
    pytest.param(partition("1 2 3 4"),                   "1 2", "3 4", 3,    "3 4", id="two at once"),
]
# fmt: on


@pytest.mark.parametrize("registration, failing, answering, leader, isr", DECISIONS)
def test_who_fails_leaves_the_isr_and_a_member_that_answers_leads(
    registration, failing, answering, leader, isr
):
    image = image_of(registration, ids="1 2 3 4", configs=TWO)

    result = decide(image, failing, answering)

    [record] = result.records
    assert (record.change.leader, record.change.elr) == (leader, KEEP)
    assert record.change.isr == (KEEP if isr is None else frozenset(brokers(isr)))
    causes = [f"broker {each}: away" for each in brokers(failing)]
    assert record.cause == f"{'; '.join(causes) or 'nobody led'}; decided by me"
    assert result.response.moved == (KEY,)


# fmt: off
REFUSALS = [
    # the partition, who fails, who answers, why nothing is decided
    pytest.param(partition("1"),                  "1",   "2 3", "0 left, and min.insync.replicas asks for 1",   id="the only one"),
    pytest.param(partition("1 2"),                "1",   "2",   "1 left, and min.insync.replicas asks for 2",   id="nothing would be won"),
    pytest.param(partition("1 2 3", isr="1 2"),   "1",   "2 3", "1 left, and min.insync.replicas asks for 2",   id="an out-of-sync replica does not count"),
    pytest.param(partition("1 2 3"),              "1",   "2",   "brokers [3], which would be left in the ISR, do not answer", id="another does not answer"),
    pytest.param(partition("1 2 3", leader=None), "",    "",    "brokers [1, 2, 3], which would be left",       id="nobody led, nobody answers"),
    pytest.param(partition("1 2 3", isr="1", leader=None), "", "2 3", "brokers [1], which would be left",       id="the fenced last member does not answer"),
    pytest.param(partition("1", leader=None, lost="1"), "", "1", "none of brokers [1] may lead",                id="a lost replica does not lead"),
]
# fmt: on


@pytest.mark.parametrize("registration, failing, answering, why", REFUSALS)
def test_nothing_is_decided_where_it_could_harm_or_would_win_nothing(
    registration, failing, answering, why
):
    result = decide(image_of(registration, configs=TWO), failing, answering)

    assert result.records == []
    assert why in result.response.kept[KEY]


def test_a_draining_broker_is_not_elected():
    image = image_of(partition("1 2 3", leader=None), configs=TWO, draining="1 2 3")

    result = decide(image, "", "1 2 3")

    assert result.records == []
    assert "may lead: let one lead again that drains" in result.response.kept[KEY]


def test_a_fenced_last_member_that_answers_again_is_fenced_no_more_and_leads():
    last = partition("1 2 3", isr="1", leader=None)
    image = image_of(last, last, configs=TWO, fenced="1 2 3")

    back, first, second = decide(image, "", "1 2", only=(KEY, SECOND)).records

    assert (back.broker_id, back.broker_state) == (1, BrokerState.ACTIVE)
    assert [(each.key, each.change.leader) for each in (first, second)] == [(KEY, 1), (SECOND, 1)]


def test_only_what_is_waited_for_is_decided_and_only_as_it_was_tried():
    image = image_of(partition("1 2 3"), partition("1 2 3"))
    tried = image_of(partition("1 2 3", version=8), partition("1 2 3"))

    assert decide(image, only=(SECOND,)).response.moved == (SECOND,)
    assert decide(image, only=(KEY, SECOND), tried=tried).response.moved == (SECOND,)


# fmt: off
REACHED = [
    # how a partition, of which broker 1 has a replica, was and is; whether 1 was heard of
    pytest.param(partition("1 2 3", hw=5), partition("1 2 3", hw=6),                      True,  id="its high watermark rose"),
    pytest.param(partition("2 1 3", hw=5), partition("2 1 3", hw=6),                      True,  id="it follows, in sync, and the high watermark rose"),
    pytest.param(partition("1 2 3", hw=5), partition("1 2 3", hw=5, leo=6),               False, id="the log end of what it leads rose"),
    pytest.param(partition("2 1 3", isr="2 3", hw=5), partition("2 1 3", hw=5, version=10), True, id="it was found caught up"),
    pytest.param(partition("2 1 3", isr="2 3", hw=5), partition("2 1 3", isr="2 3", hw=6), False, id="it is out of sync"),
    pytest.param(partition("1 2 3", hw=5), partition("1 2 3", isr="2 3", leader=2, epoch=6, version=10, hw=6), False, id="another leads since"),
    pytest.param(partition("2 3", hw=5),   partition("2 3", hw=6),                        False, id="it has no replica"),
    pytest.param(partition("1 2 3", hw=5), partition("1 2 3", hw=5),                      False, id="nothing happened"),
]
# fmt: on


@pytest.mark.parametrize("before, now, is_reached", REACHED)
def test_a_broker_whose_replica_was_counted_or_registered_was_reached(before, now, is_reached):
    found = reached_by_others(image_of(before), image_of(now), BrokerId(1))

    assert (found is not None) == is_reached


def commit(offset, isr, *, by_append=False, key=KEY):
    """Return a commit that leads to an ISR, a second after the one before."""
    change = PartitionChangeRecord(
        topic_id=key.topic_id,
        partition=key.partition,
        change=PartitionChange(isr=KEEP if isr is None else frozenset(brokers(isr))),
        topic=TOPIC,
        leader_epoch=5,
        partition_epoch=9,
    )
    claim = ControllerRecord(controller_id="x", controller_epoch=1, cause=OF_APPEND)
    records = (claim, change) if by_append else (change,)
    stamp = Stamp(time_ms=1000 * offset)
    return MetadataBatch(base_offset=Offset(offset), stamp=stamp, records=records)


# fmt: off
HISTORIES = [
    # the ISR before, what followed, when it was readmitted
    pytest.param("1 2 3", [],                                                       NEVER, id="nothing"),
    pytest.param("1 2 3", [commit(1, "2 3", by_append=True)],                       NEVER, id="taken out"),
    pytest.param("1 2 3", [commit(1, "2 3", by_append=True), commit(2, "1 2 3")],   2000,  id="readmitted"),
    pytest.param("1 2 3", [commit(1, "2 3", by_append=True), commit(2, "2"), commit(3, "1 2")], 3000, id="another left in between"),
    pytest.param("1 2 3", [commit(1, "2 3"), commit(2, "1 2 3")],                   NEVER, id="taken out for its lag"),
    pytest.param("2 3",   [commit(1, "1 2 3")],                                     1000,  id="taken out before, by whom is not known"),
    pytest.param("1 2 3", [commit(1, "1 2"), commit(2, "1 2 3")],                   NEVER, id="another broker left and joined"),
    pytest.param("1 2 3", [commit(1, None)],                                        NEVER, id="a change of something else"),
    pytest.param("2 3",   [commit(1, "1 2 3", key=SECOND)],                         NEVER, id="another partition"),
]
# fmt: on


@pytest.mark.parametrize("isr, batches, at_ms", HISTORIES)
def test_a_member_that_an_append_took_out_and_others_readmitted_is_known_by_the_log(
    isr, batches, at_ms
):
    before = image_of(partition("1 2 3", isr=isr, leader=2))

    assert readmitted_at_ms(before, batches, KEY, BrokerId(1)) == at_ms
