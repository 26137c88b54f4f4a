"""The process of a call: its outputs, the lines of its log, the signals that end it.

The library itself sets nothing up: its users have handlers of their own, or Python's last resort.

An interrupt ends a wait at once. Work under way is finished first, so that it has an answer; a
second interrupt ends that, too. A signal that is ignored stays ignored: SIGHUP under nohup, SIGINT
in what a script starts with &. Source: HotSpot's shutdown signals. SIGHUP is never a second one:
the end of one terminal may send it twice, from the shell and from the system.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import Any, Final, Self

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.text import visible, visible_json, visible_lines

LEVEL_VARIABLE: Final = "KAFKA_ON_SPARK_LOG_LEVEL"
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LOG: Final = logging.getLogger("kafka_on_spark")
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def open_outputs() -> None:
    """Have outputs that are closed go nowhere: otherwise a file that is opened gets the number of
    one, and whatever writes to the output writes to that file. Have those that another process has
    made non-blocking, as ssh does, wait for their reader."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
        if number and getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", closefd=False))
        os.set_blocking(number, True)


class TextFormatter(logging.Formatter):
    """Writes each record as one line of visible characters, and the lines of its traceback."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return visible_lines(super().formatException(ei))


class JsonFormatter(TextFormatter):
    """Writes each record as one JSON object on one line, of visible ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "pid": record.process,
            "thread": record.threadName,
            "message": visible(record.getMessage()),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return visible_json(line)


FORMATTERS: Final = {"text": TextFormatter, "json": JsonFormatter}


def set_up(form: str = "text", level: str = "WARNING") -> None:
    """Have this process write its lines itself, from a level on, unless the variable says another
    one. Whatever handlers the root logger gets, they get none: py4j gives it one of its own."""
    if form not in FORMATTERS:
        raise InvalidRequestError(f"--log-format can't be {form!r}: give text or json")
    given = os.environ.get(LEVEL_VARIABLE, "").strip().upper() or level
    if given not in LEVELS:
        raise InvalidRequestError(
            f"{LEVEL_VARIABLE} can't be {given.lower()!r}: give one of {', '.join(LEVELS)}"
        )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATTERS[form]())
    LOG.handlers = [handler]
    LOG.propagate = False
    LOG.setLevel(given)


def is_json() -> bool:
    return any(isinstance(each.formatter, JsonFormatter) for each in LOG.handlers)


class Interrupts:
    """Takes these signals while it is entered; in another thread than the main one it does nothing.

    `then` is called by the first one, in place of an interrupt, and a second one ends the process
    at once, whatever hangs. It may not take a lock, which the main thread may hold.

    Attributes:
        code: The exit code of a process that the signal ends; None: none has come.
    """

    def __init__(self, then: Callable[[], object] | None = None) -> None:
        self.code: int | None = None
        self._then = then
        self._is_waiting = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            taken = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
            self._before = {each: signal.signal(each, self._take) for each in taken}
        return self

    def __exit__(self, *_: object) -> None:
        for each, before in self._before.items():
            signal.signal(each, before)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Within it, an interrupt raises KeyboardInterrupt; so does one that came before."""
        self._is_waiting = True
        try:
            if self.code is not None:
                raise KeyboardInterrupt
            yield
        finally:
            self._is_waiting = False

    def _take(self, number: int, frame: FrameType | None) -> None:
        is_second = self.code is not None
        if is_second and number == signal.SIGHUP:
            return
        self.code = 128 + number
        if self._then is not None:
            if is_second:
                os._exit(self.code)
            self._then()
        elif self._is_waiting or is_second:
            raise KeyboardInterrupt
