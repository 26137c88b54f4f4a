"""Which inspections of a round count: none of a partition without a leader, none by old metadata."""

from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.controller.partition_change import change_record
from kafka_on_spark.metadata.partition import PartitionChange
from tests.builders import disk
from tests.controller.rounds import Rounds


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
