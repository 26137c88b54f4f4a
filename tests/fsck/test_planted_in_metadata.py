"""One fault an invariant, planted in the metadata log: found by its id, and where it is.

A log with some of them can't be replayed by the cluster any more, so it is checked unopened.
"""

from dataclasses import replace

import pytest

from kafka_on_spark.controller.expiry import reset_time
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import Compaction
from kafka_on_spark.metadata.records import (
    AdminRequestRecord,
    AdminResultRecord,
    BrokerRecord,
    BrokerState,
    ConfigRecord,
    ControllerRecord,
    PartitionRecord,
    ProducerRecord,
    Stamp,
)
from tests.fsck.lives import LOG_START, TOPIC, key_of
from tests.fsck.plants import (
    Planted,
    changed,
    commit_records,
    flaw,
    found,
    registration,
    watermark,
)

planted = Planted()


def registered(life, **fields):
    """Commit the partition's registration with other fields; return the record's offset."""
    key = key_of(life.disks.image)
    record = PartitionRecord(
        topic=TOPIC,
        topic_id=key.topic_id,
        partition=0,
        registration=replace(registration(life), **fields),
        cause="planted",
    )
    return commit_records(life, record)


@planted
def i6_two_leaders_of_one_epoch(life, leader):
    register = registration(life)
    other = min(register.isr - {register.leader})
    offset = registered(life, leader=other, partition_epoch=register.partition_epoch + 1)
    words = f"leader epoch {register.leader_epoch} has two leaders, {register.leader} and {other}"
    return flaw("I6", None, words, metadata_offset=offset, partition=(TOPIC, 0))


@planted
def i7_a_change_that_says_other_epochs_than_it_leads_to(life, leader):
    register = registration(life)
    change = changed(register, life, leader=register.leader, leader_epoch=register.leader_epoch + 2)
    offset = commit_records(life, change)
    return flaw("I7", None, "a change says that ", only={"I7"}, metadata_offset=offset)


@planted
def i7_a_leader_epoch_that_falls(life, leader):
    register = registration(life)
    epoch, partition_epoch = register.leader_epoch, register.partition_epoch + 1
    offset = registered(life, leader_epoch=epoch - 1, partition_epoch=partition_epoch)
    # The tables have adopted the leadership that the log has forgotten: I5.
    return flaw("I7", None, f"leader epoch {epoch - 1} comes after {epoch}", metadata_offset=offset)


@planted
def i7_a_partition_epoch_that_skips(life, leader):
    offset = registered(life, partition_epoch=registration(life).partition_epoch + 2)
    return flaw("I7", only={"I7"}, metadata_offset=offset)


@planted
def i7_a_reassignment_completed_without_a_new_leader_epoch(life, leader):
    register = registration(life)
    follower = min(register.isr - {register.leader})
    kept = tuple(each for each in register.replicas if each != follower)
    begun = changed(register, life, removing_replicas=(follower,))
    after = register.merge(begun.change)
    places = [after.replicas.index(each) for each in kept]
    ended = changed(
        after,
        life,
        replicas=kept,
        replica_uuids=tuple(after.replica_uuids[place] for place in places),
        directories=tuple(after.directories[place] for place in places),
        isr=after.isr - {follower},
        removing_replicas=(),
    )
    offset = commit_records(life, begun, ended)
    return flaw("I7", only={"I7"}, metadata_offset=offset + 1)


@planted
def i7_a_controller_epoch_that_falls(life, leader):
    offset = commit_records(life, ControllerRecord(controller_id="zombie", controller_epoch=0))
    return flaw("I7", metadata_offset=offset)


@planted
def i7_a_decision_of_a_deposed_controller(life, leader):
    # The commit of a zombie that no condition stopped: each row carries its epoch.
    epoch = life.disks.image.controller.controller_epoch
    commit_records(life, ControllerRecord(controller_id="new", controller_epoch=epoch + 1))
    config = ConfigRecord(topic_id=None, config_name="num.partitions", config_value="2")
    late = Stamp(time_ms=1, controller_id="zombie", controller_epoch=epoch)
    offset = commit_records(life, config, stamp=late)
    words = f"committed under controller epoch {epoch}, though {epoch + 1} was claimed before"
    return flaw("I7", None, words, only={"I7"}, metadata_offset=offset)


@planted
def i6_two_controllers_of_one_epoch(life, leader):
    epoch = life.disks.image.controller.controller_epoch + 1
    commit_records(life, ControllerRecord(controller_id="a", controller_epoch=epoch))
    offset = commit_records(life, ControllerRecord(controller_id="b", controller_epoch=epoch))
    words = f"controller epoch {epoch} has two owners, a and b"
    return flaw("I6", None, words, only={"I6"}, metadata_offset=offset)


