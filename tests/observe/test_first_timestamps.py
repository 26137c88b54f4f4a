"""How old the first record is that a group has not processed."""

from datetime import UTC, datetime

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.metadata.image import partition_key
from kafka_on_spark.observe.replicas import first_timestamps
from kafka_on_spark.store.roots import StorageOptions


def at(hour):
    return datetime(2026, 1, 31, hour, tzinfo=UTC)


def test_a_place_has_the_time_of_its_first_record_and_one_that_is_away_the_reason(disks):
    cluster = disks.cluster
    cluster.create_topic("t", replica_assignment={0: [1], 1: [3]})
    for hours in ([8, 9], [12, 10], [11]):
        rows = [
            {"key": None, "value": b"v", "timestamp": at(each), "partition": 0} for each in hours
        ]
        cluster.append("t", rows)
    cluster.append("t", [{"key": None, "value": b"v", "partition": 1}])
    cluster.delete_records({("t", 0): 1})
    image = cluster.image
    one, two = (partition_key(image, "t", number) for number in (0, 1))
    disks.take_away(3)

    *found, error = first_timestamps(
        image, [*((one, offset) for offset in (0, 2, 3, 4, 5)), (two, 0)], StorageOptions()
    )

    hours = [
        None if each is None else datetime.fromtimestamp(each / 1000, UTC).hour for each in found
    ]
    assert hours == [9, 12, 10, 11, None]
    assert isinstance(error, KafkaOnSparkError)
