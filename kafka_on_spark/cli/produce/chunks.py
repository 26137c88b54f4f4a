"""Reads input by chunks of whole lines, with bounded memory.

While a chunk is appended nothing is read, so a pipe fills up, and its writer waits. A chunk is what
has come `linger_ms` after its first byte; of input that comes faster than it is read, as much as
one append takes.
"""

import os
import select
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.storage.calls.clock import SystemClock

READ_BYTES: Final = 2**20
GATHER_MS_MAX: Final = 100
"""How long a chunk may gather while there is always more to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When a chunk ends.

    Attributes:
        linger_ms: So long after its first byte, if no more is there. Source: linger.ms.
        chunk_bytes: At so many bytes. Source: batch.size.
        line_bytes_max: A longer line can be no record, and is not read to its end.
    """

    linger_ms: int
    chunk_bytes: int
    line_bytes_max: int


class LongLineError(Exception):
    """A line is longer than any record."""


def line_chunks(descriptor: int, pace: Pace) -> Iterator[list[bytes]]:
    r"""Yield the lines of a file or a pipe, some at a time; the last need not end in \n.

    Raises:
        LongLineError: The next line is too long; those before it were yielded.
        OSError: The system can't read it.
    """
    rest = bytearray()
    is_end = False
    while not is_end:
        is_end = _gather(descriptor, rest, pace)
        lines = _whole_lines(rest)
        if lines:
            yield lines
        if len(rest) > pace.line_bytes_max:
            raise LongLineError
    if rest:
        yield [bytes(rest)]


def _whole_lines(rest: bytearray) -> list[bytes]:
    """Take the whole lines from the front of `rest`, which keeps the last one's beginning."""
    end = rest.rfind(b"\n")
    if end < 0:
        return []
    with memoryview(rest) as view:
        lines = bytes(view[:end]).split(b"\n")
    del rest[: end + 1]
    return lines


def without_returns(lines: list[bytes]) -> list[bytes]:
    r"""Return lines without the \r that ends them where lines end in \r\n."""
    if not any(map(_ends_in_return, lines)):
        return lines
    return [each[:-1] if _ends_in_return(each) else each for each in lines]


def _ends_in_return(line: bytes) -> bool:
    return line[-1:] == b"\r"


def _gather(descriptor: int, rest: bytearray, pace: Pace) -> bool:
    """Read a chunk's bytes into `rest`; return whether the input is at its end."""
    clock = SystemClock()
    more = select.poll()
    more.register(descriptor, select.POLLIN)
    read_bytes = 0
    first_at_ms = None
    while read_bytes < pace.chunk_bytes:
        part = os.read(descriptor, READ_BYTES)
        if not part:
            return True
        now_ms = clock.monotonic_ms()
        first_at_ms = now_ms if first_at_ms is None else first_at_ms
        rest += part
        read_bytes += len(part)
        waited_ms = now_ms - first_at_ms
        if waited_ms >= max(GATHER_MS_MAX, pace.linger_ms):
            break
        if not more.poll(max(pace.linger_ms - waited_ms, 0)):
            break
    return False
