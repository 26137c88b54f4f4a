"""Options of Kafka's console tools that mean nothing here, each with the reason.

They are no options of the verbs, so that nobody takes an option for obeyed that is not.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from kafka_on_spark.errors import InvalidRequestError

_NO_CLASSES: Final = "no class of Java's runs here"
_NO_CONNECTION: Final = "no server runs here, so there is no connection to set up"
_TRIES: Final = (
    "an append is tried again until delivery.timeout.ms is over: give --producer-property"
    " delivery.timeout.ms=MS"
)

REFUSED: Final[Mapping[str, Mapping[str, str]]] = {
    "produce": {
        "--broker-list": "give --cluster: its metadata root",
        "--compression-codec": "segments are Parquet files, whose columns are compressed by zstd",
        "--line-reader": f"{_NO_CLASSES}; --property sets the one reader, and --json is another",
        "--max-block-ms": "the input waits for the append that is under way",
        "--max-memory-bytes": "--batch-size bytes are held, and the input waits meanwhile",
        "--message-send-max-retries": _TRIES,
        "--metadata-expiry-ms": "each append reads the newest metadata first",
        "--producer.config": "give its lines as --producer-property NAME=VALUE",
        "--request-timeout-ms": _TRIES,
        "--retry-backoff-ms": _TRIES,
        "--socket-buffer-size": _NO_CONNECTION,
    },
    "consume": {
        "--consumer.config": "give its lines as --consumer-property NAME=VALUE",
        "--enable-systest-events": "it is for Kafka's own tests",
        "--key-deserializer": f"{_NO_CLASSES}; keys are bytes, and --json shows all",
        "--value-deserializer": f"{_NO_CLASSES}; values are bytes, and --json shows all",
    },
}


def check_not_refused(verb: str | None, arguments: Sequence[str]) -> None:
    """Check that a call's own arguments have no option of Kafka's that its verb refuses.

    Raises:
        InvalidRequestError: It has one.
    """
    refused = REFUSED.get(verb or "", {})
    for argument in arguments:
        option = argument.partition("=")[0]
        if option in refused:
            raise InvalidRequestError(f"{option} means nothing here: {refused[option]}")
