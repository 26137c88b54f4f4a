"""One fault an invariant, planted in replicas' tables: found by its id, and where it is."""

from dataclasses import replace
from pathlib import Path

import pytest

from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import CLIENT_EPOCH_BITS, CLIENT_PREFIX, ProducerStamp
from kafka_on_spark.metadata.records import ProducerRecord, RemoveProducerRecord
from tests.builders import entry
from tests.fsck.lives import TOPIC, replica
from tests.fsck.plants import (
    Plant,
    Planted,
    changed,
    commit_records,
    flaw,
    found,
    registration,
    watermark,
)

planted = Planted()


@planted
def i1_an_in_sync_replica_that_was_rolled_back(life, leader, follower):
    end = follower.state.batches[-1].base_offset
    version = follower.roll_back()
    words = f"the replica is in sync and ends at {end}, below the high watermark {end + 2}"
    return flaw("I1", follower, words, absent={"I2", "I3"}, version=version, offset=end)


@planted
def i1_an_in_sync_replica_without_a_table(life, leader, follower):
    follower.folder.rename(follower.folder.with_name("moved"))
    return flaw("I1", follower, "the replica is lost: there is no table at ")


@planted
def i1_a_high_watermark_that_counted_a_replica_before_it_was_there(life, leader, follower):
    # The leader alone has the new batch; the follower gets it after it was counted, or never.
    batch = leader.batch(b"new")
    leader.append(batch)
    end = batch.end_offset
    commit_records(life, watermark(registration(life), life, end, log_end_offset=end))
    return flaw("I1", follower, f"the high watermark moved to {end} under leadership ", offset=end)


@planted
def i2_a_leader_that_was_rolled_back(life, leader, follower):
    end = leader.state.batches[-1].base_offset
    version = leader.roll_back()
    words = f"the leader lacks the committed records [{end}, {end + 2})"
    return flaw("I2", leader, words, absent={"I3"}, version=version, offset=end)


@planted
def i3_all_replicas_rolled_back(life, leader, follower):
    end = leader.state.batches[-1].base_offset
    for broker_id in registration(life).replicas:
        Plant(life, broker_id).roll_back()
    words = f"no assigned replica has the committed record at {end}"
    return flaw("I3", None, words, offset=end, partition=(TOPIC, 0))


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


@planted
def i4_two_batches_of_one_leadership_at_one_offset(life, leader, follower):
    # Above the high watermark, where nothing else than log matching forbids it.
    leader.append(leader.batch(b"one"))
    base = follower.state.log_end_offset
    version = follower.append(follower.batch(b"another"), operation="append_fetched")
    words = f"broker {leader.broker_id}, which led then, has the right one"
    return flaw("I4", follower, words, only={"I4"}, version=version, offset=base)


@planted
def i4_one_batch_behind_two_different_ones(life, leader, follower):
    # A follower that has another batch before the one that both have.
    leader.append(leader.batch(b"one"))
    follower.append(follower.batch(b"other"), operation="append_fetched")
    shared = leader.batch(b"shared")
    source = leader.folder / shared.segments[0].file_name
    (follower.folder / source.name).write_bytes(source.read_bytes())
    leader.append(shared)
    version = follower.append(shared, operation="append_fetched")
    return flaw("I4", follower, version=version, offset=shared.base_offset)


@planted
def i5_a_batch_of_an_older_leadership_behind_a_newer_one(life, leader, follower):
    batch = follower.batch(b"old", leader_epoch=0)
    version = follower.append(batch, operation="append_fetched")
    words = "a batch of leadership 0 stands behind one of "
    return flaw("I5", follower, words, version=version, offset=batch.base_offset)


@planted
def i5_a_table_fenced_at_a_leadership_that_the_metadata_does_not_know(life, leader, follower):
    end = follower.state.log_end_offset
    version = follower.commit("adopt", leader_epoch=99, log_end_offset=end)
    return flaw("I5", follower, "the metadata went back", version=version)


