"""Appends one chunk after the other, each once however often it is tried, and knows what became of
each.

A chunk is one append of an idempotent producer: a try whose outcome is unknown is made again under
the same sequence, so what stands already is found and not doubled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from kafka_on_spark.cli.call.output import note
from kafka_on_spark.cluster.cluster import Cluster
from kafka_on_spark.controller.pace.back_off import pauses_ms
from kafka_on_spark.errors import (
    ClusterClosedError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaOnSparkError,
    MessageTooLargeError,
)
from kafka_on_spark.metadata.clients import id_of_one_run
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.service.append.plan.append_results import AppendResult
from kafka_on_spark.service.append.produce.delivery import (
    TRY_MS_MIN,
    SlowWord,
    is_passing,
    may_stand,
)
from kafka_on_spark.storage.calls.clock import SystemClock
from kafka_on_spark.storage.calls.random_ids import new_uuid

PAUSE_MS_MIN = 100
PAUSE_MS_MAX = 1_000
"""Between tries. Source: retry.backoff.ms, retry.backoff.max.ms."""

_OF_A_RECORD = (InvalidRecordError, InvalidTimestampError, MessageTooLargeError)
"""What refuses a whole append before its first commit, for one of its records."""


class NotAppendedError(Exception):
    """A chunk, or a part of it, is not acknowledged.

    Attributes:
        why: The last try's error.
        first: Place in the chunk of the first record without an answer.
        last: Of the last; those behind it were not tried.
        is_unknown: Some of them may stand.
    """

    def __init__(self, why: KafkaOnSparkError, first: int, last: int, *, is_unknown: bool) -> None:
        super().__init__(str(why))
        self.why = why
        self.first = first
        self.last = last
        self.is_unknown = is_unknown


@dataclass(slots=True)
class Tally:
    """What was acknowledged.

    Attributes:
        record_count: Records in all.
        offsets: First and last offset by partition, as far as they are known.
        counts: Records by partition.
    """

    record_count: int = 0
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, result: AppendResult) -> None:
        """Count an append."""
        for number, part in result.partitions.items():
            self.record_count += part.record_count
            self.counts[number] = self.counts.get(number, 0) + part.record_count
            if part.base_offset is not None:
                last = part.base_offset + part.record_count - 1
                self.offsets[number] = (self.offsets.get(number, (part.base_offset,))[0], last)


class ChunkAppends:
    """The appends of one call.

    Attributes:
        tally: What was acknowledged so far.
    """

    def __init__(
        self, cluster: Cluster, topic: str, *, acks: str, delivery_timeout_ms: int
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._acks = acks
        self._delivery_timeout_ms = delivery_timeout_ms
        self._clock = SystemClock()
        uuid = new_uuid()
        self._producer_id = id_of_one_run(uuid)
        self._turn = int(uuid.replace("-", ""), 16)
        self._sequence = 0
        self._partitions: Mapping[int, PartitionRegistration] = {}
        self.tally = Tally()

    def sticky(self) -> int:
        """Return the partition of the next chunk's keyless records: each in turn that has a leader,
        the first one by chance.

        Raises: as `Cluster.image`, the first time; later on it is the append that tells.
        """
        try:
            self._partitions = self._cluster.image.topic(self._topic).partitions
        except KafkaOnSparkError:
            if not self._partitions:
                raise
        partitions = self._partitions
        numbers = sorted(partitions)
        led = [each for each in numbers if partitions[each].leader is not None] or numbers
        return led[(self._turn + self._sequence) % len(led)]

    def append(self, batch: pa.RecordBatch) -> None:
        """Append a chunk, once.

        If one of its records is refused, those before it are appended, and none after it.

        Raises:
            NotAppendedError: Not all of it is acknowledged.
        """
        first, end = 0, batch.num_rows
        while first < batch.num_rows:
            try:
                self._append_once(batch.slice(first, end - first))
            except _OF_A_RECORD as error:
                if end - first == 1:
                    raise NotAppendedError(error, first, first, is_unknown=False) from None
                end = first + (end - first) // 2
            except _GivenUpError as error:
                raise NotAppendedError(
                    error.why, first, end - 1, is_unknown=error.is_unknown
                ) from None
            else:
                first, end = end, batch.num_rows

    def _append_once(self, batch: pa.RecordBatch) -> None:
        """Try until there is an answer, for delivery.timeout.ms at most.

        Raises:
            _GivenUpError: There is none.
            And what refuses one of its records: nothing was appended.
        """
        began_ms = self._clock.monotonic_ms()
        end_ms = began_ms + self._delivery_timeout_ms
        sequence, self._sequence = self._sequence, self._sequence + 1
        slow, is_unknown = SlowWord(began_ms), False
        for pause_ms in pauses_ms(PAUSE_MS_MIN, PAUSE_MS_MAX):
            try_ms = int(slow.until_ms(end_ms) - self._clock.monotonic_ms())
            try:
                result = self._cluster.append(
                    self._topic,
                    batch,
                    acks=self._acks,
                    producer_id=self._producer_id,
                    sequence=sequence,
                    timeout_ms=max(try_ms, TRY_MS_MIN),
                )
            except KafkaOnSparkError as error:
                is_unknown = is_unknown or _may_stand(error)
                if isinstance(error, _OF_A_RECORD) and not is_unknown:
                    raise
                now_ms = self._clock.monotonic_ms()
                left_ms = end_ms - now_ms
                if not is_passing(error) or left_ms <= pause_ms:
                    raise _GivenUpError(error, is_unknown=is_unknown) from None
                if (word := slow.say(now_ms, end_ms, error)) is not None:
                    note(f"{self._topic}: {word}")
                self._clock.sleep_ms(pause_ms)
            else:
                self.tally.add(result)
                return


def _may_stand(error: KafkaOnSparkError) -> bool:
    """Return whether a part of an append that failed may be in the log."""
    is_partly = bool(error.context.get("acknowledged")) or "errors" in error.context
    return may_stand(error) or is_partly or isinstance(error, ClusterClosedError)


class _GivenUpError(Exception):
    def __init__(self, why: KafkaOnSparkError, *, is_unknown: bool) -> None:
        super().__init__(str(why))
        self.why = why
        self.is_unknown = is_unknown
