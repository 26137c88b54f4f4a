"""What `produce` reads: lines of standard input and of files, or whole files, in chunks with names.

The names are for errors: a person finds line 7,003 of a file.
"""

import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from errno import EISDIR
from typing import Final

from kafka_on_spark.cli.call.interrupts import Interrupts
from kafka_on_spark.cli.produce.chunks import (
    READ_BYTES,
    LongLineError,
    Pace,
    line_chunks,
    without_returns,
)
from kafka_on_spark.errors import InvalidRequestError, MessageTooLargeError

STANDARD_INPUT: Final = "standard input"
PROMPT: Final = ">"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some lines, or some whole files.

    Attributes:
        parts: Their bytes.
        name: Returns what people call the parts from one place to another (inclusive).
    """

    parts: list[bytes]
    name: Callable[[int, int], str]

    @property
    def size_bytes(self) -> int:
        """About how much of the input they are, with a byte that ends each."""
        return sum(map(len, self.parts)) + len(self.parts)


def lines_of(paths: Sequence[str], pace: Pace, interrupts: Interrupts) -> Iterator[Chunk]:
    r"""Yield the lines of files, one file after the other; "-" is standard input. Lines end in \n
    or \r\n.

    Raises:
        InvalidRequestError: A file can't be read.
        MessageTooLargeError: A line is longer than any record may be.
        KeyboardInterrupt: Somebody has interrupted the wait for more.
    """
    for path in paths:
        name = STANDARD_INPUT if path == "-" else path
        descriptor = _opened(path)
        chunks = line_chunks(descriptor, pace)
        first = 1
        try:
            while True:
                _prompt(descriptor)
                with interrupts.waiting():
                    lines = next(chunks, None)
                if lines is None:
                    break
                yield Chunk(parts=without_returns(lines), name=_line_names(name, first))
                first += len(lines)
        except LongLineError:
            raise MessageTooLargeError(
                f"line {first:,} of {name} has more than {pace.line_bytes_max:,} bytes, which no"
                " record of the topic may have: make it smaller, or raise the topic's"
                " max.message.bytes"
            ) from None
        except OSError as error:
            raise _unreadable(name, error) from None
        finally:
            if path != "-":
                os.close(descriptor)


def _line_names(name: str, number: int) -> Callable[[int, int], str]:
    def names(first: int, last: int) -> str:
        if first == last:
            return f"line {number + first:,} of {name}"
        return f"lines {number + first:,} to {number + last:,} of {name}"

    return names


def files_as_values(paths: Sequence[str], pace: Pace, interrupts: Interrupts) -> Iterator[Chunk]:
    """Yield whole files, several small ones in a chunk; those before one that can't be read, too.

    Raises: as `lines_of`.
    """
    parts: list[bytes] = []
    first = 0
    for number, path in enumerate(paths):
        try:
            with interrupts.waiting():
                content = _content(path, pace.line_bytes_max)
        except (InvalidRequestError, MessageTooLargeError):
            if parts:
                yield Chunk(parts=parts, name=_file_names(paths[first:number]))
            raise
        parts.append(content)
        if sum(map(len, parts)) >= pace.chunk_bytes or number == len(paths) - 1:
            yield Chunk(parts=parts, name=_file_names(paths[first : number + 1]))
            parts, first = [], number + 1


def _file_names(paths: Sequence[str]) -> Callable[[int, int], str]:
    def names(first: int, last: int) -> str:
        return paths[first] if first == last else f"{paths[first]} to {paths[last]}"

    return names


def _content(path: str, bytes_max: int) -> bytes:
    descriptor = _opened(path)
    content = bytearray()
    try:
        while len(content) <= bytes_max and (part := os.read(descriptor, READ_BYTES)):
            content += part
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        if path != "-":
            os.close(descriptor)
    if len(content) > bytes_max:
        raise MessageTooLargeError(
            f"{path} has more than {bytes_max:,} bytes, which no record of the topic may have: give"
            " --lines to append its lines, or raise the topic's max.message.bytes"
        )
    return bytes(content)


def check_readable(paths: Sequence[str]) -> None:
    """Check files before the first append; of a pipe the writer would take that for its end.

    Raises:
        InvalidRequestError: One can't be opened, or is a folder, which the system opens as well.
    """
    for path in paths:
        if path != "-" and not _is_pipe(path):
            descriptor = _opened(path)
            is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
            os.close(descriptor)
            if is_folder:
                raise _unreadable(path, IsADirectoryError(EISDIR, os.strerror(EISDIR)))


def bytes_of(paths: Sequence[str]) -> int | None:
    """Return how many bytes there are to read; None: nobody knows, since one is a pipe."""
    found = [_status(path) for path in paths]
    if not all(each is not None and stat.S_ISREG(each.st_mode) for each in found):
        return None
    return sum(each.st_size for each in found if each is not None)


def is_typed(paths: Sequence[str]) -> bool:
    """Return whether a person types some of it, at a terminal."""
    found = [_status(path) for path in paths]
    return any(each is not None and stat.S_ISCHR(each.st_mode) for each in found)


def _is_pipe(path: str) -> bool:
    status = _status(path)
    return status is not None and stat.S_ISFIFO(status.st_mode)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.fstat(sys.stdin.fileno()) if path == "-" else os.stat(path)
    except (AttributeError, OSError, ValueError):
        return None  # closed, or no file at all, as in a test: the first read says why


def _opened(path: str) -> int:
    if path == "-" and sys.stdin is None:
        raise InvalidRequestError(f"{STANDARD_INPUT} can't be read: it is closed")
    try:
        return sys.stdin.fileno() if path == "-" else os.open(path, os.O_RDONLY)
    except (OSError, ValueError) as error:
        raise _unreadable(STANDARD_INPUT if path == "-" else path, error) from None


def _unreadable(name: str, error: Exception) -> InvalidRequestError:
    why = getattr(error, "strerror", None) or error
    return InvalidRequestError(f"{name} can't be read: {why}")


def _prompt(descriptor: int) -> None:
    if os.isatty(descriptor) and sys.stderr.isatty():
        sys.stderr.write(PROMPT)
        sys.stderr.flush()
