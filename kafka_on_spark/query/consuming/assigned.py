"""Which partitions a consumer reads, and whether one has something for it. Pure."""

from collections.abc import Mapping, Sequence

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import PartitionKey, check_text, listed
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.query.consuming.standing import Standing
from kafka_on_spark.query.partition_names import keys_of
from kafka_on_spark.query.subscription import (
    Assign,
    Subscribe,
    SubscribePattern,
    Subscription,
    compile_pattern,
    partitions_of,
)


def subscription_of(
    image: MetadataImage, topics: object, pattern: object, partitions: object
) -> Subscription | None:
    """Return what a consumer is made for: topics, a pattern or partitions; None: nothing yet.

    Raises:
        InvalidRequestError: More than one is given, or one is not what it should be.
        UnknownTopicOrPartitionError: A topic or partition does not exist.
    """
    given = [each for each in (topics, pattern, partitions) if each is not None]
    if len(given) > 1:
        raise InvalidRequestError(
            "a consumer reads topics, or what matches a pattern, or partitions: give one of them"
        )
    if partitions is not None:
        return assignment_of(image, partitions)
    if pattern is not None:
        check_text(pattern, "a pattern", InvalidRequestError)
        compile_pattern(str(pattern))
        return SubscribePattern(str(pattern))
    if topics is None:
        return None
    names = [topics] if isinstance(topics, str) else listed(topics, "topics", "topics' names")
    if not names:
        raise InvalidRequestError(
            "a consumer of no topics reads nothing: name one, or leave it out"
        )
    return Subscribe(tuple(sorted({image.topic(name).name for name in names})))


def assignment_of(image: MetadataImage, partitions: object) -> Assign:
    """Return some partitions, named by topic and number, as a subscription.

    Raises:
        InvalidRequestError: They are not, or there is none.
        UnknownTopicOrPartitionError: One does not exist.
    """
    names = {image.name_of(key) for key in keys_of(image, partitions)}
    if not names:
        raise InvalidRequestError(
            "a consumer of no partitions reads nothing: name one, as in ('orders', 0)"
        )
    numbers: dict[str, tuple[int, ...]] = {}
    for topic, number in sorted(names):
        numbers[topic] = (*numbers.get(topic, ()), number)
    return Assign(numbers)


def assigned_keys(image: MetadataImage, subscription: Subscription) -> list[PartitionKey]:
    """Return the keys of the partitions that `subscription` means in `image`.

    Raises: as `partitions_of`.
    """
    return [
        PartitionKey(image.topic_ids[name], number)
        for name, numbers in partitions_of(image, subscription).items()
        for number in numbers
    ]


def is_due(partition: PartitionRegistration, standing: Standing) -> bool:
    """Return whether a partition has records at a position, or the position has to be revised."""
    return (
        partition.high_watermark > standing.offset
        or partition.unclean_generation != standing.unclean_generation
        or standing.offset > partition.known_log_end
    )


def due_in_turn(
    image: MetadataImage,
    standings: Mapping[PartitionKey, Standing],
    after: PartitionKey | None,
) -> Sequence[PartitionKey]:
    """Return the partitions that have something for the consumer: those behind the one that had
    its turn last come first."""
    due = [
        key
        for key, standing in standings.items()
        if (partition := image.partition(key)) is not None and is_due(partition, standing)
    ]
    due.sort()
    place = 0 if after is None else sum(key <= after for key in due)
    return [*due[place:], *due[:place]]