@planted
def i6_records_appended_to_a_replica_that_does_not_lead(life, leader, follower):
    batch = follower.batch(b"mine")
    version = follower.append(batch, operation="append")
    words = f"were appended here, and broker {leader.broker_id} led it"
    return flaw("I6", follower, words, only={"I6"}, version=version, offset=batch.base_offset)


def astray(leader, shift):
    batch = leader.batch(b"astray", base_offset=leader.state.log_end_offset + shift)
    version = leader.append(batch)
    return flaw("I10", leader, version=version, offset=batch.base_offset)


@planted
def i10_a_batch_that_begins_behind_the_end_of_the_log(life, leader, follower):
    return astray(leader, 1)


@planted
def i10_a_batch_that_begins_before_the_end_of_the_log(life, leader, follower):
    return astray(leader, -1)


@planted
def i10_a_log_that_does_not_end_where_it_says(life, leader, follower):
    batch = leader.batch(b"a")
    end = batch.end_offset
    version = leader.append(batch, log_end_offset=end + 1)
    words = f"the log says that it ends at {end + 1}, its batches end at {end}"
    return flaw("I10", leader, words, version=version)


def appended(leader, sequence, *, epoch=0, producer_id="p"):
    """Append a record of a producer; return the commit's version and the record's offset."""
    stamp = ProducerStamp(
        producer_id=producer_id, producer_epoch=epoch, sequence=sequence, payload_digest=1
    )
    batch = leader.batch(b"a", producer=stamp)
    return {"version": leader.append(batch), "offset": batch.base_offset}


@planted
def i11_the_last_sequence_again(life, leader, follower):
    return flaw("I11", leader, "sequence 9 of producer 'p' stands behind 9", **appended(leader, 9))


@planted
def i11_a_sequence_that_retention_has_removed(life, leader, follower):
    with_producers(life, leader, lambda entries: entries)
    return flaw("I11", leader, **appended(leader, 9))


CLIENT = f"{CLIENT_PREFIX}00000001"
EPOCH = 2**CLIENT_EPOCH_BITS


@planted
def i11_a_gap_in_the_sequences_of_a_client(life, leader, follower):
    appended(leader, 0, producer_id=CLIENT)
    words = f"sequence 7 of producer '{CLIENT}' is not 1, which follows"
    return flaw("I11", leader, words, **appended(leader, 7, producer_id=CLIENT))


@planted
def i11_a_clients_epoch_that_does_not_begin_at_0(life, leader, follower):
    appended(leader, 5, producer_id=CLIENT)
    words = f"is not {EPOCH}, which follows"
    return flaw("I11", leader, words, **appended(leader, EPOCH + 6, producer_id=CLIENT))


def test_a_clients_sequences_follow_each_other_from_anywhere_on(life, leader):
    for sequence in (5, 6, EPOCH, EPOCH + 1):
        appended(leader, sequence, producer_id=CLIENT)

    assert "which follows" not in str(life.fsck())


def with_producers(life, leader, entries):
    """Move the log start past the newest batch, and write `entries` of its producers."""
    log = replica(life.disks.image, leader.broker_id)
    state = log.load()
    change = operations.advance_log_start(state, state.batches[-1].end_offset)
    return log.commit(state, replace(change, producers=entries(change.producers)))


@planted
def i11_headers_that_go_without_a_new_producer_state(life, leader, follower):
    after = with_producers(life, leader, lambda entries: None)
    words = "headers of producers were removed, and no new producer state was named"
    return flaw("I11", leader, words, version=after.version)


LACKS = "the producer state lacks producer 'p', whose appends went"


@planted
def i11_a_producer_state_that_lacks_a_producer(life, leader, follower):
    after = with_producers(life, leader, lambda entries: {})
    return flaw("I11", leader, LACKS, version=after.version)


