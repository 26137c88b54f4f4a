"""One fault an invariant, planted in what fences, cuts and files of replicas say: found by its id."""

import pytest

from tests.forging import flip_a_bit
from tests.fsck.lives import LOG_START
from tests.fsck.plants import Planted, changed, commit_records, flaw, registration

planted = Planted()


def lead_again(life, leader):
    """Have the leader begin another leadership in the metadata log; return the epoch before."""
    commit_records(life, changed(registration(life), life, leader=leader.broker_id))
    return leader.state.leader_epoch


@planted
def i13_an_append_by_a_deposed_leader(life, leader, follower):
    epoch = lead_again(life, leader)
    end = leader.state.log_end_offset
    leader.commit("adopt", log_end_offset=end, leader_epoch=epoch + 1)
    version = leader.append(leader.batch(b"zombie", leader_epoch=epoch))
    words = f"a batch was appended by leadership {epoch} to a table fenced at {epoch + 1}"
    return flaw("I13", leader, words, only={"I13", "I26"}, version=version, offset=end)


@planted
def i13_an_append_before_the_table_was_fenced(life, leader, follower):
    epoch = lead_again(life, leader)
    end = leader.state.log_end_offset
    version = leader.append(leader.batch(b"early", leader_epoch=epoch + 1))
    return flaw("I13", leader, "before the table was fenced at it", version=version, offset=end)


@planted
def i13_a_fence_that_goes_back(life, leader, follower):
    fence = follower.state.leader_epoch
    version = follower.commit("adopt", leader_epoch=fence - 1)
    return flaw(
        "I13", follower, f"the fence went back from {fence} to {fence - 1}", version=version
    )


@planted
def i26_a_file_that_is_added_under_another_fence_than_in_its_name(life, leader, follower):
    epoch = leader.state.leader_epoch
    batch = leader.batch(b"late", leader_epoch=epoch)
    stale = batch.named_under(epoch + 1)
    [old], [new] = batch.segments, stale.segments
    (leader.folder / old.file_name).rename(leader.folder / new.file_name)
    version = leader.append(stale)
    words = f"the file {new.file_name} is added by a commit of leadership {epoch}"
    return flaw("I26", leader, words, version=version)


@planted
def i26_a_file_that_is_added_again_after_the_table_removed_it(life, leader, follower):
    leader.append(leader.batch(b"again"))
    last = leader.state.batches[-1]
    leader.commit("truncate", removes=[last], log_end_offset=last.base_offset)
    version = leader.append(last)
    [path] = (each.file_name for each in last.segments)
    words = f"the file {path} is added again: the table has it, or had it"
    return flaw("I26", leader, words, version=version)


def cut(follower, operation, **counters):
    """Take the follower's last batch, which is committed, away; return where."""
    last = follower.state.batches[-1]
    end = last.base_offset
    version = follower.commit(operation, removes=[last], log_end_offset=end, **counters)
    return {"version": version, "offset": end}


@planted
def i14_a_cut_under_one_leadership(life, leader, follower):
    return flaw("I14", follower, **cut(follower, "cut"))


@planted
def i14_adopting_a_leadership_cuts_what_was_committed(life, leader, follower):
    epoch = lead_again(life, leader)
    words = f"below the high watermark {follower.state.log_end_offset}"
    return flaw("I14", follower, words, **cut(follower, "adopt", leader_epoch=epoch + 1))


@planted
def i14_a_committed_batch_is_not_cut_outside_the_isr_either(life, leader, follower):
    register = registration(life)
    out = changed(register, life, isr=register.isr - {follower.broker_id}, leader=register.leader)
    commit_records(life, out)
    at = cut(follower, "adopt", leader_epoch=register.leader_epoch + 1)
    return flaw("I14", follower, "cut a committed batch", only={"I14"}, **at)


def test_i15_a_flipped_bit_in_a_segment(life, follower):
    batch = follower.state.batches[-1]
    [segment] = batch.segments
    flip_a_bit(follower.folder / segment.file_name)

    report = life.fsck()

    at = {"path": segment.file_name, "offset": batch.base_offset}
    flaw("I15", follower, "have not the digest in its name", **at).check(report)
    assert len(report.findings) == 1
    assert life.fsck(deep=False).is_clean


