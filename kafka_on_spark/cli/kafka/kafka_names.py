"""Topics and partitions as Kafka's tools name them: by pattern, and as topic:partition."""

import re
from collections.abc import Iterable

from kafka_on_spark.cli.call.options import numbers
from kafka_on_spark.errors import InvalidRequestError, UnknownTopicOrPartitionError
from kafka_on_spark.ids import TopicPartition
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.partition_names import partition_key


def named_topics(
    image: MetadataImage, names: str | None, include: str | None, *, if_exist: bool = False
) -> list[str]:
    """Return the topics of a list with commas, or those whose whole name `include` matches.

    Without either, all; sorted. A name is never taken for an expression: "." in a name would match
    another topic (KAFKA-5596). "," in an expression means "or". Source: IncludeList.

    Raises:
        InvalidRequestError: Both are given, or `include` is not a regular expression.
        UnknownTopicOrPartitionError: There is no such topic, or no topic matches; not with
            `if_exist`, which leaves out what is not there.
    """
    if names is not None and include is not None:
        raise InvalidRequestError("--topic and --include both say which topics: give one of them")
    if names is not None:
        given = {each.strip() for each in names.split(",")}
        unknown = sorted(given - image.topic_ids.keys())
        if unknown and not if_exist:
            raise UnknownTopicOrPartitionError(
                f"there is no topic {unknown[0]!r} (known: {_known(image)}); a regular expression"
                " of names goes with --include"
            )
        return sorted(given.difference(unknown))
    if include is None:
        return sorted(image.topic_ids)
    try:
        expression = re.compile("|".join(part.strip() for part in include.split(",")))
    except re.error as error:
        raise InvalidRequestError(
            f"--include can't be {include!r}, which is not a regular expression ({error}): give one"
            " such as 'flights.*'"
        ) from None
    found = sorted(name for name in image.topic_ids if expression.fullmatch(name))
    if not found and not if_exist:
        raise UnknownTopicOrPartitionError(f"no topic matches {include!r} (known: {_known(image)})")
    return found


def _known(image: MetadataImage) -> str:
    return ", ".join(sorted(image.topic_ids)[:10]) or "none"


def all_partitions(image: MetadataImage, topics: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of `topics`, in order."""
    return [
        TopicPartition(name, number)
        for name in topics
        for number in sorted(image.topic(name).partitions)
    ]


def named_partitions(image: MetadataImage, text: str) -> list[TopicPartition]:
    """Return the partitions of a list such as "flights:0,flights:2-4,copies:3-".

    Ranges are half-open, and a topic alone means all of its partitions. Source:
    kafka-get-offsets --topic-partitions.

    Raises:
        InvalidRequestError: `text` is no such list.
        UnknownTopicOrPartitionError: There is no such topic or partition.
    """
    found: list[TopicPartition] = []
    for part in text.split(","):
        name, _, bounds = part.strip().partition(":")
        count = len(image.topic(name).partitions)
        wanted = _range(bounds, count, part)
        if wanted and wanted[-1] >= count:
            raise UnknownTopicOrPartitionError(
                f"topic {name!r} has no partition {wanted[-1]}: it has 0 to {count - 1}"
            )
        found.extend(TopicPartition(name, number) for number in wanted)
    return found


def _range(bounds: str, count: int, part: str) -> range:
    match = re.fullmatch(r"(\d*)(-?)(\d*)", bounds)
    if match is None:
        raise InvalidRequestError(
            f"{part!r} names no partitions: give TOPIC, TOPIC:0, TOPIC:0-3 or TOPIC:2-"
        )
    low, dash, high = match.groups()
    if low and not dash:
        return range(int(low), int(low) + 1)
    return range(int(low or 0), int(high) if high else count)


def named_partitions_of(image: MetadataImage, given: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of topics given as "flights" or "flights:0,1", each once, in order.

    Source: kafka-consumer-groups --topic.

    Raises:
        InvalidRequestError: A partition is not a number.
        UnknownTopicOrPartitionError: There is no such topic or partition.
    """
    found = set()
    for text in given:
        name, colon, wanted = text.partition(":")
        chosen = numbers(wanted, "--topic") if colon else sorted(image.topic(name).partitions)
        for number in chosen:
            partition_key(image, name, number)
            found.add(TopicPartition(name, number))
    return sorted(found)
