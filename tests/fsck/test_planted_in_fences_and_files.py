"""One fault an invariant, planted in what fences, cuts and files of replicas say: found by its id."""

import pytest

from tests.fsck.lives import LOG_START
from tests.fsck.plants import changed, commit_records, flip_a_bit, found, registration


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
    assert report.invariants == {"I13", "I26"}


def test_i26_a_file_that_is_added_under_another_fence_than_in_its_name(life, leader):
    epoch = leader.state.leader_epoch
    batch = leader.batch(b"late", leader_epoch=epoch)
    stale = batch.named_under(epoch + 1)
    [old], [new] = batch.segments, stale.segments
    (leader.folder / old.file_name).rename(leader.folder / new.file_name)
    version = leader.append(stale)

    report = life.fsck()

    finding = found(report, "I26", leader, version=version)
    assert finding.sentence == (
        f"the file {new.file_name} is added by a commit of leadership {epoch}, and may be deleted by"
        " a cleaner"
    )


def test_i26_a_file_that_is_added_again_after_the_table_removed_it(life, leader):
    batch = leader.batch(b"again")
    leader.append(batch)
    last = leader.state.batches[-1]
    leader.commit("truncate", removes=[last], log_end_offset=last.base_offset)
    version = leader.append(last)

    finding = found(life.fsck(), "I26", leader, version=version)

    [path] = (each.file_name for each in last.segments)
    assert finding.sentence == f"the file {path} is added again: the table has it, or had it"


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
    flip_a_bit(follower.folder / segment.file_name)

    report = life.fsck()

    finding = found(report, "I15", follower, path=segment.file_name, offset=batch.base_offset)
    assert finding.sentence.endswith("have not the digest in its name")
    assert len(report.findings) == 1
    assert life.fsck(deep=False).is_clean


@pytest.mark.parametrize("harm", ["missing", "cut short"])
def test_i15_a_segment_that_is_not_whole(life, follower, harm):
    [segment] = follower.state.batches[-1].segments
    path = follower.folder / segment.file_name
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-10])

    found(life.fsck(), "I15", follower, path=segment.file_name)


def test_i15_statistics_that_count_other_records_than_there_are(life, leader):
    # Header and statistics agree with each other, and not with the file.
    batch = leader.batch(b"a", b"b")

    def count_three(add):
        add["stats"] = add["stats"].replace('"numRecords": 2', '"numRecords": 3')
        add["partitionValues"] = {**add["partitionValues"], "batch_record_count": "3"}

    leader.commit("append", adds=[batch], edit=count_three, log_end_offset=batch.base_offset + 3)

    finding = found(life.fsck(), "I15", leader, path=batch.segments[0].file_name)

    assert finding.sentence.endswith("has 2 records, its statistics say 3")


def test_i15_timestamps_that_are_not_what_the_statistics_say(life, leader):
    batch = leader.batch(b"a")

    def shift(add):
        add["stats"] = add["stats"].replace("2026-01-01", "2026-01-02")

    leader.commit("append", adds=[batch], edit=shift, log_end_offset=batch.end_offset)

    found(life.fsck(), "I15", leader, path=batch.segments[0].file_name)


def test_i15_segments_that_do_not_add_up_to_their_batch(life, leader):
    batch = leader.batch(b"a", b"b")

    def count_three(add):
        add["partitionValues"] = {**add["partitionValues"], "batch_record_count": "3"}

    version = leader.commit(
        "append", adds=[batch], edit=count_three, log_end_offset=batch.end_offset
    )

    finding = found(life.fsck(), "I15", leader, version=version, offset=batch.base_offset)

    assert finding.sentence == "a batch's segments have 2 records, its header says 3"


def test_i15_a_file_without_a_batch_header(life, leader):
    batch = leader.batch(b"a")

    def forget(add):
        add["partitionValues"] = {**add["partitionValues"], "leader_epoch": None}

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
