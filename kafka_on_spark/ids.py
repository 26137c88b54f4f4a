"""Names for the integers and ids this system passes around, and which topic names are allowed.

Each quantity has its own ``NewType``, so mypy rejects a leader epoch where an offset is
expected. At run time they are plain ints and strings: Arrow, JSON and pickle see those.
"""

import re
from enum import Enum
from typing import Final, NamedTuple, NewType

from kafka_on_spark.errors import InvalidTopicError

BrokerId = NewType("BrokerId", int)
"""A broker's ``node.id``; at least 0."""

Offset = NewType("Offset", int)
"""Index of a record in one partition's log, from 0. An *end* offset is exclusive."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Count of the leaderships a partition has had; the controller alone raises it."""

PartitionEpoch = NewType("PartitionEpoch", int)
"""Count of the changes made to a partition's registration, of any kind."""

BrokerEpoch = NewType("BrokerEpoch", int)
"""Count of a broker id's registrations: another disk is another epoch."""

ControllerEpoch = NewType("ControllerEpoch", int)
"""Count of the cluster's controllers; a zombie carries a lower one."""

ProducerEpoch = NewType("ProducerEpoch", int)
"""Count of a producer id's runs; fences the run before."""

TopicId = NewType("TopicId", str)
"""32 hexadecimal digits; another one each time a name is created (KIP-516)."""

ReplicaUuid = NewType("ReplicaUuid", str)
"""32 hexadecimal digits; one making of one replica."""

DirectoryId = NewType("DirectoryId", str)
"""32 hexadecimal digits: the identity of a disk (KIP-858), or LOST."""

LOST: Final = DirectoryId("lost")
"""A replica that had a directory and has it no more. Never made anew under its uuid."""


class Keep(Enum):
    """The value of a change's field that leaves the field as it was."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP


class TopicPartition(NamedTuple):
    """A partition as people name it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionKey(NamedTuple):
    """A partition as the system names it: a topic created again has another id."""

    topic_id: TopicId
    partition: int


INTERNAL_TOPICS: Final = frozenset(
    {"__cluster_metadata", "__consumer_offsets", "__transaction_state", "__share_group_state"}
)
"""Kafka's own topics; what would be in them is in the metadata log here. Source: Topic."""

TOPIC_NAME_LENGTH_MAX: Final = 249
_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: object) -> None:
    """Check `name` by Kafka's rule, before any path is made of it.

    Source: org.apache.kafka.common.internals.Topic.validate.

    Raises:
        InvalidTopicError: The name is empty, ".", "..", too long, or has other characters.
    """
    if not isinstance(name, str) or not name:
        raise InvalidTopicError(f"topic name {name!r} is not allowed: give a non-empty string")
    if name in (".", ".."):
        raise InvalidTopicError(f"topic name {name!r} is not allowed: it can't be '.' or '..'")
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        raise InvalidTopicError(
            f"topic name {name[:20]!r}… has {len(name)} characters:"
            f" use at most {TOPIC_NAME_LENGTH_MAX}"
        )
    if not _TOPIC_NAME.fullmatch(name):
        raise InvalidTopicError(
            f"topic name {name!r} is not allowed: use only ASCII letters, digits, '.', '_' and '-'"
        )
