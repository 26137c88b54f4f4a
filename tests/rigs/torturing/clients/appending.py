"""Clients that append values with their own name in them, and write down each answer.

A client with a producer repeats an append under its sequence until it is acknowledged, also after
its process was killed: its history says what was under way. One without never repeats anything.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka_on_spark.base.errors import (
    DuplicateSequenceError,
    NotEnoughReplicasError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)
from kafka_on_spark.produce.append import AppendResult
from tests.rigs.torturing.folder import PARTITIONS, TOPICS, key_of
from tests.rigs.torturing.history import APPEND, FAIL, INFO, INVOKE, OK, Event, HistoryWriter

BATCH_RECORDS_MAX: Final = 5
REFUSALS: Final = (
    NotEnoughReplicasError,
    ProducerFencedError,
    OutOfOrderSequenceError,
    DuplicateSequenceError,
)
"""Errors that say that nothing was written, if no earlier try of the append may have been."""
FINAL_REFUSALS: Final = (OutOfOrderSequenceError, DuplicateSequenceError)
"""Errors after which the same append is never tried again."""

Rows = Sequence[tuple[str, int]]
"""Values with their partitions."""

Append = Callable[..., AppendResult]
"""Cluster.append, of (topic, rows) and its options."""


@dataclass(frozen=True, slots=True)
class Work:
    """One append."""

    topic: str
    parts: Mapping[int, tuple[str, ...]]
    acks: str
    sequence: int | None

    @property
    def rows(self) -> Rows:
        return [(value, number) for number, values in self.parts.items() for value in values]

    @property
    def by_key(self) -> dict[str, list[str]]:
        """The values by partition's name."""
        return {key_of(self.topic, number): list(each) for number, each in self.parts.items()}


class AppendingClient:
    def __init__(
        self,
        append: Append,
        writer: HistoryWriter,
        rng: random.Random,
        *,
        producer_id: str | None,
        before: Iterable[Event] = (),
    ) -> None:
        """`before`: what the client's earlier processes did."""
        self._append = append
        self._writer = writer
        self._rng = rng
        self._producer_id = producer_id
        self._sent = 0
        self._sequence, self._open = last_work(before) if producer_id else (0, None)

    def once(self) -> None:
        work = self._open or self._new_work()
        if self._producer_id is not None:
            self._open = work
            self._sequence = (work.sequence or 0) + 1
        index = self._writer.invoke(
            APPEND,
            parts=work.by_key,
            acks=work.acks,
            producer_id=self._producer_id,
            sequence=work.sequence,
        )
        try:
            result = self._append(
                work.topic,
                work.rows,
                acks=work.acks,
                producer_id=self._producer_id,
                sequence=work.sequence,
            )
        except Exception as error:  # whatever it is, the history must say it
            self._failed(index, work, error)
        else:
            self._open = None
            self._writer.complete(index, APPEND, OK, **_result_fields(work.topic, result))

    def _failed(self, index: int, work: Work, error: Exception) -> None:
        # Of several partitions each has an outcome of its own, and one error speaks for all.
        is_refused = (
            isinstance(error, REFUSALS)
            and len(work.parts) == 1
            and "may_be_committed" not in error.context
        )
        self._writer.complete(
            index,
            APPEND,
            FAIL if is_refused else INFO,
            error=type(error).__name__,
            message=str(error)[:500],
        )
        if isinstance(error, FINAL_REFUSALS):
            self._open = None
        if isinstance(error, ProducerFencedError):
            raise error

    def _new_work(self) -> Work:
        rng = self._rng
        numbers = list(range(PARTITIONS))
        chosen = numbers if rng.random() < 0.15 else [rng.choice(numbers)]
        is_loose = self._producer_id is None and rng.random() < 0.2
        return Work(
            topic=rng.choice(TOPICS),
            parts={number: self._new_values() for number in chosen},
            acks=rng.choice(["1", "0"]) if is_loose else "all",
            sequence=None if self._producer_id is None else self._sequence,
        )

    def _new_values(self) -> tuple[str, ...]:
        first = self._sent
        self._sent += self._rng.randint(1, BATCH_RECORDS_MAX)
        return tuple(f"{self._writer.process}:{number}" for number in range(first, self._sent))


def _result_fields(topic: str, result: AppendResult) -> dict[str, Any]:
    return {
        "bases": {
            key_of(topic, number): each.base_offset for number, each in result.partitions.items()
        },
        "is_duplicate": result.is_duplicate,
    }


def last_work(events: Iterable[Event]) -> tuple[int, Work | None]:
    """Return a producer's next sequence, and the append that was not answered for good yet."""
    last: Event | None = None
    invoked: dict[tuple[str, int], int] = {}
    done: set[int] = set()
    for event in events:
        if event.call != APPEND:
            continue
        place = (event.process, event.index)
        if event.kind == INVOKE:
            invoked[place] = sequence = event.fields["sequence"]
            if last is None or sequence >= last.fields["sequence"]:
                last = event
        elif event.kind == OK or event.fields["error"] in _FINAL_NAMES:
            done.add(invoked[place])
    if last is None:
        return 0, None
    sequence = last.fields["sequence"]
    return sequence + 1, None if sequence in done else _work_of(last)


_FINAL_NAMES: Final = frozenset(each.__name__ for each in FINAL_REFUSALS)


def _work_of(event: Event) -> Work:
    parts: dict[int, tuple[str, ...]] = {}
    topic = ""
    for key, values in event.fields["parts"].items():
        topic, _, number = key.rpartition("/")
        parts[int(number)] = tuple(values)
    return Work(topic, parts, event.fields["acks"], event.fields["sequence"])
