"""Options of reads, in the words of Spark's Kafka source.

Pure: texts in, values out. Keys come lower-cased, as Spark passes them to a Python source.

A query that moves here from Kafka keeps its `kafka.*` options. What Spark's source refuses is
refused. Some have a meaning here (a source's `kafka.group.id` and `kafka.client.rack`, a sink's
`kafka.acks` and `kafka.transactional.id`); the others are ignored, and one warning names them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from kafka_on_spark.base.config import unknown_name
from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import whole_number
from kafka_on_spark.consume.next_offset import (
    MAX_DELAY_DEFAULT,
    TriggerLimits,
    parse_delay_ms,
)
from kafka_on_spark.consume.positions import (
    GROUP,
    Positions,
    check_batch,
    parse_ending,
    parse_long,
    parse_starting,
)
from kafka_on_spark.consume.settings import EARLIEST, LATEST
from kafka_on_spark.consume.subscription import Subscription, parse_subscription

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

REFUSED_BY_SINK: Final = {
    "kafka.key.serializer": (
        "Kafka option 'key.serializer' is not supported as keys are serialized with"
        " ByteArraySerializer."
    ),
    "kafka.value.serializer": (
        "Kafka option 'value.serializer' is not supported as value are serialized with"
        " ByteArraySerializer."
    ),
}

STORAGE_PREFIX: Final = "storage."

_SOURCE_NAMES: Final = (
    "cluster",
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "asOfTimestamp",
    "asOfMetadataOffset",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "client.rack",
)
SOURCE_OPTIONS: Final = {name.lower(): name for name in _SOURCE_NAMES}
"""The names as people write them, by the lower-cased names."""

_STREAM_ONLY: Final = ("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay")
_NOT_IN_STREAMS: Final = {
    "endingoffsets": "ending offset not valid in streaming queries",
    "endingoffsetsbytimestamp": "ending timestamp not valid in streaming queries",
    "endingtimestamp": "ending timestamp not valid in streaming queries",
    "asoftimestamp": "option 'asOfTimestamp' is not valid in streaming queries: read a batch",
    "asofmetadataoffset": (
        "option 'asOfMetadataOffset' is not valid in streaming queries: read a batch"
    ),
}


@dataclass(frozen=True, slots=True)
class AsOf:
    """A moment of the past: the option that names it, and an offset of the metadata log, or a time
    in ms since 1970."""

    option: Literal["asOfMetadataOffset", "asOfTimestamp"]
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The checked options of a read.

    Attributes:
        cluster: The metadata root.
        subscription: The partitions to read.
        starting: Where a new query, or a batch, begins.
        ending: Where a batch ends; not for streams.
        as_of: The moment of the past that a batch reads, or None.
        is_data_loss_failed: Missing offsets fail the query; else it continues without them.
        limits: Limits of a micro-batch.
        tasks_min: Number of tasks of a batch, about, at least; or None.
        records_max: Records that a task reads at most, or None.
        has_headers: Rows have the column `headers`.
        client_rack: The rack whose replicas are read first, or None.
        group: The consumer group at whose offsets the query starts and which it commits, or None.
        warnings: Sentences to log once.
        storage: Storage options.
    """

    cluster: str
    subscription: Subscription
    starting: Positions
    ending: Positions = LATEST
    as_of: AsOf | None = None
    is_data_loss_failed: bool = True
    limits: TriggerLimits = field(default_factory=TriggerLimits)
    tasks_min: int | None = None
    records_max: int | None = None
    has_headers: bool = False
    client_rack: str | None = None
    group: str | None = None
    warnings: tuple[str, ...] = ()
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)