ASKED = AdminRequestRecord(request='{"id": "1"}')
DONE = AdminResultRecord(request='{"id": "1"}', result='{"code": 0}')
# fmt: off
REQUESTS = [  # records, the place of the fault among them, its id
    pytest.param([DONE],                                   0, "I11", id="an-answer-to-nobody"),
    pytest.param([ASKED, DONE, DONE],                      2, "I11", id="run-twice"),
    pytest.param([ASKED, ASKED],                           1, "I11", id="asked-twice"),
    pytest.param([replace(ASKED, request="no json")],      0, "I15", id="a-request-that-is-none"),
    pytest.param([replace(ASKED, request="[]")],           0, "I15", id="a-request-without-an-id"),
    pytest.param([ASKED, replace(DONE, result="{}")],      1, "I15", id="a-result-without-a-code"),
    pytest.param([replace(ASKED, request=None)],           0, "I15", id="a-request-without-a-text"),
    pytest.param([ASKED, replace(DONE, result=None)],      1, "I15", id="a-result-without-a-text"),
]
# fmt: on


@pytest.mark.parametrize("records, place, invariant", REQUESTS)
def test_a_request_and_its_result(life, records, place, invariant):
    offset = commit_records(life, *records)

    flaw(invariant, only={invariant}, metadata_offset=offset + place).check(life.fsck(deep=False))


def test_a_request_that_waits_and_one_that_was_answered_are_clean(life):
    commit_records(life, ASKED, DONE, replace(ASKED, request='{"id": "2"}'))

    assert life.fsck(deep=False).findings == ()


@planted
def i8_a_high_watermark_that_falls(life, leader):
    register = registration(life)
    mark = register.high_watermark
    offset = commit_records(life, watermark(register, life, mark - 1))
    words = f"the high watermark fell from {mark} to {mark - 1} within unclean generation 0"
    return flaw("I8", None, words, only={"I8"}, metadata_offset=offset)


@planted
def i8_a_change_that_takes_the_high_watermark_back_and_does_not_say_so(life, leader):
    register = registration(life)
    change = changed(register, life, high_watermark=register.high_watermark - 2)
    return flaw("I8", metadata_offset=commit_records(life, change))


def test_an_unclean_election_may_take_the_high_watermark_back(life, leader):
    register = registration(life)
    lower = register.high_watermark - 2
    change = changed(
        register,
        life,
        leader=register.leader,
        high_watermark=lower,
        high_watermark_chain=leader.state.chain_at(lower),
        unclean_generation=1,
    )
    commit_records(life, change)

    assert life.fsck(deep=False).is_clean


@planted
def i9_a_high_watermark_above_the_leaders_log(life, leader):
    register = registration(life)
    end = register.high_watermark + 5
    commit_records(life, watermark(register, life, end, log_end_offset=end))
    words = f"the leader ends at {end - 5}, below the high watermark {end}"
    return flaw("I9", leader, words, offset=end - 5)


@planted
def i9_a_high_watermark_above_the_log_end_that_its_record_names(life, leader):
    register = registration(life)
    offset = commit_records(life, watermark(register, life, register.high_watermark + 5))
    return flaw("I9", None, "the high watermark ", metadata_offset=offset)


@planted
def i9_a_high_watermark_that_moves_below_the_minimum_of_in_sync_replicas(life, leader):
    register = registration(life)
    change = changed(register, life, isr=frozenset({register.leader}))
    batch = leader.batch(b"new")
    leader.append(batch)
    mark = watermark(
        register.merge(change.change),
        life,
        batch.end_offset,
        log_end_offset=batch.end_offset,
        high_watermark_epoch=register.leader_epoch,
        high_watermark_chain=leader.state.chain_digest,
    )
    offset = commit_records(life, change, mark) + 1
    words = "with 1 in-sync replicas, of which 2 must be (min.insync.replicas)"
    return flaw("I9", None, words, only={"I9"}, metadata_offset=offset)


@planted
def i9_an_epoch_below_the_high_watermark_that_is_another(life, leader):
    leader.append(leader.batch(b"new"))
    register = registration(life)
    change = changed(register, life, leader=register.leader, isr=frozenset({register.leader}))
    led = register.merge(change.change)
    end, epoch = leader.state.log_end_offset, led.leader_epoch
    leader.commit("adopt", log_end_offset=end, leader_epoch=epoch)
    mark = watermark(led, life, end, log_end_offset=end, high_watermark_epoch=epoch)
    commit_records(life, change, mark)
    words = f"was said to be of leadership {epoch}; it is of {register.leader_epoch}"
    return flaw("I9", leader, words, offset=end)


@planted
def i11_a_run_of_a_producer_that_takes_an_epoch_again(life, leader):
    taken = ProducerRecord(producer_id="q", producer_epoch=3)
    offset = commit_records(life, taken, taken)
    return flaw("I11", only={"I11"}, metadata_offset=offset + 1)


