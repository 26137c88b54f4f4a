"""What gathers while an append is under way: what goes with the next one, when it is due, and
whether there is room for more.

Apart from the thread that sends, and without a lock or a clock: its caller has both.
Source: org.apache.kafka.clients.producer.internals.RecordAccumulator.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from kafka_on_spark.produce.sent_record import SentRecord
from kafka_on_spark.produce.settings import ProducerSettings

RECORD_OVERHEAD_BYTES: Final = 70
"""Counted for each record besides its key, value and headers. Source: at most what Kafka counts
(DefaultRecordBatch and DefaultRecord.MAX_RECORD_OVERHEAD)."""


class Accumulator:
    """Records that wait for the next append, and the memory of all without an answer.

    Attributes:
        waiting_count: Sends that wait for room: a reason to send at once.
        used_bytes: Of buffer.memory.
    """

    def __init__(self, settings: ProducerSettings) -> None:
        self._linger_ms = settings.linger_ms
        self._buffer_memory = settings.buffer_memory
        self.waiting_count = 0
        self.used_bytes = 0
        self._clear()

    def _clear(self) -> None:
        self._topics: dict[str, list[SentRecord]] = {}
        self._bytes: dict[str, int] = {}
        self._since_ms: float | None = None
        self._is_full = False
        self._is_asked_for = False

    @property
    def records(self) -> Iterator[SentRecord]:
        """The records that wait."""
        return chain.from_iterable(self._topics.values())

    def fits(self, size_bytes: int) -> bool:
        """Return whether a record of that size has room once all others are gone."""
        return size_bytes + RECORD_OVERHEAD_BYTES <= self._buffer_memory

    def has_room(self, size_bytes: int) -> bool:
        """Return whether a record of that size has room now."""
        return self.used_bytes + size_bytes + RECORD_OVERHEAD_BYTES <= self._buffer_memory

    def add(self, topic: str, record: SentRecord, now_ms: float, full_bytes: int) -> bool:
        """Take a record; return whether `due_at_ms` has changed.

        `full_bytes`: with so many of the topic, the append begins before linger.ms is over.
        """
        held = held_bytes(record)
        self.used_bytes += held
        if topic in self._topics:
            self._topics[topic].append(record)
            self._bytes[topic] += held
        else:
            self._topics[topic] = [record]
            self._bytes[topic] = held
        is_first = self._since_ms is None
        if is_first:
            self._since_ms = now_ms
        if self._is_full or self._bytes[topic] < full_bytes:
            return is_first
        self._is_full = True
        return True

    def flush(self) -> None:
        """Have all that waits sent at once."""
        self._is_asked_for = self._since_ms is not None

    def due_at_ms(self) -> float | None:
        """Return from when on the next append is due; None: nothing waits."""
        if self._since_ms is None:
            return None
        is_due = self._is_full or self.waiting_count or self._is_asked_for
        return self._since_ms if is_due else self._since_ms + self._linger_ms

    def take(self) -> dict[str, list[SentRecord]]:
        """Return all that waits, for one append, by topic name and in the order of their sends.
        Its memory stays in use until `release`."""
        topics = self._topics
        self._clear()
        return topics

    def release(self, held_bytes: int) -> None:
        """Give memory back, of records that have an answer."""
        self.used_bytes -= held_bytes
        assert self.used_bytes >= 0, self.used_bytes

    def expire(self, now_ms: float) -> dict[str, list[SentRecord]]:
        """Return the records that wait beyond their deadlines, and let them wait no longer.

        Deadlines rise in the order of sends: those that have passed are the first of each topic.
        """
        expired: dict[str, list[SentRecord]] = {}
        for topic, records in list(self._topics.items()):
            count = expired_count(records, now_ms)
            if not count:
                continue
            expired[topic] = records[:count]
            self._topics[topic] = records[count:]
            self._bytes[topic] -= sum(map(held_bytes, expired[topic]))
            if count == len(records):
                del self._topics[topic], self._bytes[topic]
        if not self._topics:
            self._clear()
        return expired


def held_bytes(record: SentRecord) -> int:
    """Return what a record takes of buffer.memory, until it has an answer."""
    return record.size_bytes + RECORD_OVERHEAD_BYTES


def expired_count(records: list[SentRecord], now_ms: float, start: int = 0) -> int:
    """Return how many records from `start` on are beyond their deadlines, which rise."""
    end = start
    while end < len(records) and records[end].deadline_ms <= now_ms:
        end += 1
    return end - start
