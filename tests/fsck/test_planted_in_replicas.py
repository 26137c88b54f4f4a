"""One fault an invariant, planted in replicas' tables: found by its id, and where it is."""

import pytest

from kafka_on_spark.log.batch import ProducerStamp
from tests.fsck.lives import LOG_START, TOPIC
from tests.fsck.plants import (
    Plant,
    changed,
    commit_records,
    flip_a_bit,
    found,
    registration,
    watermark,
)


def test_i1_an_in_sync_replica_that_was_set_back_in_time(life, follower):
    end = follower.state.batches[-1].base_offset
    version = follower.roll_back()

    report = life.fsck()

    sentence = found(report, "I1", follower, version=version, offset=end).sentence
    assert sentence == (
        f"the replica is in sync and ends at {end}, below the high watermark {end + 2}"
    )
    assert "I2" not in report.invariants
    assert "I3" not in report.invariants


def test_i1_an_in_sync_replica_without_a_table(life, follower):
    folder = follower.folder
    folder.rename(folder.with_name("moved"))

    finding = found(life.fsck(), "I1", follower)

    assert finding.sentence.startswith("the replica is lost: there is no table at ")


def test_i1_a_high_watermark_that_counted_a_replica_before_it_was_there(life, follower, leader):
    # The leader alone has the new batch; the follower gets it after it was counted, or never.
    batch = leader.batch(b"new")
    leader.append(batch)
    end = batch.end_offset
    commit_records(life, watermark(registration(life), life, end, log_end_offset=end))

    finding = found(life.fsck(), "I1", follower, offset=end)

    assert finding.sentence.startswith(f"the high watermark moved to {end} under leadership ")


def test_i2_a_leader_that_was_set_back_in_time(life, leader):
    end = leader.state.batches[-1].base_offset
    version = leader.roll_back()

    report = life.fsck()

    finding = found(report, "I2", leader, version=version, offset=end)
    assert finding.sentence == f"the leader lacks the committed records [{end}, {end + 2})"
    found(report, "I9", leader)
    assert "I3" not in report.invariants


def test_i3_all_replicas_set_back_in_time(life, leader):
    end = leader.state.batches[-1].base_offset
    for broker_id in registration(life).replicas:
        Plant(life, broker_id).roll_back()

    finding = found(life.fsck(), "I3", offset=end)

    assert finding.sentence == f"no assigned replica has the committed record at {end}"
    assert finding.place.partition == (TOPIC, 0)


def test_i3_is_not_said_of_records_that_an_absent_disk_may_have(life, leader):
    end = leader.state.batches[-1].base_offset
    first, second, third = registration(life).replicas
    Plant(life, first).roll_back()
    Plant(life, second).roll_back()
    life.disks.take_away(third)

    report = life.fsck()

    assert "I3" not in report.invariants
    [finding] = [e for e in report.findings if e.invariant is None and e.place.offset == end]
    assert finding.sentence.endswith("those that could not be read may have it")
    life.disks.give_back(third)


def test_i4_two_batches_of_one_leadership_at_one_offset(life, leader, follower):
    # Above the high watermark, where nothing else than log matching forbids it.
    leader.append(leader.batch(b"one"))
    base = follower.state.log_end_offset
    version = follower.append(follower.batch(b"another"), operation="append_fetched")

    report = life.fsck()

    finding = found(report, "I4", follower, version=version, offset=base)
    led = f"broker {leader.broker_id}, which led {leader.state.leader_epoch}, has the right one"
    assert finding.sentence.endswith(led)
    assert report.invariants == {"I4"}


def test_i4_one_batch_behind_two_different_ones(life, leader, follower):
    # A follower that has another batch before the one that both have.
    one, other = leader.batch(b"one"), follower.batch(b"other")
    leader.append(one)
    follower.append(other, operation="append_fetched")
    shared = leader.batch(b"shared")
    source = leader.folder / shared.segments[0].path
    (follower.folder / source.name).write_bytes(source.read_bytes())
    leader.append(shared)
    version = follower.append(shared, operation="append_fetched")

    finding = found(life.fsck(), "I4", follower, version=version, offset=shared.base_offset)

    assert "the batch before it differs" in finding.sentence


