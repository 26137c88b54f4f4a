"""Which partitions a query or a consumer reads: `assign`, `subscribe` or `subscribePattern`.

Pure. Each resolves its subscription each time that it asks for data, so that it finds
partitions, and with a pattern topics, that are created later.
"""

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import PartitionKey, TopicPartition, check_text, listed
from kafka_on_spark.base.text import parse_json
from kafka_on_spark.metadata.image import MetadataImage, keys_of, partition_key
from kafka_on_spark.metadata.partition import PartitionRegistration

STRATEGIES: Final = ("subscribe", "subscribepattern", "assign")


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions and no others."""

    partitions: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of these topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of all topics whose whole name matches."""

    pattern: str


Subscription = Assign | Subscribe | SubscribePattern


def parse_subscription(given: Mapping[str, str]) -> Subscription:
    named = [name for name in STRATEGIES if name in given]
    if len(named) != 1:
        count = "Only one" if named else "One"
        must = "can" if named else "must"
        raise InvalidRequestError(
            f"{count} of the following options {must} be specified for Kafka source:"
            f" {', '.join(STRATEGIES)}. See the docs for more details."
        )
    text = given[named[0]]
    if named[0] == "assign":
        return Assign(_parse_assign(text))
    if named[0] == "subscribe":
        return Subscribe(_parse_topics(text))
    if not text.strip():
        raise InvalidRequestError(
            "Pattern to subscribe is empty as specified value for option 'subscribePattern' is"
            f" '{text}'"
        )
    compile_pattern(text.strip())
    return SubscribePattern(text.strip())


@lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return `pattern` compiled, or raise InvalidRequestError if it is not in Python's syntax."""
    try:
        with warnings.catch_warnings():
            # "Possible set intersection": in Java's syntax, and perhaps in a later Python's, the
            # pattern means something else.
            warnings.simplefilter("error", FutureWarning)
            return re.compile(pattern)
    except (re.error, FutureWarning) as error:
        raise InvalidRequestError(
            f"a pattern of topics can't be {pattern!r}: {error}; write it in the syntax of"
            " Python's re module"
        ) from None


def _parse_topics(text: str) -> tuple[str, ...]:
    topics = sorted({name.strip() for name in text.split(",")} - {""})
    if not topics:
        raise InvalidRequestError(
            f"No topics to subscribe to as specified value for option 'subscribe' is '{text}'"
        )
    return tuple(topics)


def _parse_assign(text: str) -> dict[str, tuple[int, ...]]:
    refusal = InvalidRequestError(
        f"No topicpartitions to assign as specified value for option 'assign' is '{text}'"
    )
    if not text.strip().startswith("{"):
        raise refusal
    try:
        parsed = parse_json(text)
    except ValueError:
        parsed = None
    if parsed is None or not all(
        isinstance(numbers, list) and all(type(each) is int and each >= 0 for each in numbers)
        for numbers in parsed.values()
    ):
        raise InvalidRequestError(
            f'option \'assign\': Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}'
        )
    assigned = {name: tuple(sorted(set(parsed[name]))) for name in sorted(parsed) if parsed[name]}
    if not assigned:
        raise refusal
    return assigned


def partitions_of(
    image: MetadataImage, subscription: Subscription, *, fails_on_missing: bool = True
) -> list[TopicPartition]:
    """Return the partitions that `subscription` means in `image`, in order. One that it names and
    that does not exist raises UnknownTopicOrPartitionError, or is left out, as `fails_on_missing`
    says."""
    if isinstance(subscription, Assign):
        asked = [
            TopicPartition(name, number)
            for name, numbers in subscription.partitions.items()
            for number in numbers
        ]
        if fails_on_missing:
            for name in asked:
                partition_key(image, *name)
        return [name for name in asked if registration_of(image, name) is not None]
    if isinstance(subscription, SubscribePattern):
        matches = compile_pattern(subscription.pattern).fullmatch
        names = sorted(name for name in image.topic_ids if matches(name))
    else:
        topics = subscription.topics
        names = [name for name in topics if fails_on_missing or name in image.topic_ids]
    return [
        TopicPartition(name, number)
        for name in names
        for number in sorted(image.topic(name).partitions)
    ]


def registration_of(image: MetadataImage, name: TopicPartition) -> PartitionRegistration | None:
    topic_id = image.topic_ids.get(name.topic)
    return None if topic_id is None else image.topics[topic_id].partitions.get(name.partition)


def subscription_of(
    image: MetadataImage, topics: object, pattern: object, partitions: object
) -> Subscription | None:
    """Return what a consumer is made for: topics, a pattern or partitions; None: nothing yet."""
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
    """Return some partitions, named by topic and number, as a subscription."""
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
    return [
        PartitionKey(image.topic_ids[name.topic], name.partition)
        for name in partitions_of(image, subscription)
    ]


def names_of(partitions: Iterable[TopicPartition]) -> list[str]:
    """Return partitions as "topic-number", sorted, for error texts."""
    return [str(name) for name in sorted(partitions)]
