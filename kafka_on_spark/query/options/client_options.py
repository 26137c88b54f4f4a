"""Options of Kafka's client: refused where Spark's source refuses them, else accepted.

Pure. A query that moves here from Kafka keeps its `kafka.*` options. Some have a meaning here (a
source's `kafka.group.id` and `kafka.client.rack`, a sink's `kafka.acks` and
`kafka.transactional.id`); the others are ignored, and one warning names them.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kafka_on_spark.errors import InvalidRequestError

PREFIX: Final = "kafka."
GROUP_ID: Final = "kafka.group.id"
RACK: Final = "kafka.client.rack"
ACKS: Final = "kafka.acks"
TRANSACTIONAL_ID: Final = "kafka.transactional.id"
SOURCE_OPTIONS_USED: Final = frozenset({GROUP_ID, RACK})
SINK_OPTIONS_USED: Final = frozenset({ACKS, TRANSACTIONAL_ID})

# Options of Spark's connector that are about the client too.
_CONNECTOR: Final = {
    "groupidprefix": "groupIdPrefix",
    "kafkaconsumer.polltimeoutms": "kafkaConsumer.pollTimeoutMs",
    "fetchoffset.numretries": "fetchOffset.numRetries",
    "fetchoffset.retryintervalms": "fetchOffset.retryIntervalMs",
}

_DESERIALIZED: Final = (
    "Kafka option '{name}.deserializer' is not supported as {name}s are deserialized as byte"
    " arrays with ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the"
    " {name}s."
)
_REFUSED: Final = {
    "kafka.auto.offset.reset": (
        "Kafka option 'auto.offset.reset' is not supported. Instead set the source option"
        " 'startingoffsets' to 'earliest' or 'latest' to specify where to start. Structured"
        " Streaming manages which offsets are consumed internally, rather than relying on the"
        " kafkaConsumer to do it."
    ),
    "kafka.key.deserializer": _DESERIALIZED.format(name="key"),
    "kafka.value.deserializer": _DESERIALIZED.format(name="value"),
    "kafka.enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    "kafka.interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
}

_REFUSED_BY_SINK: Final = {
    "kafka.key.serializer": (
        "Kafka option 'key.serializer' is not supported as keys are serialized with"
        " ByteArraySerializer."
    ),
    "kafka.value.serializer": (
        "Kafka option 'value.serializer' is not supported as value are serialized with"
        " ByteArraySerializer."
    ),
}


def is_client_option(name: str) -> bool:
    """Return whether an option, lower-cased, is one of Kafka's client."""
    return name.startswith(PREFIX) or name in _CONNECTOR


def split_client_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the client's options, lower-cased, and all others unchanged."""
    client = {
        name.lower(): text for name, text in options.items() if is_client_option(name.lower())
    }
    return client, {name: text for name, text in options.items() if name.lower() not in client}


def check_client_options(given: Mapping[str, str]) -> None:
    """Check the options of a reading client, lower-cased.

    Raises:
        InvalidRequestError: One is not supported, as in Spark's Kafka source.
    """
    _check(given, _REFUSED)


def check_producer_options(given: Mapping[str, str]) -> None:
    """Check the options of a writing client, lower-cased.

    Raises:
        InvalidRequestError: One is not supported, as in Spark's Kafka sink.
    """
    _check(given, _REFUSED_BY_SINK)


def _check(given: Mapping[str, str], refused: Mapping[str, str]) -> None:
    for name, sentence in refused.items():
        if name in given:
            raise InvalidRequestError(sentence)


def ignored_warnings(
    names: Iterable[str], used: Collection[str] = SOURCE_OPTIONS_USED
) -> list[str]:
    """Return a warning that names the ignored options, lower-cased; none if all are used.

    Names only: a value may be a password.
    """
    ignored = sorted(
        _CONNECTOR.get(name, name) for name in names if is_client_option(name) and name not in used
    )
    if not ignored:
        return []
    return [f"options of Kafka's client mean nothing here and are ignored: {', '.join(ignored)}"]