def expire(life):
    """Have the producer's id expire with its epoch, and come back with the next, as for somebody
    who vouches for it; return the epoch that has expired."""
    epoch = life.disks.image.producers["p"]
    commit_records(
        life,
        RemoveProducerRecord(producer_id="p", producer_epoch=epoch, cause="test"),
        ProducerRecord(producer_id="p", producer_epoch=epoch + 1),
    )
    return epoch


def test_of_an_id_that_came_back_a_log_may_have_forgotten_what_was_before(life, leader):
    """So it may begin with a lower sequence."""
    appended(leader, 100)
    with_producers(life, leader, lambda entries: {})
    epoch = expire(life)
    appended(leader, 7, epoch=epoch + 1)

    assert "I11" not in life.fsck().invariants


@planted
def i11_a_producer_state_that_lacks_what_an_id_appended_since_it_came_back(life, leader, follower):
    appended(leader, 100, epoch=expire(life) + 1)
    after = with_producers(life, leader, lambda entries: {})
    return flaw("I11", leader, LACKS, version=after.version)


@planted
def i11_a_sequence_that_falls_after_an_id_came_back(life, leader, follower):
    epoch = expire(life) + 1
    appended(leader, 100, epoch=epoch)
    words = "sequence 7 of producer 'p' stands behind 100"
    return flaw("I11", leader, words, **appended(leader, 7, epoch=epoch))


@planted
def i11_a_sequence_that_falls_where_the_id_has_not_expired(life, leader, follower):
    appended(leader, 100)
    return flaw("I11", leader, **appended(leader, 7, epoch=50))


@planted
def i11_a_producer_state_that_says_another_place(life, leader, follower):
    after = with_producers(life, leader, lambda entries: {"p": entry(9, base=1)})
    words = "says of producer 'p' what its log never had"
    offset = after.log_end_offset - 2
    return flaw("I11", leader, words, version=after.version, offset=offset)


@planted
def i11_a_producer_state_whose_number_falls(life, leader, follower):
    with_producers(life, leader, lambda entries: entries)
    number = max(int(each.name[10:30]) for each in leader.folder.glob("producers-*"))
    version = leader.commit("append_fetched", producer_state=number - 1)
    words = f"the number of the producer-state file went back from {number} to {number - 1}"
    return flaw("I11", leader, words, version=version)


@planted
def i11_an_older_run_of_a_producer_behind_a_newer_one(life, leader, follower):
    appended(leader, 0, epoch=5, producer_id="q")
    words = "run 4 of producer 'q' appended after run 5"
    return flaw("I11", leader, words, **appended(leader, 1, epoch=4, producer_id="q"))


@planted
def i12_records_that_are_others_under_a_later_leadership(life, leader, follower):
    # The follower loses its last batch, leads, and puts something else in its place.
    register = registration(life)
    last = follower.state.batches[-1]
    epoch = register.leader_epoch + 1
    follower.commit("adopt", removes=[last], log_end_offset=last.base_offset, leader_epoch=epoch)
    batch = follower.batch(b"other", b"than that", b"and more")
    version = follower.append(batch)
    change = changed(register, life, leader=follower.broker_id, isr=frozenset({follower.broker_id}))
    end = batch.end_offset
    led = register.merge(change.change)
    mark = watermark(led, life, end, log_end_offset=end, high_watermark_epoch=epoch)
    commit_records(life, change, mark)
    words = f"and are others under leadership {epoch}"
    return flaw("I12", follower, words, version=version, offset=last.base_offset)


@pytest.mark.parametrize("plant", planted)
def test_a_fault_is_found_by_its_id_and_where_it_is(life, leader, follower, plant):
    expected = plant(life, leader, follower)

    expected.check(life.fsck())


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_i15_a_producer_state_that_is_missing_or_damaged(life, leader, damage):
    with_producers(life, leader, lambda entries: entries)
    name = max(each.name for each in leader.folder.glob("producers-*"))
    damage(leader.folder / name)

    assert found(life.fsck(), "I15", path=name)
