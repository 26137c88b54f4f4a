"""Writes the answer of a call: tables for people, lines for pipes, JSON for scripts.

The answer goes to standard output; progress, notes and questions go to standard error. Both pass
through `visible`, since other people's names and values stand in them. One list of rows of plain
values makes the table and the JSON, so both say the same.
"""

import os
import shutil
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import islice
from typing import Any, Final

from kafka_on_spark.visible import visible, visible_json

Row = Mapping[str, Any]
Columns = str
"""Keys of rows, with blanks between. They are the titles of a table, too, in Kafka's spelling."""

ROWS_AT_ONCE: Final = 1000
"""Columns are aligned over so many rows: a long answer is written as it comes."""

PADDED_MAX: Final = 40
"""Columns of lines are aligned up to so many characters; a longer cell shifts its own line only."""

NOTHING: Final = "-"

PROGRESS_AFTER_S: Final = 2.0
"""What is done sooner shows no progress."""

REDRAWN_AFTER_S: Final = 0.5


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

    `words` say what is done for the rows, if that may take long: they are counted meanwhile, unless
    a pipe takes them, whose reader may write to the same terminal.
    """
    if output is Output.TABLE:
        write_table(columns, rows, words=words)
        return
    separator = "[\n  "
    for part in _parts(rows, words):
        for row in part:
            sys.stdout.write(separator + visible_json(row))
            separator = ",\n  "
    sys.stdout.write("[]\n" if separator.startswith("[") else "\n]\n")


def _parts(rows: Iterable[Row], words: str | None) -> Iterator[list[Row]]:
    """Yield rows in parts that are written at once; their progress is over by then."""
    remaining, count = iter(rows), 0
    is_shown = words is not None and (sys.stdout.isatty() or is_into_file())
    while True:
        part = []
        with progress(words or "", done=count, is_shown=is_shown) as steps:
            for row in islice(remaining, ROWS_AT_ONCE):
                part.append(row)
                steps.advance()
        if not part:
            return
        count += len(part)
        yield part


def write_table(columns: Columns, rows: Iterable[Row], *, words: str | None = None) -> None:
    """Write a table of one line a row, which is neither wrapped nor cut.

    A terminal gets no column that is empty in every row, and a block a row where it is too narrow
    for the table. `words` are as of `write_rows`.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    is_first = True
    for part in _parts(rows, words):
        cells = [
            [key.replace("_", "-").upper(), *(text_of(row.get(key)) for row in part)]
            for key in columns.split()
        ]
        if width is not None:
            cells = [column for column in cells if set(column[1:]) != {NOTHING}] or cells
        lines = _aligned(cells)
        if width is not None and max(map(len, lines)) > width:
            widest = max(len(column[0]) for column in cells)
            lines = [
                line
                for place in range(1, len(part) + 1)
                for line in (*(f"{each[0].ljust(widest)}  {each[place]}" for each in cells), "")
            ]
        elif not is_first:
            del lines[0]
        sys.stdout.write("".join(line + "\n" for line in lines))
        is_first = False


def _aligned(columns: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, given its columns with their titles."""
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
    if value is None or value == "" or value == []:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
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


class Steps:
    """The progress of a long call: how many steps are done, of how many if that is known."""

    def __init__(self, words: str, total: int | None, done: int) -> None:
        self._words = words
        self._total = total
        self._done = done

    def __str__(self) -> str:
        if not self._done:
            return self._words
        of = "" if self._total is None else f" of {self._total:,}"
        return f"{self._words}: {self._done:,}{of}"

    def advance(self, count: int = 1) -> None:
        """Count `count` more as done."""
        self._done += count

    def show(self, done: int, total: int) -> None:
        """Take so many of so many as done."""
        self._done, self._total = done, total

    def draw(self, is_over: threading.Event) -> None:
        """Show it in one line of standard error until it is over. Called by a thread of its own."""
        pause_s, shown = PROGRESS_AFTER_S, ""
        while not is_over.wait(pause_s):
            shown = str(self).ljust(len(shown))
            sys.stderr.write(f"\r{shown}")
            sys.stderr.flush()
            pause_s = REDRAWN_AFTER_S
        if shown:
            sys.stderr.write(f"\r{' ' * len(shown)}\r")


@contextmanager
def progress(
    words: str, total: int | None = None, *, done: int = 0, is_shown: bool = True
) -> Iterator[Steps]:
    """Show progress on standard error, if that is a terminal, and once it has lasted for
    PROGRESS_AFTER_S. `is_shown`: else it is not shown at all.

    A caller that writes to standard output meanwhile shows none if that is a terminal, too.
    """
    steps = Steps(words, total, done)
    if not (is_shown and sys.stderr.isatty()) or os.environ.get("TERM") == "dumb":
        yield steps
        return
    is_over = threading.Event()
    drawer = threading.Thread(target=steps.draw, args=(is_over,), daemon=True)
    drawer.start()
    try:
        yield steps
    finally:
        is_over.set()
        drawer.join()


def is_into_file() -> bool:
    """Return whether standard output is a file: nobody watches it, nor reads it elsewhere."""
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):
        return False  # closed, or no file at all, as in a test
