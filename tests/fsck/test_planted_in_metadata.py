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
from tests.fsck.plants import changed, commit_records, flip_a_bit, found, registration, watermark


def registered(register, life):
    key = key_of(life.disks.image)
    return PartitionRecord(
        topic=TOPIC, topic_id=key.topic_id, partition=0, registration=register, cause="planted"
    )


def test_i6_two_leaders_of_one_epoch(life):
    register = registration(life)
    other = min(register.isr - {register.leader})
    twin = replace(register, leader=other, partition_epoch=register.partition_epoch + 1)
    offset = commit_records(life, registered(twin, life))

    finding = found(life.fsck(), "I6", metadata_offset=offset, partition=(TOPIC, 0))

    assert finding.sentence == (
        f"leader epoch {register.leader_epoch} has two leaders, {register.leader} and {other}"
    )


def test_i7_a_change_that_says_other_epochs_than_it_leads_to(life):
    register = registration(life)
    change = changed(register, life, leader=register.leader, leader_epoch=register.leader_epoch + 2)
    offset = commit_records(life, change)

    report = life.fsck()

    assert found(report, "I7", metadata_offset=offset).sentence.startswith("a change says that ")
    assert report.invariants == {"I7"}


def test_i7_a_leader_epoch_that_falls(life):
    register = registration(life)
    older = replace(
        register,
        leader_epoch=register.leader_epoch - 1,
        partition_epoch=register.partition_epoch + 1,
    )
    offset = commit_records(life, registered(older, life))

    report = life.fsck()

    assert found(report, "I7", metadata_offset=offset).sentence == (
        f"leader epoch {register.leader_epoch - 1} comes after {register.leader_epoch}"
    )
    # The tables have adopted the leadership that the log has forgotten.
    assert "I5" in report.invariants


def test_i7_a_partition_epoch_that_skips(life):
    register = registration(life)
    skipped = replace(register, partition_epoch=register.partition_epoch + 2)
    offset = commit_records(life, registered(skipped, life))

    report = life.fsck()

    found(report, "I7", metadata_offset=offset)
    assert report.invariants == {"I7"}


def test_i7_a_reassignment_completed_without_a_new_leader_epoch(life):
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

    report = life.fsck()

    found(report, "I7", metadata_offset=offset + 1)
    assert report.invariants == {"I7"}


def test_i7_a_controller_epoch_that_falls(life):
    offset = commit_records(life, ControllerRecord(controller_id="zombie", controller_epoch=0))

    found(life.fsck(), "I7", metadata_offset=offset)


def test_i7_a_decision_of_a_deposed_controller(life):
    """The commit of a zombie that no condition stopped: each row carries its epoch."""
    epoch = life.disks.image.controller.controller_epoch
    commit_records(life, ControllerRecord(controller_id="new", controller_epoch=epoch + 1))
    config = ConfigRecord(topic_id=None, config_name="num.partitions", config_value="2")
    late = Stamp(time_ms=1, controller_id="zombie", controller_epoch=epoch)
    offset = commit_records(life, config, stamp=late)

    report = life.fsck()

    assert found(report, "I7", metadata_offset=offset).sentence == (
        f"committed under controller epoch {epoch}, though {epoch + 1} was claimed before"
    )
    assert report.invariants == {"I7"}


def test_i6_two_controllers_of_one_epoch(life):
    epoch = life.disks.image.controller.controller_epoch + 1
    commit_records(life, ControllerRecord(controller_id="a", controller_epoch=epoch))
    offset = commit_records(life, ControllerRecord(controller_id="b", controller_epoch=epoch))

    report = life.fsck()

    assert found(report, "I6", metadata_offset=offset).sentence == (
        f"controller epoch {epoch} has two owners, a and b"
    )
    assert report.invariants == {"I6"}


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

    report = life.fsck()

    found(report, invariant, metadata_offset=offset + place)
    assert report.invariants == {invariant}


