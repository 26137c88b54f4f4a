"""What clients send, and where it stands: values, keys, runs of neighbours. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

VALUE_BYTES: Final = 100
TABLE_KEYS: Final = 1000
"""Keys of one client of the compacted topic: each record's comes again after so many others."""

TOMBSTONE_EACH: Final = 7
"""Of a key's records in the compacted topic about so many make one tombstone; prime to the keys."""

SENT: Final = "sent"
"""Header of a tombstone: the value that it would have had."""


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbours of one client that stand side by side."""

    partition: int
    offset: int
    first: int
    count: int


def value_of(name: str, number: int) -> str:
    """Return the value of a client's record: its name and number, filled up."""
    return f"{name}:{number}:".ljust(VALUE_BYTES, ".")


def key_of(name: str, number: int) -> str:
    """Return the key of a client's record in the compacted topic."""
    return f"{name}-{number % TABLE_KEYS}"


def is_tombstone(number: int) -> bool:
    """Return whether a client's record of that number deletes its key in the compacted topic."""
    return number % TOMBSTONE_EACH == 3


def sent_by(value: bytes | None, headers: Iterable[Mapping[str, Any]] | None) -> tuple[str, int]:
    """Return the client and the number of a record, which a tombstone has in a header."""
    if value is None:
        value = next((each["value"] for each in headers or () if each["key"] == SENT), b"")
    return number_of(value)


def number_of(value: bytes) -> tuple[str, int]:
    name, number, _ = value.decode().split(":", 2)
    return name, int(number)


def runs_of(places: Sequence[tuple[int, int, int]]) -> list[Run]:
    """Return (number, partition, offset) of records as runs, by partition and offset."""
    runs: list[Run] = []
    for number, partition, offset in sorted(places, key=lambda each: each[1:]):
        last = runs[-1] if runs else None
        if (
            last is not None
            and last.partition == partition
            and last.offset + last.count == offset
            and last.first + last.count == number
        ):
            runs[-1] = Run(partition, last.offset, last.first, last.count + 1)
        else:
            runs.append(Run(partition, offset, number, 1))
    return runs


def seen_in(records: Iterable[tuple[int, int, str, int]]) -> list[tuple[str, Run]]:
    """Return (partition, offset, client, number) of records as the clients' runs, in their order."""
    by_client: dict[str, list[tuple[int, int, int]]] = {}
    for partition, offset, name, number in records:
        by_client.setdefault(name, []).append((number, partition, offset))
    seen = [(name, run) for name, each in by_client.items() for run in runs_of(each)]
    return sorted(seen, key=lambda each: (each[1].partition, each[1].offset))