@planted
def i15_a_segment_that_is_missing(life, leader, follower):
    [segment] = follower.state.batches[-1].segments
    (follower.folder / segment.file_name).unlink()
    return flaw("I15", follower, path=segment.file_name)


def header_of(**values):
    """Return an edit of what a commit says of a batch."""

    def edit(add):
        add["partitionValues"] = {**add["partitionValues"], **values}

    return edit


@planted
def i15_statistics_that_count_other_records_than_there_are(life, leader, follower):
    # Header and statistics agree with each other, and not with the file.
    batch = leader.batch(b"a", b"b")

    def count_three(add):
        add["stats"] = add["stats"].replace('"numRecords": 2', '"numRecords": 3')
        header_of(batch_record_count="3")(add)

    leader.commit("append", adds=[batch], edit=count_three, log_end_offset=batch.base_offset + 3)
    words = "has 2 records, its statistics say 3"
    return flaw("I15", leader, words, path=batch.segments[0].file_name)


@planted
def i15_timestamps_that_are_not_what_the_statistics_say(life, leader, follower):
    batch = leader.batch(b"a")

    def shift(add):
        add["stats"] = add["stats"].replace("2026-01-01", "2026-01-02")

    leader.commit("append", adds=[batch], edit=shift, log_end_offset=batch.end_offset)
    return flaw("I15", leader, path=batch.segments[0].file_name)


@planted
def i15_segments_that_do_not_add_up_to_their_batch(life, leader, follower):
    batch = leader.batch(b"a", b"b")
    edit = header_of(batch_record_count="3")
    version = leader.commit("append", adds=[batch], edit=edit, log_end_offset=batch.end_offset)
    words = "a batch's segments have 2 records, its header says 3"
    return flaw("I15", leader, words, version=version, offset=batch.base_offset)


@planted
def i15_a_file_without_a_batch_header(life, leader, follower):
    batch = leader.batch(b"a")
    edit = header_of(leader_epoch=None)
    version = leader.commit("append", adds=[batch], edit=edit, log_end_offset=batch.end_offset)
    return flaw("I15", leader, version=version)


@planted
def i16_a_batch_removed_that_is_kept(life, leader, follower):
    state = follower.state
    version = follower.commit(
        "advance_log_start", removes=[state.batches[0]], log_end_offset=state.log_end_offset
    )
    return flaw("I16", follower, version=version, offset=LOG_START)


@planted
def i16_a_log_start_that_goes_back(life, leader, follower):
    version = follower.commit("advance_log_start", log_start_offset=LOG_START - 1)
    words = f"the log start went back from {LOG_START} to {LOG_START - 1}"
    return flaw("I16", follower, words, version=version)


@planted
def i16_a_replica_that_runs_ahead_of_the_decided_log_start(life, leader, follower):
    first = follower.state.batches[0]
    version = follower.commit(
        "advance_log_start", removes=[first], log_start_offset=first.end_offset
    )
    return flaw("I16", follower, f"above the decided log start {LOG_START}", version=version)


def of_another(follower):
    def lie(action):
        if "metaData" in action:
            configuration = action["metaData"]["configuration"]
            configuration["kos.topic.id"] = "0" * 32
            configuration["kos.broker.id"] = "7"

    follower.edit_commit(0, lie)


@planted
def i19_a_table_that_says_it_is_another_broker_s(life, leader, follower):
    of_another(follower)
    return flaw("I19", follower, version=0)


@planted
def i20_a_table_that_says_it_is_another_topic_s(life, leader, follower):
    of_another(follower)
    return flaw("I20", follower, version=0)


@pytest.mark.parametrize("plant", planted)
def test_a_fault_is_found_by_its_id_and_where_it_is(life, leader, follower, plant):
    expected = plant(life, leader, follower)

    expected.check(life.fsck())