def test_i31_a_time_that_is_ahead_of_the_clocks_until_it_is_reset(life):
    ahead_ms = life.disks.cluster._node.clock.now_ms() + 10**12
    renewed = ProducerRecord(producer_id="q", producer_epoch=3, renewed_at_ms=ahead_ms)
    commit_records(life, renewed, stamp=Stamp(time_ms=ahead_ms))

    finding = found(life.fsck(deep=False), "I31")

    assert "ahead of this process's clock" in finding.sentence
    image = MetadataImage(cluster_id="c", producers={"q": 3}, producer_times={"q": ahead_ms})
    now_ms = ahead_ms - 10**12
    commit_records(life, *reset_time(image, now_ms).records, stamp=Stamp(time_ms=now_ms))
    assert not life.fsck(deep=False).findings


@planted
def i16_a_log_start_above_the_high_watermark(life, leader):
    register = registration(life)
    mark = register.high_watermark
    offset = commit_records(life, watermark(register, life, None, log_start_offset=mark + 1))
    words = f"the log start {mark + 1} is above the high watermark {mark}"
    return flaw("I16", None, words, metadata_offset=offset)


@planted
def i16_records_that_are_deleted_of_a_topic_that_is_only_compacted(life, leader):
    register = registration(life)
    topic_id = key_of(life.disks.image).topic_id
    compacted = ConfigRecord(
        topic_id=topic_id, config_name="cleanup.policy", config_value="compact"
    )
    record = watermark(register, life, None, log_start_offset=register.high_watermark)
    offset = commit_records(life, compacted, record)
    words = "are deleted, and the topic's cleanup.policy is 'compact'"
    return flaw("I16", None, words, metadata_offset=offset + 1)


@planted
def i16_a_decided_log_start_that_goes_back(life, leader):
    record = watermark(registration(life), life, None, log_start_offset=LOG_START - 1)
    return flaw("I16", only={"I16"}, metadata_offset=commit_records(life, record))


# fmt: off
BAD_MEMBERS = [
    pytest.param({"isr": frozenset({1, 2, 9})},     "the ISR [1, 2, 9] is not within ",       id="isr"),
    pytest.param({"elr": frozenset({1})},           "the ELR [1] is not within the replicas", id="elr-in-isr"),
    pytest.param({"leader": 9},                     "the leader 9 is not in the ISR",         id="leader"),
    pytest.param({"adding_replicas": (8,)},         "the brokers [8] are added or removed",   id="adding"),
    pytest.param({"replicas": ()},                  "the partition has no replica",           id="none"),
    pytest.param({"replicas": (1, 1, 2)},           "replicas [1, 1, 2] name a broker twice", id="twice"),
    pytest.param({"replicas": (1, 2, 9)},           "replicas on [9], which is no broker",    id="unknown"),
    pytest.param({"replica_uuids": ("a" * 32,)},    "replicas, replica uuids and directories", id="sizes"),
]
# fmt: on


@pytest.mark.parametrize("change, sentence", BAD_MEMBERS)
def test_i17_a_registration_that_names_a_broker_that_it_must_not(life, change, sentence):
    offset = commit_records(life, changed(registration(life), life, **change))

    findings = [each for each in life.fsck(deep=False).findings if each.invariant == "I17"]

    assert any(each.sentence.startswith(sentence) for each in findings), findings
    assert {each.place.metadata_offset for each in findings} == {offset}


@planted
def i17_two_brokers_on_one_root(life, leader):
    root = life.disks.image.brokers[1].root
    record = BrokerRecord(
        broker_id=7,
        broker_epoch=0,
        root=root,
        rack=None,
        directory_id="another",
        broker_state=BrokerState.ACTIVE,
    )
    offset = commit_records(life, record)
    words = f"brokers 1 and 7 are on one root, {root}"
    return flaw("I17", None, words, metadata_offset=offset)


# fmt: off
COMPACTIONS = [  # a first compaction, and one after it              what is found
    pytest.param({"compacted_below": 9}, {"compacted_below": 8},     "compacted_below 8 comes after 9",   id="falls"),
    pytest.param({}, {"compacted_below": 10**6},                     "is above high_watermark",            id="above-the-high-watermark"),
]
# fmt: on


@pytest.mark.parametrize("first, second, sentence", COMPACTIONS)
def test_i27_offsets_of_compaction_that_fall_or_are_too_high(life, first, second, sentence):
    register = registration(life)
    changes = [changed(register, life, compaction=Compaction(**each)) for each in (first, second)]
    offset = commit_records(life, *changes)

    flaw("I27", None, sentence, only={"I27"}, metadata_offset=offset + 1).check(
        life.fsck(deep=False)
    )


@pytest.mark.parametrize("plant", planted)
def test_a_fault_is_found_by_its_id_and_where_it_is(life, leader, plant):
    expected = plant(life, leader)

    expected.check(life.fsck(deep=False))
