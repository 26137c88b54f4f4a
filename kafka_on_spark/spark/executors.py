"""Whether Spark's executors can run our tasks, and one sentence on what to do where they can't.

Apart from the tasks, because it runs where those can't even be imported: whatever goes to
executors is pickled within a function that is sent by value, which looks at what is installed
there before it unpickles the rest. A session on a cluster is asked once, before its first task.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import WeakSet

import deltalake
import pyarrow as pa
from pyspark import cloudpickle

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.version import __version__

if TYPE_CHECKING:
    from pyspark import SparkContext

Argument = TypeVar("Argument")
Answer = TypeVar("Answer")

WANTED: Final = {
    "kafka_on_spark": __version__,
    "deltalake": deltalake.__version__,
    "pyarrow": pa.__version__,
}
"""What executors must have, as this process has it: one that writes otherwise must not write."""

ADVICE: Final = (
    f"install kafka_on_spark {__version__} there (by pip, or in the executors' image), or send an"
    " environment along (--archives environment.tar.gz#environment, with"
    " PYSPARK_PYTHON=./environment/bin/python), or, where Spark runs on this machine alone, import"
    " kafka_on_spark before the session is made: see docs/clusters-and-stores.md"
)

PROBES_MAX: Final = 64
"""Tasks of the first look: one a core, so that Spark gives each executor one, up to a bound."""

_SENTENCE: Final = re.compile(r"(?:the executor on \S+ can't run .*|executors can't be .*)")
_NO_PYTHON: Final = re.compile(r'Cannot run program "([^"]+)"')
_NO_MODULE: Final = re.compile(r"finding module specification for '(pyspark)\.")
_MISMATCH: Final = re.compile(r"different version: ([\d.]+) than that in driver: ([\d.]+)")

_checked: "WeakSet[SparkContext]" = WeakSet()


Look = Callable[[Mapping[str, str], str], str | None]
Load = Callable[[Mapping[str, str], str, bytes], Any]


def _looking() -> Look:
    """Return `look`. Nested, since a module's own functions are pickled as their names."""

    def look(wanted: Mapping[str, str], advice: str) -> str | None:
        """Say why this process can't run our tasks, if so."""
        import importlib
        import platform
        import socket
        import sys

        found = []
        for name, version in wanted.items():
            try:
                there = getattr(importlib.import_module(name), "__version__", "of no version")
            except ModuleNotFoundError as error:
                found.append(f"has no {error.name}")
                break
            except Exception as error:  # whatever an import raises there is what is wrong
                found.append(f"can't import {name} ({type(error).__name__}: {error})")
                break
            if there != version:
                found.append(f"has {name} {there}, and the driver {version}")
        if not found:
            return None
        python = f"{sys.executable}, Python {platform.python_version()}"
        return (
            f"the executor on {socket.gethostname()} can't run tasks of kafka_on_spark, because"
            f" its Python ({python}) {' and '.join(found)}: {advice}"
        )

    return look


def _loading(look: Look) -> Load:
    """Return `load`; nested as well."""

    def load(wanted: Mapping[str, str], advice: str, payload: bytes) -> Any:
        """Return what was pickled, where it can be; an ImportError says why it can't."""
        import pickle

        problem = look(wanted, advice)
        if problem is not None:
            raise ImportError(problem)
        from kafka_on_spark.spark.worker_process import settle

        settle()
        return pickle.loads(payload)

    return load


_look = _looking()
_load = _loading(_look)


class ExecutorTask(Generic[Argument, Answer]):
    """A task to be sent to executors: it says in one sentence where it can't be imported."""

    def __init__(self, run: Callable[[Argument], Answer]) -> None:
        self._run = run

    def __call__(self, argument: Argument) -> Answer:
        return self._run(argument)

    def __reduce__(self) -> tuple[Any, ...]:
        return _sent(self._run)


class SentToExecutors:
    """A base of what Spark itself pickles for executors: as above."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _sent(_Plain(self))


class _Plain:
    """Pickles an object as Python would, had its class no way of its own."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self._value), self._value.__getstate__())


def _rebuild(kind: type, state: dict[str, object] | None) -> object:
    value: Any = object.__new__(kind)
    value.__dict__.update(state or {})
    return value


def _sent(value: object) -> tuple[Load, tuple[dict[str, str], str, bytes]]:
    return _load, (WANTED, ADVICE, cloudpickle.dumps(value))  # type: ignore[no-untyped-call]


def check_executors(context: "SparkContext") -> None:
    """Check once a session that its executors have this package, by a task a core.

    In local mode this process is the executors' host, and nothing is asked: each task checks for
    itself. So does one on an executor that comes later.

    Raises:
        InvalidRequestError: An executor lacks the package, or has another version of it.
    """
    if context in _checked or is_local(context.master):
        return
    look, wanted, advice = _look, dict(WANTED), ADVICE

    def probe(_: Iterable[int]) -> Iterable[str | None]:
        return [look(wanted, advice)]

    tasks = min(context.defaultParallelism, PROBES_MAX)
    with clear_errors():
        answers = context.parallelize(range(tasks), tasks).mapPartitions(probe).collect()
    problem = next((each for each in answers if each is not None), None)
    if problem is not None:
        raise InvalidRequestError(problem)
    _checked.add(context)


def is_local(master: str | None) -> bool:
    """Return whether executors are threads of the driver's JVM."""
    return master is not None and (master == "local" or master.startswith("local["))


@contextmanager
def clear_errors() -> Iterator[None]:
    """Raise one sentence in place of the traces of tasks that had no fit Python to run in.

    Raises:
        InvalidRequestError: That was it. Whatever else failed is raised as it is.
    """
    try:
        yield
    except Exception as error:
        sentence = sentence_in(str(error))
        if sentence is None:
            raise
        raise InvalidRequestError(sentence) from error


def sentence_in(trace: str) -> str | None:
    """Return what a failed job says of the executors' Python, if that is why it failed."""
    if said := _SENTENCE.search(trace):
        return said[0]
    if missing := _NO_PYTHON.search(trace):
        return f"executors can't be used, because there is no program {missing[1]!r}: {ADVICE}"
    if missing := _NO_MODULE.search(trace):
        return f"executors can't be used, because their Python has no {missing[1]}: {ADVICE}"
    if versions := _MISMATCH.search(trace):
        return (
            f"executors can't be used, because their Python is {versions[1]} and the driver's"
            f" {versions[2]}: {ADVICE}"
        )
    return None