def test_i5_a_batch_of_an_older_leadership_behind_a_newer_one(life, follower):
    batch = follower.batch(b"old", leader_epoch=0)
    version = follower.append(batch, operation="append_fetched")

    finding = found(life.fsck(), "I5", follower, version=version, offset=batch.base_offset)

    assert finding.sentence.startswith("a batch of leadership 0 stands behind one of ")


def test_i5_a_table_fenced_at_a_leadership_that_the_metadata_does_not_know(life, follower):
    version = follower.commit(
        "adopt", leader_epoch=99, log_end_offset=follower.state.log_end_offset
    )

    finding = found(life.fsck(), "I5", follower, version=version)

    assert finding.sentence.endswith("the metadata went back")


def test_i6_records_appended_to_a_replica_that_does_not_lead(life, follower):
    batch = follower.batch(b"mine")
    version = follower.append(batch, operation="append")

    report = life.fsck()

    finding = found(report, "I6", follower, version=version, offset=batch.base_offset)
    epoch = follower.state.leader_epoch
    assert finding.sentence == (
        f"records of leadership {epoch} were appended here, and broker"
        f" {registration(life).leader} led it"
    )
    assert report.invariants == {"I6"}


@pytest.mark.parametrize("shift", [1, -1], ids=["gap", "overlap"])
def test_i10_a_batch_that_does_not_begin_where_the_log_ends(life, leader, shift):
    batch = leader.batch(b"astray", base_offset=leader.state.log_end_offset + shift)
    version = leader.append(batch)

    found(life.fsck(), "I10", leader, version=version, offset=batch.base_offset)


def test_i10_a_log_that_does_not_end_where_it_says(life, leader):
    batch = leader.batch(b"a")
    version = leader.append(batch, log_end_offset=batch.end_offset + 1)

    finding = found(life.fsck(), "I10", leader, version=version)

    assert finding.sentence == (
        f"the log says that it ends at {batch.end_offset + 1}, its batches end at"
        f" {batch.end_offset}"
    )


def test_i10_a_fault_that_a_later_version_has_mended_is_found_in_the_history(life, leader):
    batch = leader.batch(b"a", base_offset=leader.state.log_end_offset + 1)
    end = leader.state.log_end_offset
    version = leader.append(batch)
    leader.commit("adopt", removes=[batch], log_end_offset=end)

    report = life.fsck()

    found(report, "I10", leader, version=version, offset=batch.base_offset)


def producer_stamp(sequence, *, epoch=0, producer_id="p"):
    return ProducerStamp(
        producer_id=producer_id, producer_epoch=epoch, sequence=sequence, payload_digest=1
    )


@pytest.mark.parametrize("sequence", [9, 3], ids=["the last again", "an older one"])
def test_i11_a_sequence_that_stands_in_the_log_already(life, leader, sequence):
    batch = leader.batch(b"twice", producer=producer_stamp(sequence))
    version = leader.append(batch)

    finding = found(life.fsck(), "I11", leader, version=version, offset=batch.base_offset)

    assert finding.sentence == f"sequence {sequence} of producer 'p' stands behind 9"


def test_i11_a_sequence_that_retention_has_removed_is_remembered(life, leader):
    state = leader.state
    last = state.batches[-1]
    leader.commit(
        "advance_log_start",
        removes=state.batches,
        log_start_offset=last.end_offset,
        log_end_offset=last.end_offset,
        **{"producer/p": 9},
    )
    batch = leader.batch(b"twice", producer=producer_stamp(9))
    version = leader.append(batch)

    found(life.fsck(), "I11", leader, version=version, offset=batch.base_offset)


def test_i11_an_older_run_of_a_producer_behind_a_newer_one(life, leader):
    leader.append(leader.batch(b"a", producer=producer_stamp(0, epoch=5, producer_id="q")))
    batch = leader.batch(b"b", producer=producer_stamp(1, epoch=4, producer_id="q"))
    version = leader.append(batch)

    finding = found(life.fsck(), "I11", leader, version=version, offset=batch.base_offset)

    assert finding.sentence == "run 4 of producer 'q' appended after run 5"


