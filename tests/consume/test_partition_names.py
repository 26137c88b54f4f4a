"""Which partitions a caller names: a pair, or a list of pairs."""

import pytest

from kafka_on_spark.base.errors import InvalidRequestError, UnknownTopicOrPartitionError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.metadata.image import keys_of
from tests.builders import TOPIC_ID, image_of, partition

IMAGE = image_of(partition("1"), partition("1"))
FIRST, SECOND = (PartitionKey(TOPIC_ID, number) for number in (0, 1))


@pytest.mark.parametrize(
    "names, expected",
    [
        (("orders", 1), [SECOND]),
        (["orders", 1], [SECOND]),
        ([("orders", 1)], [SECOND]),
        ([("orders", 1), ("orders", 0)], [SECOND, FIRST]),
        ([], []),
    ],
)
def test_a_pair_is_one_partition_and_a_list_has_several(names, expected):
    assert keys_of(IMAGE, names) == expected


def test_a_partition_that_is_none_is_refused():
    with pytest.raises(UnknownTopicOrPartitionError, match="has no partition 2: it has 0 to 1"):
        keys_of(IMAGE, ("orders", 2))
    with pytest.raises(InvalidRequestError):
        keys_of(IMAGE, ("orders", "1"))
    with pytest.raises(InvalidRequestError):
        keys_of(IMAGE, 7)
