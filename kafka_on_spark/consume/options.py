"""Options of ``format("kafka_on_spark")``, in the words of Spark's Kafka source and sink.

Pure: texts in, values out. Keys come lower-cased, as Spark passes them to a Python source.

A query that moves here from Kafka keeps its `kafka.*` options. What Spark refuses is refused. Some
have a meaning here (a source's `kafka.group.id` and `kafka.client.rack`, a sink's `kafka.acks` and
`kafka.transactional.id`); the others are ignored, and one warning names them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from kafka_on_spark.base.config import check_acks, leaves_auto_controller, unknown_name
from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import TopicPartition, whole_number
from kafka_on_spark.base.text import parse_json
from kafka_on_spark.consume.query_batch import (
    CUT,
    Bound,
    Cut,
    Group,
    Offsets,
    Place,
    Timestamps,
    TriggerLimits,
)
from kafka_on_spark.consume.subscription import Subscription, names_of, parse_subscription
from kafka_on_spark.groups.offsets import EARLIEST, LATEST

_PREFIX: Final = "kafka."
_GROUP_ID: Final = "kafka.group.id"
_RACK: Final = "kafka.client.rack"
_ACKS: Final = "kafka.acks"
_TRANSACTIONAL_ID: Final = "kafka.transactional.id"
_SOURCE_OPTIONS_USED: Final = frozenset({_GROUP_ID, _RACK})
_SINK_OPTIONS_USED: Final = frozenset({_ACKS, _TRANSACTIONAL_ID})

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

_STORAGE_PREFIX: Final = "storage."


# Where a read begins and ends

_GROUP: Final = "group"
_WIRE: Final = {-2: EARLIEST, -1: LATEST}


def _parse_starting(given: Mapping[str, str], group: str | None, *, default: str) -> Bound:
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise InvalidRequestError(
            f"option 'startingOffsetsByTimestampStrategy' can't be {strategy!r}: error or latest"
        )
    bound = _parse_bound(given, "starting", words=(EARLIEST, LATEST, _GROUP))
    if bound == _GROUP:
        if not group:
            raise InvalidRequestError(
                "startingOffsets can't be 'group' without a group: set kafka.group.id"
            )
        return Group(group, default)
    if isinstance(bound, Timestamps) and strategy == "latest":
        return replace(bound, is_latest_if_none=True)
    return bound or default


def _parse_bound(given: Mapping[str, str], side: str, *, words: tuple[str, ...]) -> Bound | None:
    if f"{side}timestamp" in given:
        return Timestamps(_long(given[f"{side}timestamp"]))
    if f"{side}offsetsbytimestamp" in given:
        return Timestamps(
            _parse_json(
                f"{side}OffsetsByTimestamp",
                given[f"{side}offsetsbytimestamp"],
                _whole,
                '{"topicA": {"0": 123456789, "1": 123456789},'
                ' "topicB": {"0": 123456789, "1": 123456789}}',
            )
        )
    if f"{side}offsets" not in given:
        return None
    text = given[f"{side}offsets"]
    word = text.strip().lower()
    if word in words:
        return word
    example = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    offsets = _parse_json(f"{side}Offsets", text, _place, example)
    return Offsets(offsets, Cut.from_json(parse_json(text).get(CUT)))


def _long(text: str) -> int:
    return _number(text, f"Expected a single long value, got {text.strip()}")


def _number(text: str, refusal: str) -> int:
    try:
        return whole_number(text.strip())
    except ValueError:
        raise InvalidRequestError(refusal) from None


def _parse_json(
    option: str, text: str, read: Callable[[Any], Any], example: str
) -> dict[TopicPartition, Any]:
    try:
        return {
            TopicPartition(topic, whole_number(number)): read(value)
            for topic, partitions in parse_json(text).items()
            if topic != CUT
            for number, value in partitions.items()
        }
    except (ValueError, TypeError, AttributeError):
        raise InvalidRequestError(
            f"option {option!r}: Expected e.g. {example}, got {text}"
        ) from None


def _place(offset: Any) -> Place:
    number = _whole(offset)
    if number < -2:
        raise ValueError(offset)
    return _WIRE.get(number, number)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(value)
    return value


def _check_batch(starting: Bound, ending: Bound) -> None:
    """Check that a batch does not start at latest, end at earliest, or end before it starts.
    Source: KafkaSourceProvider.validateBatchOptions, checkOffsetLimitValidity."""
    for bound, word, side, option in (
        (starting, LATEST, "starting offset", "startingOffsets"),
        (ending, EARLIEST, "ending offset", "ending offset"),
    ):
        if bound == word:
            raise InvalidRequestError(f"{side} can't be {word} for batch queries on Kafka")
        places = bound.by_partition if isinstance(bound, Offsets) else {}
        for name, place in places.items():
            if place == word:
                raise InvalidRequestError(
                    f"{option} for {name} can't be {word} for batch queries on Kafka"
                )
    if isinstance(starting, Offsets) and isinstance(ending, Offsets):
        _check_sides(starting.by_partition, ending.by_partition, "offset")
    elif isinstance(starting, Timestamps) and isinstance(ending, Timestamps):
        first, last = starting.given, ending.given
        if not isinstance(first, int) and not isinstance(last, int):
            _check_sides(first, last, "timestamp")


def _check_sides(
    first: Mapping[TopicPartition, Place], last: Mapping[TopicPartition, Place], word: str
) -> None:
    if names_of(first) != names_of(last):
        raise InvalidRequestError(
            "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET: The specified start"
            " offset and end offset should have the same topic-partitions. Topic-partitions for"
            f" start offset: {names_of(first)}, topic-partitions for end offset: {names_of(last)}."
        )
    for name, start in first.items():
        end = last[name]
        if isinstance(start, int) and isinstance(end, int) and start > end:
            raise InvalidRequestError(
                f"UNRESOLVED_START_{word.upper()}_GREATER_THAN_END_{word.upper()}: The specified"
                f" start {word} {start} is greater than the end {word} {end} for topic"
                f" {name.topic} partition {name.partition}."
            )


# How much a micro-batch reads

_UNITS_MS: Final = {
    **{"us": 0.001, "ms": 1, "s": 1000},
    **{"m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000},
}


def _delay_ms(text: str) -> int:
    """Return a time such as "15m" in ms, or "7", which is ms. Source: JavaUtils.timeStringAs."""
    given = text.strip().lower()
    digits = given.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = given[len(digits) :] or "ms"
    if not digits.isascii() or not digits.isdigit() or unit not in _UNITS_MS:
        raise InvalidRequestError(
            f"option 'maxTriggerDelay' can't be {text!r}: Time must be specified as seconds (s),"
            " milliseconds (ms), microseconds (us), minutes (m or min), hour (h), or day (d)."
            " E.g. 50s, 100ms, or 250us."
        )
    return int(int(digits) * _UNITS_MS[unit])


# Reads

_SOURCE_NAMES: Final = (
    "cluster assign subscribe subscribePattern startingOffsets startingTimestamp"
    " startingOffsetsByTimestamp startingOffsetsByTimestampStrategy endingOffsets endingTimestamp"
    " endingOffsetsByTimestamp asOfTimestamp asOfMetadataOffset failOnDataLoss maxOffsetsPerTrigger"
    " minOffsetsPerTrigger maxTriggerDelay minPartitions maxRecordsPerPartition includeHeaders"
    " client.rack"
)
SOURCE_OPTIONS: Final = {name.lower(): name for name in _SOURCE_NAMES.split()}
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


AsOfOption = Literal["asOfMetadataOffset", "asOfTimestamp"]


@dataclass(frozen=True, slots=True)
class AsOf:
    """A moment of the past: the option that names it, and an offset of the metadata log, or a time
    in ms since 1970."""

    option: AsOfOption
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The checked options of a read.

    Attributes:
        starting: Where a new query, or a batch, begins.
        ending: Where a batch ends; not for streams.
        tasks_min: Number of tasks of a batch, about, at least; or None.
        records_max: Records that a task reads at most, or None.
    """

    cluster: str
    subscription: Subscription
    starting: Bound
    ending: Bound = LATEST
    as_of: AsOf | None = None
    fails_on_data_loss: bool = True
    limits: TriggerLimits = field(default_factory=TriggerLimits)
    tasks_min: int | None = None
    records_max: int | None = None
    has_headers: bool = False
    client_rack: str | None = None
    group: str | None = None
    warnings: tuple[str, ...] = ()
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)