def test_i12_records_that_are_others_under_a_later_leadership(life, follower):
    # The follower loses its last batch, leads, and puts something else in its place.
    register = registration(life)
    last = follower.state.batches[-1]
    epoch = register.leader_epoch + 1
    follower.commit("adopt", removes=[last], log_end_offset=last.base_offset, leader_epoch=epoch)
    batch = follower.batch(b"other", b"than that", b"and more")
    version = follower.append(batch)
    change = changed(register, life, leader=follower.broker_id, isr=frozenset({follower.broker_id}))
    led = register.merge(change.change)
    commit_records(
        life,
        change,
        watermark(
            led, life, batch.end_offset, log_end_offset=batch.end_offset, high_watermark_epoch=epoch
        ),
    )

    report = life.fsck()

    finding = found(report, "I12", follower, version=version, offset=last.base_offset)
    assert finding.sentence.endswith(f"and are others under leadership {epoch}")
    # A leader of such a kind lacks what was committed, and cut it when it adopted.
    assert {"I2", "I14"} <= report.invariants


def test_i13_an_append_by_a_deposed_leader(life, leader):
    epoch = registration(life).leader_epoch
    change = changed(registration(life), life, leader=leader.broker_id)
    commit_records(life, change)
    end = leader.state.log_end_offset
    leader.commit("adopt", log_end_offset=end, leader_epoch=epoch + 1)
    version = leader.append(leader.batch(b"zombie", leader_epoch=epoch))

    report = life.fsck()

    finding = found(report, "I13", leader, version=version, offset=end)
    assert finding.sentence == (
        f"a batch was appended by leadership {epoch} to a table fenced at {epoch + 1}"
    )
    assert report.invariants == {"I13"}


def test_i13_an_append_before_the_table_was_fenced(life, leader):
    epoch = registration(life).leader_epoch
    commit_records(life, changed(registration(life), life, leader=leader.broker_id))
    end = leader.state.log_end_offset
    version = leader.append(leader.batch(b"early", leader_epoch=epoch + 1))

    finding = found(life.fsck(), "I13", leader, version=version, offset=end)

    assert "before the table was fenced at it" in finding.sentence


def test_i13_a_fence_that_goes_back(life, follower):
    fence = follower.state.leader_epoch
    version = follower.commit("adopt", leader_epoch=fence - 1)

    finding = found(life.fsck(), "I13", follower, version=version)

    assert finding.sentence == f"the fence went back from {fence} to {fence - 1}"


def test_i14_a_cut_under_one_leadership(life, follower):
    last = follower.state.batches[-1]
    version = follower.commit("cut", removes=[last], log_end_offset=last.base_offset)

    found(life.fsck(), "I14", follower, version=version, offset=last.base_offset)


def test_i14_adopting_a_leadership_cuts_what_was_committed(life, follower):
    register = registration(life)
    commit_records(life, changed(register, life, leader=register.leader))
    last = follower.state.batches[-1]
    version = follower.commit(
        "adopt",
        removes=[last],
        log_end_offset=last.base_offset,
        leader_epoch=register.leader_epoch + 1,
    )

    finding = found(life.fsck(), "I14", follower, version=version, offset=last.base_offset)

    assert finding.sentence.endswith(f"below the high watermark {last.end_offset}")


def test_i14_a_committed_batch_is_not_cut_outside_the_isr_either(life, follower):
    register = registration(life)
    out = changed(register, life, isr=register.isr - {follower.broker_id}, leader=register.leader)
    commit_records(life, out)
    last = follower.state.batches[-1]
    version = follower.commit(
        "adopt",
        removes=[last],
        log_end_offset=last.base_offset,
        leader_epoch=register.leader_epoch + 1,
    )

    report = life.fsck()

    finding = found(report, "I14", follower, version=version, offset=last.base_offset)
    assert "cut a committed batch" in finding.sentence
    assert report.invariants == {"I14"}


