"""Decides where this package's log lines go, and from which level on, in all of its processes.

Most events happen in processes that a user did not start and can't configure: Spark's planners,
stream runners and executors. So one environment variable, which they inherit, sets the level in all
of them, and lines without another handler go to standard error, each with the kind and the id of
its process. If a process has handlers of its own (a notebook's, a job's, pytest's), they get the
lines, and this module writes none. A second variable makes each line a JSON object, for programs
that collect them.
"""

import logging
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, Final, TextIO

from kafka_on_spark.visible import visible, visible_json, visible_lines

LEVEL_VARIABLE: Final = "KAFKA_ON_SPARK_LOG_LEVEL"
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FORMAT_VARIABLE: Final = "KAFKA_ON_SPARK_LOG_FORMAT"
TEXT: Final = "text"
JSON: Final = "json"
FORMATS: Final = (TEXT, JSON)
NAME: Final = __name__.partition(".")[0]

DRIVER: Final = "driver"
PLANNER: Final = "planner"
_PLANNERS: Final = "pyspark.sql.worker."
_KINDS: Final = {
    "pyspark.worker": "executor",
    "pyspark.sql.streaming.python_streaming_source_runner": "stream source",
    "pyspark.sql.worker.python_streaming_sink_runner": "stream sink",
    "pyspark.sql.worker.commit_data_source_write": "commit",
}


def process_kind(arguments: list[str]) -> str:
    """Return the kind of a process, by its `sys.argv`: Spark's daemons name the module they run.

    A process that Spark has not started is a driver: a notebook, a job, the command line.
    """
    if not arguments:
        return DRIVER
    path = PurePath(arguments[0])
    if path.parts[-2:] == ("pyspark", "daemon.py"):
        module = arguments[1] if len(arguments) > 1 else "pyspark.worker"
    elif "pyspark" in path.parts:
        start = len(path.parts) - 1 - path.parts[::-1].index("pyspark")
        module = ".".join((*path.parts[start:-1], path.stem))
    else:
        return DRIVER
    if module in _KINDS:
        return _KINDS[module]
    return PLANNER if module.startswith(_PLANNERS) else DRIVER


class UnheardHandler(logging.StreamHandler[TextIO]):
    """Writes lines without another handler to standard error, as Python's own last resort does."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, unless another handler has it."""
        if not self._is_heard(record.name):
            self.stream = sys.stderr  # the current one: notebooks and tests replace it
            super().emit(record)

    def _is_heard(self, name: str) -> bool:
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(
                handler is not self and not isinstance(handler, logging.NullHandler)
                for handler in logger.handlers
            ):
                return True
            logger = logger.parent if logger.propagate else None
        return False


Factory = Callable[..., logging.LogRecord]


def with_visible_messages(create: Factory) -> Factory:
    """Return a factory of log records like `create`, whose messages of ours are one visible line.

    Any handler may show a record: the factory is the one place that all handlers share.
    """

    def created(name: str, *rest: Any, **named: Any) -> logging.LogRecord:
        record = create(name, *rest, **named)
        if name == NAME or name.startswith(f"{NAME}."):
            try:
                message = record.getMessage()
            except (TypeError, ValueError):
                return record  # its arguments don't fit: the handler that writes it reports that
            if visible(message) != message:
                record.msg, record.args = visible(message), None
        return record

    return created


class VisibleFormatter(logging.Formatter):
    """Writes tracebacks with visible characters only; messages have them already."""

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """Return the lines of a traceback."""
        return visible_lines(super().formatException(ei))


class JsonFormatter(VisibleFormatter):
    """Writes each record as one JSON object on one line, of visible ASCII."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def format(self, record: logging.LogRecord) -> str:
        """Return a line: time (UTC), level, logger, process, pid, thread, message, and error."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": self._kind,
            "pid": record.process,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return visible_json(line)


def formatter(name: str) -> logging.Formatter:
    """Return what writes this process's lines, as TEXT or JSON."""
    kind = process_kind(sys.argv)
    if name == JSON:
        return JsonFormatter(kind)
    return VisibleFormatter(f"%(asctime)s %(levelname)s [{kind} %(process)d] %(name)s: %(message)s")


def write_as(name: str) -> None:
    """Have this process, and those that it starts, write lines as TEXT or JSON."""
    os.environ[FORMAT_VARIABLE] = name
    for handler in logging.getLogger(NAME).handlers:
        if isinstance(handler, UnheardHandler):
            handler.setFormatter(formatter(name))


def write_alone() -> None:
    """Have this process write its lines itself from now on, whatever other handlers it gets: py4j
    gives the root logger one, of a form of its own, as soon as a JVM has ended."""
    logging.getLogger(NAME).propagate = False


def is_json() -> bool:
    """Return whether this process writes its lines as JSON."""
    return os.environ.get(FORMAT_VARIABLE, "").strip().lower() == JSON


def set_up() -> None:
    """Set the level and the handler of this package's logger; a second call changes nothing.

    An unknown level is reported, and Python's default stays: WARNING. So is an unknown format.
    """
    logger = logging.getLogger(NAME)
    if any(isinstance(handler, UnheardHandler) for handler in logger.handlers):
        return
    logging.setLogRecordFactory(with_visible_messages(logging.getLogRecordFactory()))
    handler = UnheardHandler()
    given = os.environ.get(FORMAT_VARIABLE, "").strip().lower()
    handler.setFormatter(formatter(given))
    logger.addHandler(handler)
    if given not in ("", *FORMATS):
        logger.warning("%s can't be %r: give one of %s", FORMAT_VARIABLE, given, ", ".join(FORMATS))
    level = os.environ.get(LEVEL_VARIABLE, "").strip().upper()
    if level in LEVELS:
        logger.setLevel(level)
    elif level:
        logger.warning(
            "%s can't be %r: give one of %s", LEVEL_VARIABLE, level.lower(), ", ".join(LEVELS)
        )