def parse_source(options: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """Return the checked options of a read.

    Raises:
        InvalidRequestError: One is missing, unknown or not allowed.
    """
    client, rest = split_client_options(options)
    given = known_options(rest, SOURCE_OPTIONS)
    if is_stream:
        refuse(given, _NOT_IN_STREAMS)
    subscription = parse_subscription(given)
    starting = parse_starting(given, default=LATEST if is_stream else EARLIEST)
    ending = parse_ending(given)
    if not is_stream:
        check_batch(starting, ending)
    refuse(client, _REFUSED)
    if starting == GROUP and not client.get(GROUP_ID):
        raise InvalidRequestError(
            "startingOffsets can't be 'group' without a group: set kafka.group.id"
        )
    return SourceOptions(
        cluster=cluster_root(given),
        subscription=subscription,
        starting=starting,
        ending=ending,
        as_of=_as_of(given),
        is_data_loss_failed=flag(given, "failondataloss", default=True),
        limits=_limits(given),
        tasks_min=_positive(given, "minpartitions", "minPartitions must be positive"),
        records_max=_positive(
            given, "maxrecordsperpartition", "maxrecordsperpartition must be positive"
        ),
        has_headers=flag(given, "includeheaders", default=False),
        client_rack=given.get("client.rack") or client.get(RACK),
        group=client.get(GROUP_ID) or None,
        warnings=(*ignored_warnings(client), *_ignored_in_batches(given, is_stream=is_stream)),
        storage=storage_options(options),
    )


def _ignored_in_batches(given: Mapping[str, str], *, is_stream: bool) -> list[str]:
    """Return a warning for each option that has an effect in streams only, in a batch."""
    names = [] if is_stream else [name for name in _STREAM_ONLY if name in given]
    return [f"{SOURCE_OPTIONS[name]} option ignored in batch queries" for name in names]


def _as_of(given: Mapping[str, str]) -> AsOf | None:
    if "asoftimestamp" in given and "asofmetadataoffset" in given:
        raise InvalidRequestError(
            "only one of the options asOfTimestamp and asOfMetadataOffset can be specified"
        )
    if "asofmetadataoffset" in given:
        return AsOf("asOfMetadataOffset", parse_long(given["asofmetadataoffset"]))
    if "asoftimestamp" in given:
        return AsOf("asOfTimestamp", parse_long(given["asoftimestamp"]))
    return None


def _limits(given: Mapping[str, str]) -> TriggerLimits:
    return TriggerLimits(
        max_offsets=_positive(
            given, "maxoffsetspertrigger", "maxOffsetsPerTrigger must be positive"
        ),
        min_offsets=_positive(
            given, "minoffsetspertrigger", "minOffsetsPerTrigger must be positive"
        ),
        max_delay_ms=parse_delay_ms(given.get("maxtriggerdelay", MAX_DELAY_DEFAULT)),
    )


def _positive(given: Mapping[str, str], name: str, sentence: str) -> int | None:
    """Return an option that is a whole number above 0; None: it is not given.

    Raises:
        InvalidRequestError: It is none. `sentence` says so.
    """
    if name not in given:
        return None
    try:
        number = whole_number(given[name].strip())
    except ValueError:
        number = 0
    if number <= 0:
        raise InvalidRequestError(f"{sentence}: give a whole number, not {given[name]!r}")
    return number


def known_options(options: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Return all options but those of the storage, lower-cased.

    `known`: the names as people write them, by the lower-cased names.

    Raises:
        InvalidRequestError: One is unknown.
    """
    given = {}
    for name, text in options.items():
        if name.lower().startswith(STORAGE_PREFIX):
            continue
        if name.lower() not in known:
            raise InvalidRequestError(unknown_name("option", name, list(known.values())))
        given[name.lower()] = text
    return given


def storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the storage, without their prefix."""
    return {
        name.lower().removeprefix(STORAGE_PREFIX): text
        for name, text in options.items()
        if name.lower().startswith(STORAGE_PREFIX)
    }


def cluster_root(given: Mapping[str, str]) -> str:
    """Return the option `cluster`.

    Raises:
        InvalidRequestError: It is missing.
    """
    if not given.get("cluster"):
        raise InvalidRequestError(
            "Option 'cluster' must be specified: give the cluster's metadata root"
        )
    return given["cluster"]


def flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return an option that is true or false; `name` is one of the source's, lower-cased.

    Raises:
        InvalidRequestError: It is neither.
    """
    text = given.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise InvalidRequestError(
            f"option {SOURCE_OPTIONS[name]!r} can't be {text!r}: true or false"
        )
    return text.lower() == "true"


def is_client_option(name: str) -> bool:
    """Return whether an option, lower-cased, is one of Kafka's client."""
    return name.startswith(PREFIX) or name in _CONNECTOR


def split_client_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the client's options, lower-cased, and all others unchanged."""
    client = {
        name.lower(): text for name, text in options.items() if is_client_option(name.lower())
    }
    return client, {name: text for name, text in options.items() if name.lower() not in client}


def refuse(given: Mapping[str, str], refused: Mapping[str, str]) -> None:
    """Check that options, lower-cased, are not among those that can't be given.

    Raises:
        InvalidRequestError: One is, by its sentence: in Spark's words, where it refuses it, too.
    """
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
