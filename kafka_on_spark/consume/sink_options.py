"""Options of writes, in the words of Spark's Kafka sink.

Pure: texts in, values out. Keys come lower-cased, as Spark passes them to a Python source.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kafka_on_spark.base.config import check_acks, leaves_auto_controller
from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import whole_number
from kafka_on_spark.base.stored_json import parse_json
from kafka_on_spark.consume.source_options import (
    ACKS,
    REFUSED_BY_SINK,
    SINK_OPTIONS_USED,
    TRANSACTIONAL_ID,
    cluster_root,
    flag,
    ignored_warnings,
    known_options,
    refuse,
    split_client_options,
    storage_options,
)

_SINK_NAMES: Final = (
    "cluster",
    "topic",
    "acks",
    "producer_id",
    "producer_epoch",
    "sequence",
    "transactional_id",
    "expected_offsets",
    "auto.controller",
    "includeHeaders",
    "checkpointLocation",
)
_SINK: Final = {name.lower(): name for name in _SINK_NAMES}
_BATCH_ONLY: Final = {
    "producer_id": (
        "producer_id and sequence can't be set for a stream: its query id and batch number are used"
    ),
    "sequence": (
        "producer_id and sequence can't be set for a stream: its query id and batch number are used"
    ),
    "expected_offsets": (
        "expected_offsets can't be set for a stream, which appends more than once: use it with"
        " cluster.append in foreachBatch"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The checked options of a write.

    Attributes:
        cluster: The metadata root.
        topic: The topic of all rows; None: each row names its own.
        acks: "all", "1" or "0".
        producer_id: The producer of an idempotent batch write, or None.
        producer_epoch: The run of a batch write. Of a stream: a number above the epochs of all ids
            that have expired, with which the query goes on if its own has. None: the next epoch.
        sequence: The write's number, or None.
        transactional_id: The id whose older writers this one fences, or None.
        expected_offsets: Log ends by topic and partition, for a conditional batch write.
        may_decide: The write may control where nobody does: auto.controller is not off.
        warnings: Sentences to log once.
        storage: Storage options.
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
    """Return the checked options of a write.

    Raises:
        InvalidRequestError: One is missing, unknown or not allowed.
    """
    client, rest = split_client_options(options)
    given = known_options(rest, _SINK)
    refuse(client, REFUSED_BY_SINK)
    if is_stream:
        refuse(given, _BATCH_ONLY)
    # The sink always writes the column `headers`: this option is checked, and has no effect.
    flag(given, "includeheaders", default=False)
    return SinkOptions(
        cluster=cluster_root(given),
        topic=given["topic"].strip() if "topic" in given else None,
        acks=check_acks(given.get("acks", client.get(ACKS, "all"))),
        producer_id=given.get("producer_id"),
        producer_epoch=_whole_number(given, "producer_epoch"),
        sequence=_whole_number(given, "sequence"),
        transactional_id=given.get("transactional_id", client.get(TRANSACTIONAL_ID)),
        expected_offsets=_expected_offsets(given.get("expected_offsets")),
        may_decide=leaves_auto_controller(_named(given, "auto.controller")),
        warnings=tuple(ignored_warnings(client, SINK_OPTIONS_USED)),
        storage=storage_options(options),
    )


def _named(given: Mapping[str, str], name: str) -> dict[str, str]:
    return {name: given[name]} if name in given else {}


def _whole_number(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    try:
        return whole_number(given[name].strip())
    except ValueError:
        raise InvalidRequestError(
            f"option {name!r} can't be {given[name]!r}: give a whole number from 0 on"
        ) from None


def _expected_offsets(text: str | None) -> dict[str, dict[int, int]]:
    if text is None:
        return {}
    refusal = InvalidRequestError(
        f"option 'expected_offsets' can't be {text!r}: give the log ends by topic and partition,"
        ' for instance {"flights":{"0":23,"1":0}}'
    )
    try:
        topics = parse_json(text)
    except ValueError:
        raise refusal from None
    if not isinstance(topics, dict):
        raise refusal
    return {name: _offsets(partitions, refusal) for name, partitions in topics.items()}


def _offsets(partitions: object, refusal: InvalidRequestError) -> dict[int, int]:
    if not isinstance(partitions, dict):
        raise refusal
    for number, offset in partitions.items():
        if not number.isdecimal() or type(offset) is not int or offset < 0:
            raise refusal
    return {int(number): offset for number, offset in partitions.items()}
