"""Writes the answer of a call: tables for people, lines for pipes, JSON for scripts.

The answer goes to standard output; progress, notes and questions go to standard error. Both pass
through `visible`, since other people's names and values stand in them. One list of rows of plain
values makes the table and the JSON, so both say the same.
"""

import os
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import typer

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.visible import visible, visible_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

Row = Mapping[str, Any]
Columns = Mapping[str, str]
"""Keys of rows, and their titles, in the order of a table's columns."""

ROWS_AT_ONCE: Final = 1000
"""Columns are aligned over so many rows: a long answer is written as it comes."""

PADDED_MAX: Final = 40
"""Columns of lines are aligned up to so many characters; a longer cell shifts its own line only."""

UNFOLDED_MAX: Final = 24
"""At a terminal, a cell of up to so many characters stays on one line; a longer one is folded."""

GAP: Final = 2
"""Characters between columns at a terminal."""

NOTHING: Final = "-"

PROGRESS_AFTER_S: Final = 2.0
"""What is done sooner shows no progress."""


class Shown(str):
    """A cell that is written unchanged: every character is visible, and blanks count."""

    __slots__ = ()


class Output(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    JSON = "json"


def write_json(answer: Any) -> None:
    """Write plain values to standard output."""
    sys.stdout.write(visible_json(answer, indent=2) + "\n")


def write_rows(
    output: Output, columns: Columns, rows: Iterable[Row], *, words: str | None = None
) -> None:
    """Write rows: all keys as JSON, or only `columns` as a table.

    `words` say what is done for the rows, if that may take long: they are counted meanwhile.
    """
    if words is not None and is_into_file():
        with progress(words) as steps:
            write_rows(output, columns, _counted(rows, steps))
    elif output is Output.JSON:
        _write_json_rows(rows)
    else:
        write_table(columns, rows, words=words)


def _counted(rows: Iterable[Row], steps: "Steps") -> Iterator[Row]:
    for row in rows:
        yield row
        steps.advance()


def _write_json_rows(rows: Iterable[Row]) -> None:
    """Write a JSON array row by row, without holding all of it."""
    separator = "[\n  "
    for row in rows:
        sys.stdout.write(separator + visible_json(row))
        separator = ",\n  "
    sys.stdout.write("[]\n" if separator.startswith("[") else "\n]\n")


def write_table(columns: Columns, rows: Iterable[Row], *, words: str | None = None) -> None:
    """Write a table; a pipe gets one line a row, neither wrapped nor cut. `words` are as of
    `write_rows`."""
    remaining = iter(rows)
    is_terminal = sys.stdout.isatty()
    write = _draw if is_terminal else _write_lines
    waited_for = words if is_terminal else None
    part = _next_part(remaining, waited_for)
    is_first = True
    while part:
        write(columns, part, is_first)
        is_first = False
        part = _next_part(remaining, waited_for)


def _next_part(rows: Iterator[Row], words: str | None) -> list[Row]:
    """Return the rows that are written next. Progress is over by then: a terminal shows both."""
    part = islice(rows, ROWS_AT_ONCE)
    if words is None:
        return list(part)
    with progress(words) as steps:
        return list(_counted(part, steps))


def _draw(columns: Columns, rows: Sequence[Row], is_first: bool) -> None:
    """Draw a table in the terminal's width, without columns that are empty in every row.

    Only long cells are folded. A table that is still too wide is written as one block a row.
    """
    # In the function: rich is for terminals, and most calls of scripts write to pipes.
    from rich.console import Console

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
    _print_table(console, titles, rows, cells, widths, is_first)


def _print_table(
    console: "Console",
    titles: Columns,
    rows: Sequence[Row],
    cells: Mapping[str, Sequence[str]],
    widths: Mapping[str, int],
    is_first: bool,
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=SIMPLE_HEAD, show_header=is_first, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for key, title in titles.items():
        is_number = all(type(row.get(key)) in (int, float, type(None)) for row in rows)
        table.add_column(
            title,
            justify="right" if is_number else "left",
            overflow="fold",
            # Columns without a width share the rest.
            width=widths[key] if widths[key] < UNFOLDED_MAX else None,
        )
    for texts in zip(*(cells[key] for key in titles), strict=True):
        table.add_row(*map(Text, texts))
    console.print(table)


def _widths(titles: Columns, cells: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the least widths of columns, with short cells whole and long cells folded."""
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
    """Return a plain value as a cell of one line; an empty value is "-"."""
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
    """Write lines of the answer to standard output."""
    sys.stdout.write("".join(visible(line) + "\n" for line in lines))


def note(sentence: str) -> None:
    """Write a remark, which is not part of the answer, to standard error."""
    sys.stderr.write(visible(sentence) + "\n")


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: "1 topic", "2 topics"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def confirm(deed: str, *, is_yes: bool) -> None:
    """Ask before a deed that can't be undone ("deleting 2 topics"); return if the answer is yes.

    Raises:
        InvalidRequestError: There is no terminal to ask at, and --yes was not given.
        typer.Abort: The answer was no.
    """
    if is_yes:
        return
    if not sys.stdin.isatty():
        raise InvalidRequestError(
            f"{deed} can't be undone, and there is no terminal to ask at: give --yes to do it"
        )
    question = f"{deed[0].upper()}{deed[1:]} can't be undone. Go on?"
    typer.confirm(visible(question), abort=True, err=True)


class Steps:
    """The progress of a long call. Nobody watches it until it is drawn."""

    def __init__(self, total: int | None = None) -> None:
        self._done = 0
        self._total = total
        self._bar: Progress | None = None
        self._task_id: Any = None

    def advance(self, count: int = 1) -> None:
        """Show that `count` more are done."""
        self._done += count
        self._refresh()

    def show(self, done: int, total: int) -> None:
        """Show that so many of so many are done."""
        self._done, self._total = done, total
        self._refresh()

    def draw(self, words: str, are_bytes: bool) -> None:
        """Draw it from now on, if the terminal can. Called by a thread of its own."""
        bar = _bar(are_bytes)
        if bar is not None:
            self._task_id = bar.add_task(words, total=self._total)
            self._bar = bar
            self._refresh()  # what was done before anybody watched
            bar.start()

    def end(self) -> None:
        """Draw it no more."""
        if self._bar is not None and self._bar.live.is_started:
            self._bar.stop()

    def _refresh(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task_id, completed=self._done, total=self._total)


@contextmanager
def progress(
    words: str, total: int | None = None, *, are_bytes: bool = False, is_shown: bool = True
) -> Iterator[Steps]:
    """Show progress on standard error, if that is a terminal, and once it has lasted for
    PROGRESS_AFTER_S; without a `total`, just a bar. `is_shown`: else it is not shown at all.

    What is written to standard output meanwhile goes there, and nowhere near the bar: a caller that
    writes some shows none if that is a terminal, too.
    """
    steps = Steps(total)
    if not (is_shown and sys.stderr.isatty()):
        yield steps
        return
    # What draws it is imported only then: most calls are over sooner.
    starter = threading.Timer(PROGRESS_AFTER_S, steps.draw, (words, are_bytes))
    starter.daemon = True
    starter.start()
    try:
        yield steps
    finally:
        starter.cancel()
        starter.join()
        steps.end()


def _bar(are_bytes: bool) -> "Progress | None":
    """Return a bar on standard error; None: the terminal can't draw one."""
    # In the function: rich is for terminals, and most calls of scripts have none.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn() if are_bytes else MofNCompleteColumn(),
        TimeElapsedColumn(),
    ]
    return Progress(*columns, console=console, transient=True, redirect_stdout=False)


def is_into_file() -> bool:
    """Return whether standard output is a file: nobody watches it, nor reads it elsewhere."""
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):
        return False  # closed, or no file at all, as in a test
