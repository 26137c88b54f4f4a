"""Options of Kafka's client: refused where Spark's source refuses them, else accepted.

Pure. A query that moves over keeps its `kafka.*` options. Two have a meaning here
(`kafka.group.id`, `kafka.client.rack`); the rest mean nothing and are named once in a warning.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kafka_on_spark.errors import InvalidRequestError

PREFIX: Final = "kafka."
GROUP_ID: Final = "kafka.group.id"
RACK: Final = "kafka.client.rack"
_MEANT: Final = frozenset({GROUP_ID, RACK})

# Of Spark's connector and about the client too.
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


def is_client_option(name: str) -> bool:
    """Return whether an option, lower-cased, is one of Kafka's client."""
    return name.startswith(PREFIX) or name in _CONNECTOR


def check_client_options(given: Mapping[str, str]) -> None:
    """Check the client's options, lower-cased.

    Raises:
        InvalidRequestError: One is not supported, as in Spark's Kafka source.
    """
    for name, sentence in _REFUSED.items():
        if name in given:
            raise InvalidRequestError(sentence)


def meaningless(names: Iterable[str]) -> list[str]:
    """Return a warning that names those of the options, lower-cased, that mean nothing here.

    Names only: a value may be a password.
    """
    ignored = sorted(
        _CONNECTOR.get(name, name)
        for name in names
        if is_client_option(name) and name not in _MEANT
    )
    if not ignored:
        return []
    return [f"options of Kafka's client mean nothing here and are ignored: {', '.join(ignored)}"]