def test_a_request_that_waits_and_one_that_was_answered_are_clean(life):
    commit_records(life, ASKED, DONE, replace(ASKED, request='{"id": "2"}'))

    assert life.fsck().findings == ()


def test_i8_a_high_watermark_that_falls(life):
    register = registration(life)
    mark = register.high_watermark
    offset = commit_records(life, watermark(register, life, mark - 1))

    report = life.fsck()

    assert found(report, "I8", metadata_offset=offset).sentence == (
        f"the high watermark fell from {mark} to {mark - 1} within unclean generation 0"
    )
    assert report.invariants == {"I8"}


def test_i8_a_change_that_takes_the_high_watermark_back_and_does_not_say_so(life):
    register = registration(life)
    change = changed(register, life, high_watermark=register.high_watermark - 2)
    offset = commit_records(life, change)

    found(life.fsck(), "I8", metadata_offset=offset)


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

    assert life.fsck().is_clean


def test_i9_a_high_watermark_above_the_leaders_log(life, leader):
    register = registration(life)
    end = register.high_watermark + 5
    commit_records(life, watermark(register, life, end, log_end_offset=end))

    finding = found(life.fsck(), "I9", leader, offset=end - 5)

    assert finding.sentence == f"the leader ends at {end - 5}, below the high watermark {end}"


def test_i9_a_high_watermark_above_the_log_end_that_its_record_names(life):
    register = registration(life)
    offset = commit_records(life, watermark(register, life, register.high_watermark + 5))

    finding = found(life.fsck(), "I9", metadata_offset=offset)

    assert finding.sentence.startswith("the high watermark ")


def test_i9_a_high_watermark_that_moves_below_the_minimum_of_in_sync_replicas(life, leader):
    register = registration(life)
    change = changed(register, life, isr=frozenset({register.leader}))
    batch = leader.batch(b"new")
    leader.append(batch)
    committed = leader.state.chain_digest
    alone = register.merge(change.change)
    mark = watermark(
        alone,
        life,
        batch.end_offset,
        log_end_offset=batch.end_offset,
        high_watermark_epoch=register.leader_epoch,
        high_watermark_chain=committed,
    )
    offset = commit_records(life, change, mark) + 1

    report = life.fsck()

    assert found(report, "I9", metadata_offset=offset).sentence.endswith(
        "with 1 in-sync replicas, of which 2 must be (min.insync.replicas)"
    )
    assert report.invariants == {"I9"}


def test_i9_an_epoch_below_the_high_watermark_that_is_another(life, leader):
    batch = leader.batch(b"new")
    leader.append(batch)
    register = registration(life)
    change = changed(register, life, leader=register.leader, isr=frozenset({register.leader}))
    led = register.merge(change.change)
    end = leader.state.log_end_offset
    leader.commit("adopt", log_end_offset=end, leader_epoch=led.leader_epoch)
    commit_records(
        life,
        change,
        watermark(led, life, end, log_end_offset=end, high_watermark_epoch=led.leader_epoch),
    )

    finding = found(life.fsck(), "I9", leader, offset=end)

    assert finding.sentence == (
        f"the record below the high watermark {end} was said to be of leadership"
        f" {led.leader_epoch}; it is of {register.leader_epoch}"
    )


def test_i11_a_run_of_a_producer_that_takes_an_epoch_again(life):
    taken = ProducerRecord(producer_id="q", producer_epoch=3)
    offset = commit_records(life, taken, taken)

    report = life.fsck()

    found(report, "I11", metadata_offset=offset + 1)
    assert report.invariants == {"I11"}


def test_i31_a_time_that_is_ahead_of_the_clocks_until_it_is_reset(life):
    ahead_ms = life.disks.cluster._node.clock.now_ms() + 10**12
    renewed = ProducerRecord(producer_id="q", producer_epoch=3, renewed_at_ms=ahead_ms)
    commit_records(life, renewed, stamp=Stamp(time_ms=ahead_ms))

    finding = found(life.fsck(), "I31")

    assert "ahead of this process's clock" in finding.sentence
    image = MetadataImage(cluster_id="c", producers={"q": 3}, producer_times={"q": ahead_ms})
    now_ms = ahead_ms - 10**12
    commit_records(life, *reset_time(image, now_ms).records, stamp=Stamp(time_ms=now_ms))
    assert not life.fsck().findings