def parse_source(options: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    client, storage, given = _sorted_options(options, SOURCE_OPTIONS)
    if is_stream:
        _refuse(given, _NOT_IN_STREAMS)
    subscription = parse_subscription(given)
    default = LATEST if is_stream else EARLIEST
    starting = _parse_starting(given, client.get(_GROUP_ID), default=default)
    ending = _parse_bound(given, "ending", words=(EARLIEST, LATEST)) or LATEST
    if isinstance(ending, Timestamps):
        ending = replace(ending, is_latest_if_none=True)
    warnings = _ignored_warnings(client, _SOURCE_OPTIONS_USED)
    if not is_stream:
        _check_batch(starting, ending)
        ignored = [SOURCE_OPTIONS[name] for name in _STREAM_ONLY if name in given]
        warnings += [f"{name} option ignored in batch queries" for name in ignored]
    _refuse(client, _REFUSED)
    return SourceOptions(
        cluster=_cluster_root(given),
        subscription=subscription,
        starting=starting,
        ending=ending,
        as_of=_as_of(given),
        fails_on_data_loss=_flag(given, "failondataloss", default=True),
        limits=TriggerLimits(
            max_offsets=_positive(given, "maxOffsetsPerTrigger"),
            min_offsets=_positive(given, "minOffsetsPerTrigger"),
            max_delay_ms=_delay_ms(given.get("maxtriggerdelay", "15m")),
        ),
        tasks_min=_positive(given, "minPartitions"),
        records_max=_positive(given, "maxrecordsperpartition"),  # in Spark's words
        has_headers=_flag(given, "includeheaders", default=False),
        client_rack=given.get("client.rack") or client.get(_RACK),
        group=client.get(_GROUP_ID) or None,
        warnings=tuple(warnings),
        storage=storage,
    )


def _as_of(given: Mapping[str, str]) -> AsOf | None:
    if "asoftimestamp" in given and "asofmetadataoffset" in given:
        raise InvalidRequestError(
            "only one of the options asOfTimestamp and asOfMetadataOffset can be specified"
        )
    options: tuple[AsOfOption, ...] = ("asOfTimestamp", "asOfMetadataOffset")
    for option in options:
        if option.lower() in given:
            return AsOf(option, _long(given[option.lower()]))
    return None


def _positive(given: Mapping[str, str], name: str) -> int | None:
    """Return an option that is a whole number above 0; None: it is not given."""
    if name.lower() not in given:
        return None
    text = given[name.lower()]
    refusal = f"{name} must be positive: give a whole number, not {text!r}"
    number = _number(text, refusal)
    if number <= 0:
        raise InvalidRequestError(refusal)
    return number


# Writes

_SINK_NAMES: Final = (
    "cluster topic acks producer_id producer_epoch sequence transactional_id expected_offsets"
    " auto.controller includeHeaders checkpointLocation"
)
_SINK: Final = {name.lower(): name for name in _SINK_NAMES.split()}
_NUMBERED: Final = (
    "producer_id and sequence can't be set for a stream: its query id and batch number are used"
)
_BATCH_ONLY: Final = {
    "producer_id": _NUMBERED,
    "sequence": _NUMBERED,
    "expected_offsets": (
        "expected_offsets can't be set for a stream, which appends more than once: use it with"
        " cluster.append in foreachBatch"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The checked options of a write.

    Attributes:
        topic: The topic of all rows; None: each row names its own.
        producer_epoch: The run of a batch write. Of a stream: a number above the epochs of all ids
            that have expired, with which the query goes on if its own has. None: the next epoch.
        expected_offsets: Log ends by topic and partition, for a conditional batch write.
        may_decide: The write may control where nobody does: auto.controller is not off.
    """

    cluster: str
    topic: str | None
    acks: str
    producer_id: str | None = None
    producer_epoch: int | None = None
    sequence: int | None = None
    transactional_id: str | None = None
    expected_offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    may_decide: bool = True
    warnings: tuple[str, ...] = ()
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)


def parse_sink(options: Mapping[str, str], *, is_stream: bool) -> SinkOptions:
    client, storage, given = _sorted_options(options, _SINK)
    _refuse(client, _REFUSED_BY_SINK)
    if is_stream:
        _refuse(given, _BATCH_ONLY)
    # The sink always writes the column `headers`: this option is checked, and has no effect.
    _flag(given, "includeheaders", default=False)
    return SinkOptions(
        cluster=_cluster_root(given),
        topic=given["topic"].strip() if "topic" in given else None,
        acks=check_acks(given.get("acks", client.get(_ACKS, "all"))),
        producer_id=given.get("producer_id"),
        producer_epoch=_whole_number(given, "producer_epoch"),
        sequence=_whole_number(given, "sequence"),
        transactional_id=given.get("transactional_id", client.get(_TRANSACTIONAL_ID)),
        expected_offsets=_expected_offsets(given.get("expected_offsets")),
        may_decide=leaves_auto_controller(
            {name: text for name, text in given.items() if name == "auto.controller"}
        ),
        warnings=tuple(_ignored_warnings(client, _SINK_OPTIONS_USED)),
        storage=storage,
    )


def _whole_number(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    return _number(
        given[name], f"option {name!r} can't be {given[name]!r}: give a whole number from 0 on"
    )


def _expected_offsets(text: str | None) -> dict[str, dict[int, int]]:
    offsets: dict[str, dict[int, int]] = {}
    if text is not None:
        example = '{"flights":{"0":23,"1":0}}'
        for name, offset in _parse_json("expected_offsets", text, _log_end, example).items():
            offsets.setdefault(name.topic, {})[name.partition] = offset
    return offsets


def _log_end(value: Any) -> int:
    if _whole(value) < 0:
        raise ValueError(value)
    return int(value)


# Both


def _sorted_options(
    options: Mapping[str, str], known: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return the client's options, those of the storage without their prefix, and all others, all
    lower-cased. `known`: the names of the others as people write them, by lower-cased names."""
    client, storage, given = {}, {}, {}
    for name, text in options.items():
        lowered = name.lower()
        if lowered.startswith(_PREFIX) or lowered in _CONNECTOR:
            client[lowered] = text
        elif lowered.startswith(_STORAGE_PREFIX):
            storage[lowered.removeprefix(_STORAGE_PREFIX)] = text
        elif lowered in known:
            given[lowered] = text
        else:
            raise InvalidRequestError(unknown_name("option", name, list(known.values())))
    return client, storage, given


def _cluster_root(given: Mapping[str, str]) -> str:
    if not given.get("cluster"):
        raise InvalidRequestError(
            "Option 'cluster' must be specified: give the cluster's metadata root"
        )
    return given["cluster"]


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return an option that is true or false; `name` is one of the source's, lower-cased."""
    text = given.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise InvalidRequestError(
            f"option {SOURCE_OPTIONS[name]!r} can't be {text!r}: true or false"
        )
    return text.lower() == "true"


def _refuse(given: Mapping[str, str], refused: Mapping[str, str]) -> None:
    """Refuse options, lower-cased, that can't be given: in Spark's words, where it does, too."""
    for name, sentence in refused.items():
        if name in given:
            raise InvalidRequestError(sentence)


def _ignored_warnings(client: Iterable[str], used: Collection[str]) -> list[str]:
    """Return a warning that names the ignored options; none if all are used. Names only: a value
    may be a password."""
    ignored = sorted(_CONNECTOR.get(name, name) for name in client if name not in used)
    if not ignored:
        return []
    return [f"options of Kafka's client mean nothing here and are ignored: {', '.join(ignored)}"]
