"""Writes the answer of a call: tables for people, lines for pipes, JSON for scripts.

The answer goes to standard output, notes and questions go to standard error. Both pass through
`visible`, since other people's names and values stand in them. One list of rows of plain values
makes the table and the JSON.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, Final

from kafka_on_spark.base.ids import time_of
from kafka_on_spark.base.text import visible, visible_json

Row = dict[str, Any]
Columns = str
"""Keys of rows, with blanks between. They are the titles of a table, too, in Kafka's spelling."""

ROWS_AT_ONCE: Final = 1000
"""Columns are aligned over so many rows: a long answer is written as it comes."""

PADDED_MAX: Final = 40
"""Columns of lines are aligned up to so many characters; a longer cell shifts its own line only."""

NOTHING: Final = "-"


class Shown(str):
    """A cell that is written unchanged: every character is visible, and blanks count."""

    __slots__ = ()


def write_json(answer: Any) -> None:
    sys.stdout.write(visible_json(answer, indent=2) + "\n")


def write_json_rows(rows: Iterable[Row]) -> None:
    """Write rows as they come, each on a line of its own."""
    separator = "[\n  "
    for row in rows:
        sys.stdout.write(separator + visible_json(row))
        separator = ",\n  "
    sys.stdout.write("[]\n" if separator.startswith("[") else "\n]\n")


def fields(value: Any, names: Columns) -> Row:
    """Return attributes of an object as a row, sets as sorted lists: of "isr" by that name, of
    "lag=name.lag" the attribute behind "=" by the name before it."""
    row = {}
    for each in names.split():
        name, _, path = each.partition("=")
        found = attrgetter(path or name)(value)
        row[name] = sorted(found) if isinstance(found, frozenset) else found
    return row


def write_table(columns: Columns, rows: Iterable[Row]) -> None:
    """Write a table of one line a row, which is neither wrapped nor cut. Without `columns`, they
    are all keys of the first row."""
    first = 0
    remaining = iter(rows)
    keys = columns.split()
    while part := list(islice(remaining, ROWS_AT_ONCE)):
        keys = keys or list(part[0])
        cells = [
            [key.replace("_", "-").upper(), *(text_of(row.get(key)) for row in part)]
            for key in keys
        ]
        lines = _aligned(cells)
        sys.stdout.write("".join(line + "\n" for line in lines[first:]))
        first = 1  # the names stand once


def _aligned(columns: Sequence[Sequence[str]]) -> list[str]:
    widths = [
        max(len(text) for text in column if len(text) <= PADDED_MAX or text is column[0])
        for column in columns
    ]
    return [
        "  ".join(map(str.ljust, texts, widths)).rstrip() for texts in zip(*columns, strict=True)
    ]


def text_of(value: Any) -> str:
    """Return a plain value as a cell of one line; an empty value is "-"."""
    if isinstance(value, Shown):
        return value
    if value is None or value in ("", [], ()):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={text_of(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(text_of, value))
    return visible(" ".join(str(value).split()))


def say(*lines: str) -> None:
    sys.stdout.write("".join(visible(line) + "\n" for line in lines))


def note(sentence: str) -> None:
    """Write a remark, which is not part of the answer, to standard error."""
    sys.stderr.write(visible(sentence) + "\n")


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: "1 topic", "2 topics"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def time_text(time_ms: int) -> str:
    """Return a time in ISO 8601, in UTC, with milliseconds."""
    return time_of(time_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
