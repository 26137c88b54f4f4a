"""Which inspections of a round count: none of a partition without a leader, none by old metadata."""

from kafka_on_spark.controller.pace.sweep import FIRST, Ring, SweepPosition, after_slice
from kafka_on_spark.controller.partitions.partition_change import change_record
from kafka_on_spark.ids import BrokerId
from kafka_on_spark.metadata.partition import PartitionChange
from tests.builders import disk, image_of, partition
from tests.unit.service.rounds import Rounds

INTERVAL_MS = 600_000


def test_a_partition_that_was_never_created_is_caught_up_and_needs_no_tables():
    rounds = Rounds(directories=(None, None, None))

    report = rounds.run()

    assert (report.not_looked_at, report.is_caught_up) == (0, True)
    assert rounds.metadata.image.partition(rounds.keys[0]).directories == (None, None, None)


def test_an_inspection_creates_the_leader_that_its_followers_wait_for():
    rounds = Rounds(directories=(None, disk(2), disk(3)))

    report = rounds.run()

    assert rounds.fetched(is_inspection=True) == [(0, 2), (0, 3)]
    assert (report.not_looked_at, report.is_caught_up) == (0, True)


def test_replicas_without_a_leader_do_not_count_as_inspected_when_they_have_one_again():
    rounds = Rounds(leader=None)
    leaderless = rounds.run()
    key = rounds.keys[0]
    image = rounds.metadata.image
    change = PartitionChange(leader=BrokerId(1))
    rounds.submit([change_record(image, key, image.partition(key), change, "elected")])

    report = rounds.run()

    assert (leaderless.not_looked_at, leaderless.is_caught_up) == (1, False)
    assert rounds.fetched(is_inspection=True) == [(0, 2), (0, 3)]
    assert (report.not_looked_at, report.is_caught_up) == (0, True)


def test_an_inspection_counts_from_when_its_metadata_was_new_though_the_process_stood_still():
    """In its metadata the partition was never made; it was, while the process stood still."""
    rounds = Rounds(directories=(None, None, None))
    catch_up = rounds.metadata.catch_up

    def stand_still():
        image = catch_up()
        rounds.clock.advance(INTERVAL_MS)
        return image

    rounds.metadata.catch_up = stand_still
    rounds.run()
    rounds.metadata.catch_up = catch_up
    rounds.submit([made(rounds, (disk(1), disk(2), disk(3)))])

    report = rounds.run()

    assert rounds.fetched(is_inspection=True) == [(0, 2), (0, 3)]
    assert (report.not_looked_at, report.is_caught_up) == (0, True)


def made(rounds, directories):
    """Return the record that says on which disks the first partition's replicas are."""
    key = rounds.keys[0]
    partition = rounds.metadata.image.partition(key)
    change = PartitionChange(directories=directories)
    return change_record(rounds.metadata.image, key, partition, change, "made")


def test_a_partition_whose_inspection_fails_again_is_remembered_once():
    ring = Ring.of(image_of(*[partition("1 2 3")] * 3))
    keys = ring.keys(0, 3)
    position = SweepPosition(at_ms=0, begins_at=FIRST, owed=3.0, again=(keys[1],))

    found = after_slice(
        ring, position, keys, failed={keys[1], keys[2]}, at_ms=0, interval_ms=INTERVAL_MS
    )

    assert found.again == (keys[1], keys[2])
