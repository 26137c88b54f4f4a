"""Types of integers, ids, moments and clocks of the system, and checks of values that people give.

Each quantity has its own ``NewType``, so mypy rejects a leader epoch where an offset is
expected. At run time they are plain ints and strings: Arrow, JSON and pickle see those.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from numbers import Real
from operator import index
from typing import Any, Final, NamedTuple, NewType, Protocol

from kafka_on_spark.base.errors import InvalidRequestError, InvalidTopicError, KafkaOnSparkError

BrokerId = NewType("BrokerId", int)
"""A broker's ``node.id``; at least 0."""

Offset = NewType("Offset", int)
"""Index of a record in one partition's log, from 0. An *end* offset is exclusive."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Count of the leaderships a partition has had; each decision that names a leader raises it."""

PartitionEpoch = NewType("PartitionEpoch", int)
"""Count of the changes made to a partition's registration, of any kind."""

BrokerEpoch = NewType("BrokerEpoch", int)
"""Count of a broker id's registrations: another disk is another epoch."""

ControllerEpoch = NewType("ControllerEpoch", int)
"""Count of the cluster's controllers; a zombie carries a lower one."""

ProducerEpoch = NewType("ProducerEpoch", int)
"""Count of a producer id's runs; fences the run before."""

GroupEpoch = NewType("GroupEpoch", int)
"""Count of the changes of a group's members and of the partitions that they share (KIP-848)."""

NO_EPOCH: Final = GroupEpoch(0)
"""The epoch of who has followed no target yet."""

AWAY: Final = GroupEpoch(-2)
"""The epoch of a static member that has ended and will return.
Source: ConsumerGroupHeartbeatRequest.LEAVE_GROUP_STATIC_MEMBER_EPOCH."""

MemberId = NewType("MemberId", str)
"""One life of a group's member: who joins again has another."""

NodeId = NewType("NodeId", int)
"""A voter's ``node.id``; at least 0."""

QuorumEpoch = NewType("QuorumEpoch", int)
"""Count of the quorum's elections; in the quorum just the epoch. 0: nobody was elected yet."""

TopicId = NewType("TopicId", str)
"""32 hexadecimal digits; another one each time a name is created (KIP-516)."""

ReplicaUuid = NewType("ReplicaUuid", str)
"""32 hexadecimal digits; one incarnation of one replica."""

DirectoryId = NewType("DirectoryId", str)
"""32 hexadecimal digits: the identity of a disk (KIP-858), or LOST."""

LOST: Final = DirectoryId("lost")
"""The directory of a lost replica. It is never created again under its uuid."""


ChainDigest = NewType("ChainDigest", str)
"""32 hexadecimal digits: of a log up to an offset, equal in all replicas (see log/state.py)."""

NO_CHAIN: Final = ChainDigest("0" * 32)
"""The chain digest before a log's first record."""


@dataclass(frozen=True, slots=True)
class IdSource:
    """Where a deciding process takes new ids and random numbers from: decisions have none.

    Attributes:
        new_uuid: Returns an id that nothing else has.
        random_below: Returns a whole number from 0 to below its argument.
    """

    new_uuid: Callable[[], str]
    random_below: Callable[[int], int]


class Clock(Protocol):
    """Time: the wall clock, ms since 1970 UTC, and a clock of this process that never goes back. No
    rule of safety rests on it."""

    def now_ms(self) -> int: ...
    def monotonic_ms(self) -> int: ...
    def sleep_ms(self, duration_ms: float) -> None: ...


def stamp_ms(own_ms: int, root_ms: int | None, newest_ms: int, ahead_max_ms: int) -> int:
    """Return the time of a commit or an append: its process's own, held to two other clocks.

    `own_ms` is by the clock of its process, `root_ms` by that of the root that the metadata log is
    written to (None: it tells none), `newest_ms` the time of the newest commit, and what has passed
    since. A clock that is ahead gives nobody its time: not more than `ahead_max_ms` after the
    root's. By one that is behind, records would be too old from the first moment on, and clients
    expire (I16, I29): not before the newest commit's, as far as the root's clock has come to it.
    And a root's clock that is behind does not take the time back. So one wrong clock of the three
    is outvoted.
    """
    if root_ms is None:
        return max(own_ms, newest_ms)  # a time that is too late deletes nothing
    least_ms, most_ms = min(root_ms, newest_ms), max(root_ms + ahead_max_ms, newest_ms)
    return min(max(own_ms, least_ms), most_ms)


def too_old_by_ms(own_ms: int, root_ms: int, newest_ms: int | None = None) -> int:
    """Return the time by which something is too old to be kept: the earliest of three clocks.

    `own_ms` is by the clock of the process that decides, `root_ms` by that of the root where the
    thing is, or of the leader's. `newest_ms` is the time of the newest commit in the metadata log,
    which is the decision's own: what `stamp_ms` says now. An older one would have nothing go where
    nobody else commits. None: what is judged is not part of the log, as a file that was never
    finished.
    """
    return min(own_ms, root_ms, own_ms if newest_ms is None else newest_ms)


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


