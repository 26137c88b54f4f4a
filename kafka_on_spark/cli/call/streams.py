"""The streams of a call's process: an output that is closed goes nowhere, and one that takes no
more is waited for.

Whether a pipe or a terminal is non-blocking, all processes that have it decide: ssh and Node.js
make it so for the others. Python's buffer then drops what the system does not take.
"""

import io
import os
import select
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

READABLE: Final = select.POLLIN
WRITABLE: Final = select.POLLOUT


class WaitingWriter(io.BufferedWriter):
    """Writes to a file that is waited for as long as it takes nothing.

    Over the buffer and not below it: what a file below it has taken when a signal's handler raises
    is known there alone, and would be written again.
    """

    def write(self, content: "ReadableBuffer", /) -> int:
        """Write all of `content`, or put it into the buffer; return how many bytes."""
        left = memoryview(content).cast("B")
        count = len(left)
        while True:
            try:
                super().write(left)
            except BlockingIOError as full:
                left = left[full.characters_written :]
            else:
                return count
            await_ready(self.fileno(), WRITABLE)

    def flush(self) -> None:
        """Write what is in the buffer."""
        while True:
            try:
                return super().flush()
            except BlockingIOError:
                await_ready(self.fileno(), WRITABLE)


def await_ready(descriptor: int, event: int, timeout_ms: float | None = None) -> bool:
    """Wait until one can read or write, or until it is clear that one never can; return False if
    that is not so within the time."""
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(timeout_ms))


def read_some(descriptor: int, bytes_max: int) -> bytes:
    """Return what there is to read, once there is something; empty: the end.

    Raises:
        OSError: The system can't read it.
    """
    while True:
        try:
            return os.read(descriptor, bytes_max)
        except BlockingIOError:
            await_ready(descriptor, READABLE)


def filled(outputs: Sequence[TextIO | None]) -> list[TextIO]:
    """Return standard output and standard error, as Python has made them, as a call writes to them.

    Else a file that is opened gets the number of an output that is closed, and whatever writes to
    the output writes to that.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    return [_waiting(number, given) for number, given in enumerate(outputs, 1)]


def _waiting(number: int, given: TextIO | None) -> TextIO:
    if given is not None:
        with suppress(OSError):  # Python tells of what is left in it at the end
            given.flush()  # what was written before comes first
    file = io.FileIO(number, "w", closefd=False)
    is_at_once = isinstance(given, io.TextIOWrapper) and given.write_through  # python -u
    return io.TextIOWrapper(
        WaitingWriter(file),
        encoding=None if given is None else given.encoding,
        errors=None if given is None else given.errors,
        line_buffering=number == 2 or is_at_once or file.isatty(),
    )
