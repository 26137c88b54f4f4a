"""The partitions that a producer tries again, and the records that wait behind them.

A partition is muted from the try that leaves its records without an answer until they have one: a
later append that lands first would make them fail. What is sent meanwhile waits, and goes with the
first append afterwards. The other partitions go on.

Apart from the threads that send, and without a lock: its caller has one.
Source: org.apache.kafka.clients.producer.internals.RecordAccumulator.mutePartition.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.produce.accumulator import expired_count
from kafka_on_spark.produce.delivery import (
    AppendNumber,
    Outcome,
    PendingPart,
    expired_error,
)
from kafka_on_spark.produce.sent_record import SentRecord

_BEHIND: Final = "an earlier append to the partition has no answer yet"


@dataclass(slots=True)
class _Muted:
    """A partition, and what waits behind its records.

    Attributes:
        part: What is tried again.
        behind: Later records, in the order of their sends.
    """

    part: PendingPart
    behind: list[SentRecord] = field(default_factory=list)


class MutedPartitions:
    """Which partitions of a producer are muted, and what waits behind them."""

    def __init__(self) -> None:
        self._muted: dict[PartitionKey, _Muted] = {}
        self._released: dict[PartitionKey, tuple[str, list[SentRecord]]] = {}

    @property
    def keys(self) -> frozenset[PartitionKey]:
        """The muted partitions."""
        return frozenset(self._muted)

    @property
    def is_empty(self) -> bool:
        """Whether no partition is muted, and nothing has waited behind one."""
        return not self._muted and not self._released

    @property
    def has_released(self) -> bool:
        """Whether records that have waited may be sent now."""
        return bool(self._released)

    @property
    def tried(self) -> list[PendingPart]:
        """What is tried again."""
        return [each.part for each in self._muted.values()]

    @property
    def waiting(self) -> Iterator[tuple[str, list[SentRecord]]]:
        """The records that no append has, by topic name."""
        behind = ((each.part.topic, each.behind) for each in self._muted.values())
        return chain(behind, self._released.values())

    def mute(self, parts: Iterable[PendingPart]) -> None:
        """Have later records of these partitions wait."""
        for each in parts:
            assert each.key not in self._muted, each.key
            self._muted[each.key] = _Muted(each)

    def unmute(self, keys: Iterable[PartitionKey]) -> None:
        """Have what waits behind these partitions sent with the next append."""
        for key in keys:
            muted = self._muted.pop(key)
            if muted.behind:
                self._released[key] = (muted.part.topic, muted.behind)

    def join(self, parts: Iterable[PendingPart], number: AppendNumber) -> list[PendingPart]:
        """Return what the append `number`, which is about to begin, tries.

        Records of `parts` whose partitions are muted wait from now on. Those that have waited, and
        need not any more, go with it, before later ones.
        """
        released, self._released = self._released, {}
        tried = []
        for part in parts:
            muted = self._muted.get(part.key)
            if muted is not None:
                muted.behind += part.records
                continue
            _, before = released.pop(part.key, (part.topic, []))
            part.records = before + part.records
            tried.append(part)
        later = [
            PendingPart(topic=topic, key=key, number=number, records=records)
            for key, (topic, records) in released.items()
        ]
        return tried + later

    def expire(self, keys: Iterable[PartitionKey], now_ms: float) -> list[Outcome]:
        """Return the outcomes of records that wait behind these partitions beyond their deadlines.

        Only what tries a partition asks: its records are earlier, and have their answers first.
        """
        outcomes = []
        for key in keys:
            muted = self._muted[key]
            count = expired_count(muted.behind, now_ms)
            if not count:
                continue
            topic, records = muted.part.topic, muted.behind[:count]
            muted.behind = muted.behind[count:]
            last_error = muted.part.last_error
            why = f" ({_BEHIND}{'' if last_error is None else f': {last_error}'})"
            error = expired_error(f"{topic}-{key.partition}", why)
            outcomes.append(
                Outcome(topic=topic, partition=key.partition, records=records, error=error)
            )
        return outcomes