def test_i16_a_log_start_above_the_high_watermark(life):
    register = registration(life)
    above = register.high_watermark + 1
    record = watermark(register, life, None, log_start_offset=above)
    offset = commit_records(life, record)

    finding = found(life.fsck(), "I16", metadata_offset=offset)

    assert finding.sentence == (
        f"the log start {above} is above the high watermark {register.high_watermark}"
    )


def test_i16_records_that_are_deleted_of_a_topic_that_is_only_compacted(life):
    register = registration(life)
    compacted = ConfigRecord(
        topic_id=key_of(life.disks.image).topic_id,
        config_name="cleanup.policy",
        config_value="compact",
    )
    record = watermark(register, life, None, log_start_offset=register.high_watermark)
    offset = commit_records(life, compacted, record)

    finding = found(life.fsck(), "I16", metadata_offset=offset + 1)

    assert finding.sentence == (
        f"records below {register.high_watermark} are deleted, and the topic's cleanup.policy is"
        " 'compact'"
    )


def test_i16_a_decided_log_start_that_goes_back(life):
    record = watermark(registration(life), life, None, log_start_offset=LOG_START - 1)
    offset = commit_records(life, record)

    report = life.fsck()

    found(report, "I16", metadata_offset=offset)
    assert report.invariants == {"I16"}


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

    findings = [each for each in life.fsck().findings if each.invariant == "I17"]

    assert any(each.sentence.startswith(sentence) for each in findings), findings
    assert {each.place.metadata_offset for each in findings} == {offset}


def test_i17_two_brokers_on_one_root(life):
    one = life.disks.image.brokers[1]
    offset = commit_records(
        life,
        BrokerRecord(
            broker_id=7,
            broker_epoch=0,
            root=one.root,
            rack=None,
            directory_id="another",
            broker_state=BrokerState.ACTIVE,
        ),
    )

    finding = found(life.fsck(), "I17", metadata_offset=offset)

    assert finding.sentence == f"brokers 1 and 7 are on one root, {one.root}"


# fmt: off
COMPACTIONS = [  # a first compaction, and one after it              what is found
    pytest.param({"compacted_below": 9}, {"compacted_below": 8},     "compacted_below 8 comes after 9",   id="falls"),
    pytest.param({}, {"compacted_below": 10**6},                     "is above high_watermark",            id="above-the-high-watermark"),
    pytest.param({"compacted_below": 8}, {"compacted_below": 9, "cleaned_below": 7},
                 "cleaned_below 7 follows a decision of compaction below 8",                               id="of-another-before-it"),
]
# fmt: on


@pytest.mark.parametrize("first, second, sentence", COMPACTIONS)
def test_i27_offsets_of_compaction_that_fall_or_are_too_high(life, first, second, sentence):
    register = registration(life)
    changes = [changed(register, life, compaction=Compaction(**each)) for each in (first, second)]
    offset = commit_records(life, *changes)

    report = life.fsck()

    assert sentence in found(report, "I27", metadata_offset=offset + 1).sentence
    assert report.invariants == {"I27"}


def test_a_decision_of_compaction_that_the_log_no_longer_shows_is_missed_by_no_other(life):
    register = registration(life)
    offsets = [
        commit_records(life, changed(register, life, compaction=Compaction(**each)))
        for each in ({"compacted_below": 8}, {"compacted_below": 9, "cleaned_below": 8})
    ]
    (file,) = life.metadata_table.glob(f"{offsets[0]:020d}-*.parquet")
    flip_a_bit(file)

    report = life.fsck()

    assert found(report, "I15", path=file.name)
    of_log = [each for each in report.findings if each.place.metadata_offset == offsets[1]]
    assert of_log == []
