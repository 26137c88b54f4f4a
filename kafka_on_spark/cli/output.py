"""How an answer is written: tables for people, lines for pipes, JSON for scripts.

What was asked for goes to standard output, everything else (progress, notes, questions) to standard
error; both as `visible` has it, whoever wrote what is in them. Rows are plain values: one list of
them makes the table and the JSON, so that both say the same.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import islice
from typing import Any, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.visible import visible, visible_json

Row = Mapping[str, Any]
Columns = Mapping[str, str]
"""Keys of rows, and their titles, in the order of a table's columns."""

ROWS_AT_ONCE: Final = 1000
"""Rows that columns are aligned over: a long answer is written as it comes."""

PADDED_MAX: Final = 40
"""Columns of lines are aligned up to so many characters; a longer cell pushes its own line only."""

UNFOLDED_MAX: Final = 24
"""At a terminal, cells up to so many characters stay on a line; longer ones are folded."""

GAP: Final = 2
"""Characters between columns at a terminal."""

NOTHING: Final = "-"


class Shown(str):
    """A cell that is shown as it is: every character of it is visible, and its blanks count."""

    __slots__ = ()


class Output(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    JSON = "json"


def write_json(answer: Any) -> None:
    """Write plain values to standard output."""
    sys.stdout.write(visible_json(answer, indent=2) + "\n")


def write_rows(output: Output, columns: Columns, rows: Iterable[Row]) -> None:
    """Write rows: all that they say as JSON, or their `columns` as a table."""
    if output is Output.JSON:
        _write_json_rows(rows)
    else:
        write_table(columns, rows)


def _write_json_rows(rows: Iterable[Row]) -> None:
    """Write an array row by row: what is long is not held."""
    separator = "[\n  "
    for row in rows:
        sys.stdout.write(separator + visible_json(row))
        separator = ",\n  "
    sys.stdout.write("[]\n" if separator.startswith("[") else "\n]\n")


def write_table(columns: Columns, rows: Iterable[Row]) -> None:
    """Write a table; not on a terminal, a line a row that is neither wrapped nor cut."""
    remaining = iter(rows)
    write = _draw if sys.stdout.isatty() else _write_lines
    part = list(islice(remaining, ROWS_AT_ONCE))
    is_first = True
    while part:
        write(columns, part, is_first)
        is_first = False
        part = list(islice(remaining, ROWS_AT_ONCE))


def _draw(columns: Columns, rows: Sequence[Row], is_first: bool) -> None:
    """Draw a table in the terminal's width, without columns that say nothing in any row.

    Only long cells are folded; what is too wide all the same is written a row a block.
    """
    cells = {key: [text_of(row.get(key)) for row in rows] for key in columns}
    shown = [key for key in columns if set(cells[key]) != {NOTHING}] or list(columns)
    console = Console(highlight=False)
    room = console.width - GAP * (len(shown) - 1)
    titles = {key: columns[key] for key in shown}
    widths = _widths(titles, cells)
    if sum(widths.values()) > room:
        widths = _widths({key: max(titles[key].split(), key=len) for key in shown}, cells)
    if sum(widths.values()) > room:
        _write_blocks(titles, rows)
        return
    table = Table(
        box=SIMPLE_HEAD, show_header=is_first, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for key in shown:
        is_number = all(type(row.get(key)) in (int, float, type(None)) for row in rows)
        table.add_column(
            columns[key],
            justify="right" if is_number else "left",
            overflow="fold",
            # What has a width keeps it, and the others share the rest.
            width=widths[key] if widths[key] < UNFOLDED_MAX else None,
        )
    for texts in zip(*(cells[key] for key in shown), strict=True):
        table.add_row(*map(Text, texts))
    console.print(table)


def _widths(titles: Columns, cells: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the least widths of columns: short cells whole, long ones folded."""
    return {
        key: min(max(map(len, [title, *cells[key]])), UNFOLDED_MAX) for key, title in titles.items()
    }


def _write_blocks(columns: Columns, rows: Sequence[Row]) -> None:
    widest = max(map(len, columns.values()))
    for row in rows:
        for key, title in columns.items():
            sys.stdout.write(f"{title.ljust(widest)}  {text_of(row.get(key))}\n")
        sys.stdout.write("\n")


def _write_lines(columns: Columns, rows: Sequence[Row], is_first: bool) -> None:
    lines = [[text_of(row.get(key)) for key in columns] for row in rows]
    if is_first:
        lines.insert(0, [title.upper() for title in columns.values()])
    widths = [
        max(len(text) for text in column if len(text) <= PADDED_MAX or text is column[0])
        for column in zip(*lines, strict=True)
    ]
    for line in lines:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        sys.stdout.write("  ".join(padded).rstrip() + "\n")


def text_of(value: Any) -> str:
    """Return a plain value as a cell, one line: "-" for none."""
    if isinstance(value, Shown):
        return value
    if value is None or value == "" or value == []:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(text_of, value))
    return visible(" ".join(str(value).split()))


def say(*lines: str) -> None:
    """Write lines of an answer for people to standard output."""
    sys.stdout.write("".join(visible(line) + "\n" for line in lines))


def note(sentence: str) -> None:
    """Write what is worth knowing, and not the answer, to standard error."""
    sys.stderr.write(visible(sentence) + "\n")


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: "1 topic", "2 topics"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def confirm(deed: str, *, is_yes: bool) -> None:
    """Ask before a deed that can't be undone ("deleting 2 topics"); return if it may be done.

    Raises:
        InvalidRequestError: Nobody is there to be asked, and --yes was not given.
        typer.Abort: The answer was no.
    """
    if is_yes:
        return
    if not sys.stdin.isatty():
        raise InvalidRequestError(
            f"{deed} can't be undone, and nobody is at a terminal to be asked: say --yes to have"
            " it done"
        )
    question = f"{deed[0].upper()}{deed[1:]} can't be undone. Go on?"
    typer.confirm(visible(question), abort=True, err=True)


class Steps:
    """How far something long has come."""

    def __init__(self, progress: Progress, task_id: Any) -> None:
        self._progress = progress
        self._task_id = task_id

    def advance(self, count: int = 1) -> None:
        """Say that `count` more are done."""
        self._progress.advance(self._task_id, count)


@contextmanager
def progress(words: str, total: int | None = None) -> Iterator[Steps]:
    """Show on standard error, if that is a terminal, how far something has come.

    Without a `total`, that it goes on.
    """
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    ]
    console = Console(stderr=True)
    is_drawn = console.is_terminal and not console.is_dumb_terminal
    with Progress(*columns, console=console, transient=True, disable=not is_drawn) as bar:
        yield Steps(bar, bar.add_task(words, total=total))
