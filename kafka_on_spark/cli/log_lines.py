"""Lines of the log of a process of the command line: text or JSON, on standard error.

The library itself sets nothing up: its users have handlers of their own, or Python's last resort.
"""

import logging
import os
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.visible import visible, visible_json, visible_lines

LEVEL_VARIABLE: Final = "KAFKA_ON_SPARK_LOG_LEVEL"
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LOG: Final = logging.getLogger("kafka_on_spark")


class LogFormat(StrEnum):
    """How lines are written."""

    TEXT = "text"
    JSON = "json"


class TextFormatter(logging.Formatter):
    """Writes each record as one line of visible characters, and the lines of its traceback."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return a line."""
        return visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """Return the lines of a traceback."""
        return visible_lines(super().formatException(ei))


class JsonFormatter(TextFormatter):
    """Writes each record as one JSON object on one line, of visible ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line: time (UTC), level, logger, pid, thread, message, and error."""
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


def set_up(form: LogFormat = LogFormat.TEXT, level: str = "WARNING") -> None:
    """Have this process write its lines itself, from a level on, unless the variable says another
    one. Whatever handlers the root logger gets, they get none: py4j gives it one of its own.

    Raises:
        InvalidRequestError: The variable is none of the levels.
    """
    given = os.environ.get(LEVEL_VARIABLE, "").strip().upper() or level
    if given not in LEVELS:
        raise InvalidRequestError(
            f"{LEVEL_VARIABLE} can't be {given.lower()!r}: give one of {', '.join(LEVELS)}"
        )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form is LogFormat.JSON else TextFormatter())
    LOG.handlers = [handler]
    LOG.propagate = False
    LOG.setLevel(given)


def is_json() -> bool:
    """Return whether this process writes its lines as JSON."""
    return any(isinstance(each.formatter, JsonFormatter) for each in LOG.handlers)
