"""What a history says, put in order: batches with what became of them, reads, and what both saw.

Apart from the checks, which are about anomalies and not about lines of JSON. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.rigs.torturing.history import (
    APPEND,
    CRASH,
    ENDED,
    FAIL,
    HEALED,
    INFO,
    INVOKE,
    OK,
    POLL,
    Event,
)

Record = tuple[int, str]
"""Offset and value."""


@dataclass(slots=True, kw_only=True)
class Batch:
    """The records of one append to one partition, and all attempts to append them."""

    key: str
    client: str
    producer_id: str | None
    sequence: int | None
    values: tuple[str, ...]
    invoked_ns: int
    acked_ns: int | None = None
    bases: list[int] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """OK if an attempt was acknowledged, FAIL if all were refused, INFO if nobody knows."""
        if OK in self.outcomes:
            return OK
        return FAIL if set(self.outcomes) == {FAIL} else INFO


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """One partition's part of a read; a high watermark that was told is an empty one at it.

    Attributes:
        key: The partition.
        process: The one that read.
        assign: Polls of one process and one assignment follow each other without a gap.
        invoked_ns: When the read began.
        completed_ns: When it ended.
        start: The offset that was asked for.
        records: What was read.
        is_fresh: The read asked for everything that was committed when it began.
        is_final: It is the whole log, read when all was healed.
        stream_batch: Of a stream: the number of its batch; a batch may be read again.
    """

    key: str
    process: str
    assign: int
    invoked_ns: int
    completed_ns: int
    start: int
    records: tuple[Record, ...]
    is_fresh: bool = True
    is_final: bool = False
    stream_batch: int | None = None

    @property
    def end(self) -> int:
        """The offset after the last one read."""
        return self.records[-1][0] + 1 if self.records else self.start


@dataclass(slots=True)
class Facts:
    """A history in order; per partition where it matters."""

    batches: list[Batch] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    open_calls: list[Event] = field(default_factory=list)
    crashed: set[str] = field(default_factory=set)
    healed_ns: int | None = None
    ended_ns: int | None = None

    @property
    def keys(self) -> list[str]:
        """All partitions that anybody appended to or read."""
        return sorted({each.key for each in self.batches} | {each.key for each in self.polls})

    def of(self, key: str) -> Iterator[Batch]:
        return (batch for batch in self.batches if batch.key == key)

    def polls_of(self, key: str) -> Iterator[Poll]:
        return (poll for poll in self.polls if poll.key == key)

    def final(self, key: str) -> tuple[Record, ...] | None:
        """Return the partition's log as read at the end; None if nobody did."""
        return next((poll.records for poll in self.polls_of(key) if poll.is_final), None)

    def seen(self, key: str) -> Iterator[tuple[int, str]]:
        """Yield each (offset, value) that anybody was told: by an acknowledgement or a read."""
        for batch in self.of(key):
            for base in batch.bases:
                yield from enumerate(batch.values, base)
        for poll in self.polls_of(key):
            yield from poll.records

    def offset_of(self, key: str) -> dict[str, int]:
        """Return where each value stands, as far as anybody was told."""
        return {value: offset for offset, value in self.seen(key)}

    def read(self, key: str) -> set[str]:
        return {value for poll in self.polls_of(key) for _, value in poll.records}


Identity = tuple[object, ...]


def facts_of(events: Iterable[Event]) -> Facts:
    facts = Facts()
    begun: dict[tuple[str, int], Event] = {}
    batches: dict[Identity, Batch] = {}
    for event in events:
        place = (event.process, event.index)
        if event.kind == INVOKE:
            begun[place] = event
            if event.call == APPEND:
                _begin_batches(batches, event)
        elif event.index >= 0:
            _complete(facts, batches, begun.pop(place), event)
        else:
            _take_note(facts, event)
    for event in begun.values():
        facts.open_calls.append(event)
        if event.call == APPEND:
            _close_batches(batches, event, INFO, {}, event.at_ns)
    facts.batches = list(batches.values())
    return facts


def _take_note(facts: Facts, event: Event) -> None:
    if event.call == CRASH:
        facts.crashed.update(event.fields["of"])
    elif event.call == HEALED:
        facts.healed_ns = event.at_ns
    elif event.call == ENDED:
        facts.ended_ns = event.at_ns


def _identity(event: Event, key: str) -> Identity:
    producer_id = event.fields.get("producer_id")
    if producer_id is None:
        return (key, event.process, event.index)
    # A run that was taken over may try the same sequence with values of its own.
    return (key, producer_id, event.fields["sequence"], *event.fields["parts"][key])


def _begin_batches(batches: dict[Identity, Batch], event: Event) -> None:
    for key, values in event.fields["parts"].items():
        identity = _identity(event, key)
        if identity not in batches:
            batches[identity] = Batch(
                key=key,
                client=event.client,
                producer_id=event.fields.get("producer_id"),
                sequence=event.fields.get("sequence"),
                values=tuple(values),
                invoked_ns=event.at_ns,
            )


def _complete(facts: Facts, batches: dict[Identity, Batch], invoked: Event, event: Event) -> None:
    if event.call == APPEND:
        # Only acks=all promises that a record stays: of the others nobody knows.
        is_promised = event.kind != OK or invoked.fields["acks"] == "all"
        outcome = event.kind if is_promised else INFO
        _close_batches(batches, invoked, outcome, event.fields.get("bases", {}), event.at_ns)
    elif event.kind == OK and event.call == POLL:
        facts.polls.extend(_polls(invoked, event))
    elif event.kind == OK:
        facts.polls.extend(
            Poll(
                key=key,
                process=event.process,
                assign=-1,
                invoked_ns=invoked.at_ns,
                completed_ns=event.at_ns,
                start=end,
                records=(),
            )
            for key, end in event.fields["ends"].items()
        )


def _close_batches(
    batches: dict[Identity, Batch],
    invoked: Event,
    outcome: str,
    bases: Mapping[str, int | None],
    at_ns: int,
) -> None:
    for key in invoked.fields["parts"]:
        batch = batches[_identity(invoked, key)]
        batch.outcomes.append(outcome)
        if outcome != OK:
            continue
        batch.acked_ns = at_ns if batch.acked_ns is None else batch.acked_ns
        base = bases.get(key)
        if base is not None:
            batch.bases.append(base)


def _polls(invoked: Event, event: Event) -> Iterator[Poll]:
    fields: Mapping[str, Any] = event.fields
    for key, start in fields["starts"].items():
        yield Poll(
            key=key,
            process=event.process,
            assign=fields["assign"],
            invoked_ns=invoked.at_ns,
            completed_ns=event.at_ns,
            start=start,
            records=tuple((offset, value) for offset, value in fields["records"].get(key, ())),
            is_fresh=fields.get("is_fresh", True),
            is_final=fields.get("is_final", False),
            stream_batch=fields.get("stream_batch"),
        )


def outcomes_of(events: Iterable[Event]) -> dict[str, dict[str, int]]:
    """Return how many calls of each kind ended how; INFO counts those that never ended."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: {OK: 0, FAIL: 0, INFO: 0})
    for event in events:
        if event.index < 0:
            continue
        if event.kind == INVOKE:
            counts[event.call][INFO] += 1
        elif event.kind != INFO:
            counts[event.call][INFO] -= 1
            counts[event.call][event.kind] += 1
    return {call: dict(each) for call, each in counts.items()}
