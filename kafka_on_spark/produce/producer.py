"""The object that sends records one at a time: checks each at once, and hands it to the sender."""

import weakref
from collections.abc import Iterable, Mapping, MutableSet
from concurrent.futures import Future
from datetime import datetime
from operator import index
from types import TracebackType
from typing import Self

from kafka_on_spark.base.errors import ClusterClosedError
from kafka_on_spark.base.ids import check_whole_number, record_micros
from kafka_on_spark.node.node import Node
from kafka_on_spark.produce.accumulator import (
    Callback,
    Headers,
    ProducerSettings,
    RecordMetadata,
    SentRecord,
)
from kafka_on_spark.produce.records import encoded_text, header_pairs, wrong_type
from kafka_on_spark.produce.sender import ProducerAppends, Sender
from kafka_on_spark.store.deadlines import FORKED, is_forked

GivenHeaders = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]


class Producer:
    """Sends records to topics, and appends what gathers. Made by `Cluster.producer`.

    Threads may share it. Records of one thread for one partition keep their order, and each is
    appended once, however often its append is tried. Close it, or use it in `with`.
    """

    def __init__(self, node: Node, settings: ProducerSettings, senders: MutableSet[Sender]) -> None:
        self._batch_size = settings.batch_size
        self._appends = ProducerAppends(node, settings)
        self._limits = self._appends.limits
        self._sender = Sender(self._appends, settings)
        senders.add(self._sender)
        # What was sent is sent, though nobody holds the producer any more.
        weakref.finalize(self, self._sender.begin_close).atexit = False

    def send(
        self,
        topic: str,
        key: bytes | str | None,
        value: bytes | str | None,
        headers: GivenHeaders = (),
        timestamp: datetime | int | None = None,
        partition: int | None = None,
        *,
        callback: Callback | None = None,
    ) -> "Future[RecordMetadata]":
        """Send a record; return the future of where it stands.

        `timestamp` is its create time, an aware datetime or milliseconds since 1970; None for now.
        Its partition is the given one, else by key as Kafka chooses it, else one that all keyless
        records of an append share. `callback(metadata, error)` is called in the thread that sends,
        in the order of a partition's sends; if it fails, that is logged. The future can't be
        cancelled. Blocks for at most max.block.ms, while buffer.memory is full.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
            InvalidRequestError, InvalidRecordError, InvalidTimestampError, MessageTooLargeError:
                The record is wrong.
            BufferExhaustedError: There was no room for it.
            ProducerClosedError, ClusterClosedError: The producer or the cluster is closed.
            KafkaStorageError: The metadata root is away, and the topic is new to this producer.

        The future raises:
            RecordExpiredError: delivery.timeout.ms was over; the record is not appended.
            RequestTimedOutError: The same, and whether it is appended is unknown.
            And what refuses an append.
        """
        if is_forked():
            raise ClusterClosedError(FORKED)
        key_bytes = key if type(key) is bytes else _encoded("key", key)
        value_bytes = value if type(value) is bytes else _encoded("value", value)
        pairs = _pairs(headers) if headers else None
        now_ms = self._appends.now_ms()
        timestamp_us = now_ms * 1000 if timestamp is None else record_micros(timestamp)
        if partition is not None:
            check_whole_number(partition, "partition")
            partition = index(partition)
        limits = self._limits.get(topic) or self._appends.learn(topic)
        condition = self._sender.condition
        record = SentRecord(
            topic, key_bytes, value_bytes, pairs, timestamp_us, partition, callback, condition
        )
        if record.refusal(limits, now_ms) is not None:
            # By what was known of the topic; it may have been changed.
            limits = self._appends.learn(topic)
            refusal = record.refusal(limits, now_ms)
            if refusal is not None:
                raise refusal
        self._sender.add(record, self._batch_size * limits.partition_count)
        return record

    def flush(self, timeout_ms: float | None = None) -> None:
        """Append what has gathered at once, and wait until all that was sent before has an answer.

        Errors are in the futures. Records that other threads send meanwhile are not waited for.

        Raises:
            RequestTimedOutError: Not all of it has an answer within `timeout_ms`.
            InvalidRequestError: A callback calls it.
        """
        if is_forked():
            raise ClusterClosedError(FORKED)
        self._sender.flush(timeout_ms)

    def close(self, timeout_ms: float | None = None) -> None:
        """Flush, and end. Later sends raise a ProducerClosedError.

        After `timeout_ms` (None: however long it takes, at most delivery.timeout.ms an append) the
        futures of records without an answer fail: with a ProducerClosedError if the record was not
        sent, with a RequestTimedOutError if an append with it is under way.
        """
        if not is_forked():
            self._sender.close(timeout_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _encoded(name: str, given: object) -> bytes | None:
    if given is None or type(given) is bytes:
        return given
    if isinstance(given, str):
        return encoded_text(name, given)
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise wrong_type(name, given)


def _pairs(given: object) -> Headers | None:
    found: Headers = []
    for name, value in header_pairs(given) or ():
        if not isinstance(name, str) or isinstance(value, str):
            raise wrong_type("headers", given)
        encoded_text("a header's name", name)
        found.append((name, _encoded("headers", value)))
    return found or None
