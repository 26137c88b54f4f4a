"""Properties of Kafka's readers, formatters and clients: NAME=VALUE, from the call or from a file.

A value of the call keeps its blanks: a separator may be one. One of a file has none around it;
java.util.Properties drops those in front of it, too.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from kafka_on_spark.cli.call.options import properties_of
from kafka_on_spark.errors import InvalidRequestError


def properties(
    given: Sequence[str] | None, option: str, file: str | None = None, file_option: str = ""
) -> dict[str, str]:
    """Return properties by name; those of the call win over those of the `file`. The options are
    what the properties and the file were given as.

    Raises:
        InvalidRequestError: One is not NAME=VALUE, or the file can't be read.
    """
    lines = [] if file is None else properties_of(file, file_option)
    in_file = (_parsed(each, file_option) for each in lines)
    return {name: value.lstrip() for name, value in in_file} | dict(
        _parsed(each, option) for each in given or ()
    )


def _parsed(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidRequestError(f"{option} can't be {text!r}: give NAME=VALUE")
    return name.strip(), value


def check_known(
    given: Mapping[str, str], known: Sequence[str], refused: Mapping[str, str], client: str
) -> None:
    """Check the names of a client's properties; `refused` says why some of Kafka's mean nothing.

    Raises:
        InvalidRequestError: One is not `known`.
    """
    for name in given:
        if name in known:
            continue
        why = refused.get(name, f"{client} takes {', '.join(known)}")
        raise InvalidRequestError(f"property {name!r} means nothing here: {why}")


PROPERTIES_OF_PRODUCERS: Final = (
    "acks",
    "batch.size",
    "delivery.timeout.ms",
    "enable.idempotence",
    "linger.ms",
)
PROPERTIES_OF_CONSUMERS: Final = (
    "auto.offset.reset",
    "client.rack",
    "enable.auto.commit",
    "group.id",
    "isolation.level",
)

_SEGMENTS: Final = "segments are Parquet files, whose columns are compressed by zstd"
_BYTES: Final = "keys and values are bytes as they are; --json takes and gives what is no text"
_OF_GROUPS: Final = "it is the same for all members of all groups: set the cluster's {}"
NO_CONNECTION: Final = "no server runs here, so there is no connection to set up"

REFUSED_OF_PRODUCERS: Final[Mapping[str, str]] = {
    "buffer.memory": "a chunk of batch.size bytes is held, and the input waits meanwhile",
    "bootstrap.servers": "give --cluster",
    "client.id": NO_CONNECTION,
    "compression.type": _SEGMENTS,
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "max.block.ms": "the input waits for the append that is under way",
    "max.in.flight.requests.per.connection": "one append is under way at a time",
    "max.request.size": "the topic's max.message.bytes bounds a record",
    "request.timeout.ms": "delivery.timeout.ms is for all tries of one append",
    "retries": "delivery.timeout.ms says how long an append is tried again",
    "retry.backoff.ms": "delivery.timeout.ms says how long an append is tried again",
    "transactional.id": "there are no transactions in this version",
}

REFUSED_OF_CONSUMERS: Final[Mapping[str, str]] = {
    "auto.commit.interval.ms": "offsets are committed each five seconds, and at the end",
    "bootstrap.servers": "give --cluster",
    "client.id": NO_CONNECTION,
    "fetch.max.wait.ms": NO_CONNECTION,
    "fetch.min.bytes": NO_CONNECTION,
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "max.poll.records": "--max-messages says how many records are printed",
    "session.timeout.ms": _OF_GROUPS.format("group.consumer.session.timeout.ms"),
    "heartbeat.interval.ms": _OF_GROUPS.format("group.consumer.heartbeat.interval.ms"),
}