def test_i15_a_flipped_bit_in_a_segment(life, follower):
    batch = follower.state.batches[-1]
    [segment] = batch.segments
    flip_a_bit(follower.folder / segment.path)

    report = life.fsck()

    finding = found(report, "I15", follower, path=segment.path, offset=batch.base_offset)
    assert finding.sentence.endswith("have not the digest in its name")
    assert len(report.findings) == 1
    assert life.fsck(deep=False).is_clean


@pytest.mark.parametrize("harm", ["missing", "cut short"])
def test_i15_a_segment_that_is_not_whole(life, follower, harm):
    [segment] = follower.state.batches[-1].segments
    path = follower.folder / segment.path
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-10])

    found(life.fsck(), "I15", follower, path=segment.path)


def test_i15_statistics_that_count_other_records_than_there_are(life, leader):
    # Header and statistics agree with each other, and not with the file.
    batch = leader.batch(b"a", b"b")

    def count_three(action):
        action.stats = action.stats.replace('"numRecords": 2', '"numRecords": 3')
        action.partition_values = {**action.partition_values, "batch_record_count": "3"}

    leader.commit("append", adds=[batch], edit=count_three, log_end_offset=batch.base_offset + 3)

    finding = found(life.fsck(), "I15", leader, path=batch.segments[0].path)

    assert finding.sentence.endswith("has 2 records, its statistics say 3")


def test_i15_timestamps_that_are_not_what_the_statistics_say(life, leader):
    batch = leader.batch(b"a")

    def shift(action):
        action.stats = action.stats.replace("2026-01-01", "2026-01-02")

    leader.commit("append", adds=[batch], edit=shift, log_end_offset=batch.end_offset)

    found(life.fsck(), "I15", leader, path=batch.segments[0].path)


def test_i15_segments_that_do_not_add_up_to_their_batch(life, leader):
    batch = leader.batch(b"a", b"b")

    def count_three(action):
        action.partition_values = {**action.partition_values, "batch_record_count": "3"}

    version = leader.commit(
        "append", adds=[batch], edit=count_three, log_end_offset=batch.end_offset
    )

    finding = found(life.fsck(), "I15", leader, version=version, offset=batch.base_offset)

    assert finding.sentence == "a batch's segments have 2 records, its header says 3"


def test_i15_a_file_without_a_batch_header(life, leader):
    batch = leader.batch(b"a")

    def forget(action):
        action.partition_values = {**action.partition_values, "leader_epoch": None}

    version = leader.commit("append", adds=[batch], edit=forget, log_end_offset=batch.end_offset)

    found(life.fsck(), "I15", leader, version=version)


def test_i16_a_batch_removed_that_is_kept(life, follower):
    first = follower.state.batches[0]
    assert first.base_offset == LOG_START
    version = follower.commit(
        "advance_log_start", removes=[first], log_end_offset=follower.state.log_end_offset
    )

    found(life.fsck(), "I16", follower, version=version, offset=LOG_START)


def test_i16_a_log_start_that_goes_back(life, follower):
    version = follower.commit("advance_log_start", log_start_offset=LOG_START - 1)

    finding = found(life.fsck(), "I16", follower, version=version)

    assert finding.sentence == f"the log start went back from {LOG_START} to {LOG_START - 1}"


def test_i16_a_replica_that_runs_ahead_of_the_decided_log_start(life, follower):
    first = follower.state.batches[0]
    version = follower.commit(
        "advance_log_start", removes=[first], log_start_offset=first.end_offset
    )

    report = life.fsck()

    finding = found(report, "I16", follower, version=version)
    assert finding.sentence.endswith(f"above the decided log start {LOG_START}")


def test_i19_and_i20_a_table_that_says_it_is_another_replica(life, follower):
    def lie(action):
        if "metaData" in action:
            configuration = action["metaData"]["configuration"]
            configuration["kos.topic.id"] = "0" * 32
            configuration["kos.broker.id"] = "7"

    follower.edit_commit(0, lie)

    report = life.fsck()

    found(report, "I20", follower, version=0)
    found(report, "I19", follower, version=0)
