"""One fault an invariant, planted in replicas' tables: found by its id, and where it is."""

from dataclasses import replace
from pathlib import Path

import pytest

from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import ProducerStamp
from kafka_on_spark.metadata.records import ProducerRecord, RemoveProducerRecord
from tests.builders import entry
from tests.fsck.lives import TOPIC, replica
from tests.fsck.plants import Plant, changed, commit_records, found, registration, watermark


def test_i1_an_in_sync_replica_that_was_rolled_back(life, follower):
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


def test_i2_a_leader_that_was_rolled_back(life, leader):
    end = leader.state.batches[-1].base_offset
    version = leader.roll_back()

    report = life.fsck()

    finding = found(report, "I2", leader, version=version, offset=end)
    assert finding.sentence == f"the leader lacks the committed records [{end}, {end + 2})"
    found(report, "I9", leader)
    assert "I3" not in report.invariants


def test_i3_all_replicas_rolled_back(life, leader):
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
    led = f"broker {leader.broker_id}, which led then, has the right one"
    assert finding.sentence.endswith(led)
    assert report.invariants == {"I4"}


def test_i4_one_batch_behind_two_different_ones(life, leader, follower):
    # A follower that has another batch before the one that both have.
    one, other = leader.batch(b"one"), follower.batch(b"other")
    leader.append(one)
    follower.append(other, operation="append_fetched")
    shared = leader.batch(b"shared")
    source = leader.folder / shared.segments[0].file_name
    (follower.folder / source.name).write_bytes(source.read_bytes())
    leader.append(shared)
    version = follower.append(shared, operation="append_fetched")

    found(life.fsck(), "I4", follower, version=version, offset=shared.base_offset)


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
    [batch] = leader.chained([leader.batch(b"a", base_offset=leader.state.log_end_offset + 1)])
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
    log = replica(life.disks.image, leader.broker_id)
    log.commit(state, operations.advance_log_start(log.load(), last.end_offset))
    batch = leader.batch(b"twice", producer=producer_stamp(9))
    version = leader.append(batch)

    found(life.fsck(), "I11", leader, version=version, offset=batch.base_offset)


def with_producers(life, leader, entries):
    """Move the log start past the newest batch, and write `entries` of its producers."""
    log = replica(life.disks.image, leader.broker_id)
    state = log.load()
    change = operations.advance_log_start(state, state.batches[-1].end_offset)
    return log.commit(state, replace(change, producers=entries(change.producers)))


def test_i11_headers_that_go_without_a_new_producer_state(life, leader):
    after = with_producers(life, leader, lambda entries: None)

    finding = found(life.fsck(), "I11", leader, version=after.version)

    assert (
        finding.sentence == "headers of producers were removed, and no new producer state was named"
    )


def test_i11_a_producer_state_that_lacks_a_producer(life, leader):
    after = with_producers(life, leader, lambda entries: {})

    finding = found(life.fsck(), "I11", leader, version=after.version)

    assert finding.sentence == "the producer state lacks producer 'p', whose appends went"


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


def of_producers(life):
    return [each.sentence for each in life.fsck().findings if each.invariant == "I11"]


def test_of_an_id_that_came_back_a_log_may_have_forgotten_what_was_before(life, leader):
    with_producers(life, leader, lambda entries: {})
    expire(life)

    assert of_producers(life) == []


def test_i11_a_producer_state_that_lacks_what_an_id_appended_since_it_came_back(life, leader):
    epoch = expire(life)
    leader.append(leader.batch(b"a", producer=producer_stamp(100, epoch=epoch + 1)))
    after = with_producers(life, leader, lambda entries: {})

    finding = found(life.fsck(), "I11", leader, version=after.version)

    assert finding.sentence == "the producer state lacks producer 'p', whose appends went"


def test_an_id_that_came_back_may_begin_with_a_lower_sequence(life, leader):
    leader.append(leader.batch(b"a", producer=producer_stamp(100)))
    with_producers(life, leader, lambda entries: {})
    epoch = expire(life)

    leader.append(leader.batch(b"b", producer=producer_stamp(7, epoch=epoch + 1)))

    assert of_producers(life) == []


def test_i11_a_sequence_that_falls_after_an_id_came_back(life, leader):
    epoch = expire(life)
    leader.append(leader.batch(b"a", producer=producer_stamp(100, epoch=epoch + 1)))
    batch = leader.batch(b"b", producer=producer_stamp(7, epoch=epoch + 1))
    version = leader.append(batch)

    finding = found(life.fsck(), "I11", leader, version=version, offset=batch.base_offset)

    assert finding.sentence == "sequence 7 of producer 'p' stands behind 100"


def test_i11_a_sequence_that_falls_where_the_id_has_not_expired(life, leader):
    leader.append(leader.batch(b"a", producer=producer_stamp(100)))
    batch = leader.batch(b"b", producer=producer_stamp(7, epoch=50))
    version = leader.append(batch)

    assert found(life.fsck(), "I11", leader, version=version, offset=batch.base_offset)


def test_i11_a_producer_state_that_says_another_place(life, leader):
    after = with_producers(life, leader, lambda entries: {"p": entry(9, base=1)})

    finding = found(
        life.fsck(), "I11", leader, version=after.version, offset=after.log_end_offset - 2
    )

    assert "says of producer 'p' what its log never had" in finding.sentence


def test_i11_a_producer_state_whose_number_falls(life, leader):
    with_producers(life, leader, lambda entries: entries)
    number = max(int(each.name[10:30]) for each in leader.folder.glob("producers-*"))
    version = leader.commit("append_fetched", producer_state=number - 1)

    finding = found(life.fsck(), "I11", leader, version=version)

    assert (
        finding.sentence
        == f"the number of the producer-state file went back from {number} to {number - 1}"
    )


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_i15_a_producer_state_that_is_missing_or_damaged(life, leader, damage):
    with_producers(life, leader, lambda entries: entries)
    name = max(each.name for each in leader.folder.glob("producers-*"))
    damage(leader.folder / name)

    assert any(each.invariant == "I15" and each.place.path == name for each in life.fsck().findings)


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
