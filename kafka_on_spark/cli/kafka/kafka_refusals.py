"""Options of Kafka's console tools and of kcat that mean nothing here, each with the reason.

They are no options of the verbs, so that nobody takes an option for obeyed that is not.
"""

from collections.abc import Mapping
from typing import Final

from kafka_on_spark.errors import InvalidRequestError

_NO_CLASSES: Final = "no class of Java's runs here"
_NO_CONNECTION: Final = "no server runs here, so there is no connection to set up"
_TRIES: Final = (
    "an append is tried again until delivery.timeout.ms is over: give --producer-property"
    " delivery.timeout.ms=MS"
)

_CLUSTER: Final = "give --cluster: its metadata root"
_COMPRESSED: Final = "segments are Parquet files, whose columns are compressed by zstd"
_NO_SCHEMAS: Final = f"{_NO_CLASSES}; keys and values are bytes, and --json shows all"

_OF_KCAT: Final[Mapping[str, str]] = {
    "-b": _CLUSTER,
    "-d": "no library of Kafka's runs here that could be debugged",
    "-v": "there is one volume; -q says less",
    "-C": "the verb says it: consume",
    "-P": "the verb says it: produce",
    "-L": "topics --describe and cluster --describe list what there is",
    "-Q": "get-offsets --time finds offsets by time",
    "-F": "give a file of a client's settings as --command-config FILE",
}

REFUSED: Final[Mapping[str, Mapping[str, str]]] = {
    "produce": {
        **_OF_KCAT,
        "-X": "give Kafka's settings as --producer-property NAME=VALUE",
        "-z": _COMPRESSED,
        "-T": "the input goes nowhere else: put tee in front of it",
        "-c": "the input's end ends it: put head -n in front of it",
        "-E": "what can't be appended ends the call, so that what stands is known",
        "--broker-list": _CLUSTER,
        "--compression-codec": _COMPRESSED,
        "--line-reader": f"{_NO_CLASSES}; --property sets the one reader, and --json is another",
        "--max-block-ms": "the input waits for the append that is under way",
        "--max-memory-bytes": "--batch-size bytes are held, and the input waits meanwhile",
        "--message-send-max-retries": _TRIES,
        "--metadata-expiry-ms": "each append reads the newest metadata first",
        "--request-timeout-ms": _TRIES,
        "--retry-backoff-ms": _TRIES,
        "--socket-buffer-size": _NO_CONNECTION,
    },
    "consume": {
        **_OF_KCAT,
        "-X": "give Kafka's settings as --consumer-property NAME=VALUE",
        "-O": r"give -f '%o %s\n'",
        "-s": _NO_SCHEMAS,
        "-r": _NO_SCHEMAS,
        "-E": "a read is tried again by itself; what stays an error ends the call",
        "--enable-systest-events": "it is for Kafka's own tests",
        "--key-deserializer": f"{_NO_CLASSES}; keys are bytes, and --json shows all",
        "--value-deserializer": f"{_NO_CLASSES}; values are bytes, and --json shows all",
    },
}


def check_not_refused(verb: str | None, option: str) -> None:
    """Check that an option which the verb does not have is none of Kafka's that it refuses.

    Raises:
        InvalidRequestError: It is one.
    """
    why = REFUSED.get(verb or "", {}).get(option)
    if why is not None:
        raise InvalidRequestError(f"{option} means nothing here: {why}")
