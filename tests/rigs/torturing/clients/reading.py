"""Clients that read what is committed, and write down at which offset they saw what."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from kafka_on_spark import Cluster, KafkaOnSparkError
from tests.rigs.torturing.folder import PARTITIONS, TOPICS, key_of
from tests.rigs.torturing.history import END, FAIL, OK, POLL, HistoryWriter

Rows = Iterable[tuple[int, int, str]]
"""Partition, offset and value."""

FULL_READS: Final = 0.05
"""Share of reads that begin again at the first offset."""


class ReadingClient:
    def __init__(
        self,
        read: Callable[[str, Mapping[int, int]], Rows],
        writer: HistoryWriter,
        rng: random.Random,
        *,
        ends: Callable[[str], Mapping[int, int]] | None = None,
    ) -> None:
        """`read`: of a topic and the offsets to begin at; `ends`: its high watermarks."""
        self._read = read
        self._ends = ends
        self._writer = writer
        self._rng = rng
        self._positions = {topic: dict.fromkeys(range(PARTITIONS), 0) for topic in TOPICS}
        self._assigns = dict.fromkeys(TOPICS, 0)

    def once(self) -> None:
        topic = self._rng.choice(TOPICS)
        if self._ends is not None and self._rng.random() < 0.4:
            self._ask(topic, self._ends)
            return
        if self._rng.random() < FULL_READS:
            self._assigns[topic] += 1
            self._positions[topic] = dict.fromkeys(range(PARTITIONS), 0)
        self._poll(topic)

    def _ask(self, topic: str, ends: Callable[[str], Mapping[int, int]]) -> None:
        index = self._writer.invoke(END, topic=topic)
        try:
            told = ends(topic)
        except Exception as error:  # whatever it is, the history must say it
            self._writer.complete(index, END, FAIL, **_reason(error))
        else:
            by_key = {key_of(topic, number): end for number, end in told.items()}
            self._writer.complete(index, END, OK, ends=by_key)

    def _poll(self, topic: str) -> None:
        starts = self._positions[topic]
        index = self._writer.invoke(POLL, topic=topic)
        try:
            rows = list(self._read(topic, starts))
        except Exception as error:  # whatever it is, the history must say it
            self._writer.complete(index, POLL, FAIL, **_reason(error))
            return
        records = by_partition(topic, rows)
        self._writer.complete(
            index,
            POLL,
            OK,
            assign=self._assigns[topic],
            starts={key_of(topic, number): start for number, start in starts.items()},
            records=records,
        )
        for number in starts:
            found = records.get(key_of(topic, number))
            if found:
                starts[number] = found[-1][0] + 1


def _reason(error: Exception) -> dict[str, str]:
    message = str(error) if isinstance(error, KafkaOnSparkError) else str(error)[-500:]
    return {"error": type(error).__name__, "message": message[:500]}


def by_partition(topic: str, rows: Rows) -> dict[str, list[list[Any]]]:
    """Return rows as a history has them: offset and value, by partition."""
    records: dict[str, list[list[Any]]] = defaultdict(list)
    for number, offset, value in rows:
        records[key_of(topic, number)].append([offset, value])
    return dict(records)


def rows_of(table: pa.Table) -> Rows:
    columns = (table.column(name).to_pylist() for name in ("partition", "offset", "value"))
    return [
        (number, offset, value.decode()) for number, offset, value in zip(*columns, strict=True)
    ]


def read_directly(cluster: Cluster) -> Callable[[str, Mapping[int, int]], Rows]:
    """Return how a client reads without Spark."""
    return lambda topic, starts: rows_of(cluster.read(topic, start=starts))


def ask_directly(cluster: Cluster) -> Callable[[str], Mapping[int, int]]:
    """Return how a client asks for the ends without Spark."""
    return lambda topic: {
        number: int(each.high_watermark) for number, each in cluster.offsets(topic).items()
    }