class ImpossibleValueError(AssertionError):
    """A value breaks an invariant: a bug of ours, or damage, if the value came from a file."""


def ensure(holds: bool, said: object) -> None:
    """Check an invariant of a value, also without asserts: values come from stored bytes, too.
    `said` describes the value.

    Raises:
        ImpossibleValueError: The invariant does not hold.
    """
    if not holds:
        raise ImpossibleValueError(said)


INTERNAL_TOPICS: Final = frozenset(
    {"__cluster_metadata", "__consumer_offsets", "__transaction_state", "__share_group_state"}
)
"""Kafka's internal topics; here the metadata log has their contents. Source: Topic."""

TOPIC_NAME_LENGTH_MAX: Final = 249
_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: object) -> None:
    """Check `name` by Kafka's rule, before it becomes part of a path.

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


_DIGITS: Final = re.compile(r"[+-]?[0-9]+")


def whole_number(text: str) -> int:
    """Read a whole number as Java does: a sign and digits, and not Python's "1_000", nor blanks.

    Raises:
        ValueError: The text is no whole number.
    """
    if _DIGITS.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no whole number")
    return int(text)


def check_whole_number(
    number: object, name: str, error: type[KafkaOnSparkError] = InvalidRequestError
) -> None:
    """Check that the value given as `name` is a whole number, not its digits or a fraction.

    Raises:
        InvalidRequestError, or `error`: It is not.
    """
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise error(f"{name} can't be {number!r}: give a whole number")


def check_number(number: object, name: str) -> None:
    """Check that the value given as `name` is a finite number from 0 on.

    Raises:
        InvalidRequestError: It is not.
    """
    is_number = isinstance(number, Real) and not isinstance(number, bool)
    if not is_number or not math.isfinite(number) or number < 0:  # type: ignore[arg-type,operator]
        raise InvalidRequestError(f"{name} can't be {number!r}: give a number from 0 on")


def check_text(text: object, name: str, error: type[KafkaOnSparkError]) -> None:
    """Check that the value given as `name` is a text, and one that can be stored.

    Raises:
        `error`: It is not.
    """
    if not isinstance(text, str):
        raise error(f"{name} can't be {text!r}: give a text")
    try:
        text.encode()
    except UnicodeEncodeError:  # as an argument of the shell that is no UTF-8
        raise error(f"{name} can't be {text!r}: give a text that UTF-8 has") from None


def check_mapping(
    given: object,
    name: str,
    of: str,
    error: type[KafkaOnSparkError] = InvalidRequestError,
) -> None:
    """Check that the value given as `name` is a mapping; `of` says which, as in "names".

    Raises:
        InvalidRequestError, or `error`: It is not.
    """
    if not isinstance(given, Mapping):
        raise error(f"{name} can't be {given!r}: give a mapping (a dict) of {of}")


def listed(
    given: object,
    name: str,
    of: str,
    error: type[KafkaOnSparkError] = InvalidRequestError,
) -> list[Any]:
    """Return the several values given as `name` as a list; `of` says of what.

    A text does not count as its letters, nor a mapping as its keys.

    Raises:
        InvalidRequestError, or `error`: It is not iterable, or a text or mapping.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise error(f"{name} can't be {given!r}: give a list of {of}")
    return list(given)


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

MILLIS_MAX: Final = 2**53
"""Beyond it, no column of µs has such a time."""


def micros_of(moment: datetime) -> int:
    """Return µs since 1970 UTC; `moment` has a time zone.

    Without `timestamp()`: that is a float, with too few digits for the microseconds of this
    century, and the moment of a commit must include that commit.
    """
    return (moment - EPOCH) // timedelta(microseconds=1)


def given_micros(name: str, moment: datetime) -> int:
    """Return µs since 1970 UTC of an argument.

    Raises:
        InvalidRequestError: It has no time zone.
    """
    if moment.tzinfo is None:
        raise InvalidRequestError(
            f"{name} can't be {moment}: it has no time zone; give one, as in datetime.now(UTC)"
        )
    return micros_of(moment)


def record_micros(timestamp: object) -> int:
    """Return µs since 1970 UTC of a record's timestamp: a datetime, or ms as in Kafka's clients.

    Raises:
        InvalidRequestError: It is something else, has no time zone, or is a number below 0 (for
            Kafka's -1, which stands for no timestamp, give None).
    """
    if isinstance(timestamp, datetime):
        return given_micros("timestamp", timestamp)
    try:
        millis = -1 if isinstance(timestamp, bool) else index(timestamp)  # type: ignore[arg-type]
    except TypeError:
        millis = -1
    if not 0 <= millis < MILLIS_MAX:
        raise InvalidRequestError(
            f"'timestamp' can't be {timestamp!r:.60}, a {type(timestamp).__name__}: give a datetime"
            " with a time zone, or milliseconds since 1970"
        )
    return millis * 1000


def time_of(time_ms: int) -> datetime:
    """Return ms since 1970 as a time in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def in_seconds(time_ms: int) -> str:
    """Return ms since 1970 for people, such as "2026-01-31 12:00:00 UTC"."""
    return f"{time_of(time_ms):%Y-%m-%d %H:%M:%S} UTC"
