"""Where this package's log lines go, and from which level on: one way for all of its processes.

Most of what is worth knowing happens in processes that a user did not start and can't configure:
Spark's planners, stream runners and executors. So one environment variable, which they inherit,
sets the level in all of them, and lines that nobody else takes go to standard error, each with
the kind and the number of its process. Where a process has handlers of its own (a notebook's, a
job's, pytest's), they get the lines, and nothing is written here.
"""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Final, TextIO

from kafka_on_spark.visible import visible, visible_lines

LEVEL_VARIABLE: Final = "KAFKA_ON_SPARK_LOG_LEVEL"
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
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
    """Return what a process is, by its `sys.argv`: Spark's daemons name the module they work for.

    Whatever Spark has not started for Python is a driver: a notebook, a job, the command line.
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
    """Writes to standard error what no other handler takes, as Python's own last resort does."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, unless another handler has it."""
        if not self._is_heard(record.name):
            self.stream = sys.stderr  # of now: notebooks and tests put another in its place
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


def with_visible_messages(make: Factory) -> Factory:
    """Return what makes records as `make` does, and of ours with visible messages of one line.

    A record is shown by whatever handlers a process has: of all that they have in common, this is
    the one place that sees the names in it.
    """

    def made(name: str, *rest: Any, **named: Any) -> logging.LogRecord:
        record = make(name, *rest, **named)
        if name == NAME or name.startswith(f"{NAME}."):
            try:
                message = record.getMessage()
            except (TypeError, ValueError):
                return record  # its arguments don't fit: the handler that writes it says so
            if visible(message) != message:
                record.msg, record.args = visible(message), None
        return record

    return made


class VisibleFormatter(logging.Formatter):
    """Writes tracebacks as `visible` has it; messages are so already."""

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """Return the lines of a traceback."""
        return visible_lines(super().formatException(ei))


def set_up() -> None:
    """Give this process's logger its level and its way to standard error; once is enough.

    A level that is none is said, and leaves Python's: WARNING.
    """
    logger = logging.getLogger(NAME)
    if any(isinstance(handler, UnheardHandler) for handler in logger.handlers):
        return
    logging.setLogRecordFactory(with_visible_messages(logging.getLogRecordFactory()))
    handler = UnheardHandler()
    kind = process_kind(sys.argv)
    words = f"%(asctime)s %(levelname)s [{kind} %(process)d] %(name)s: %(message)s"
    handler.setFormatter(VisibleFormatter(words))
    logger.addHandler(handler)
    level = os.environ.get(LEVEL_VARIABLE, "").strip().upper()
    if level in LEVELS:
        logger.setLevel(level)
    elif level:
        logger.warning(
            "%s can't be %r: give one of %s", LEVEL_VARIABLE, level.lower(), ", ".join(LEVELS)
        )
