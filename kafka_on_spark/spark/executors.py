"""Checks that Spark's executors can run our tasks, and says in one sentence what to do if not.

Apart from the tasks, because it runs where those can't even be imported. Each task is pickled
inside a function that is sent by value; on the executor this function checks the installed packages
before it unpickles the task.

It also keeps Spark's Python workers from collecting garbage among all imported modules after every
task. pyspark's daemon calls `gc.collect()` after each task of a worker that it keeps. That takes 30
to 40 ms of processor time in each of the four processes of a write, and the next process waits for
it. `gc.freeze()` takes all objects that exist out of later collections. It can go when the daemon
no longer collects after each task.
"""

import gc
import importlib
import os
import pickle
import platform
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import isfunction, isgenerator
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa

from kafka_on_spark.base import __version__
from kafka_on_spark.base.errors import InvalidRequestError, KafkaOnSparkError

Argument = TypeVar("Argument")
Answer = TypeVar("Answer")

ADVICE: Final = (
    f"install kafka_on_spark {__version__} there (by pip, or in the executors' image), or send an"
    " environment along (--archives environment.tar.gz#environment, with"
    " PYSPARK_PYTHON=./environment/bin/python), or, where Spark runs on this machine alone, import"
    " kafka_on_spark before the session is made: see docs/clusters-and-stores.md"
)

_SENTENCE: Final = re.compile(r"the executor on \S+ can't run .*")
_NO_PYTHON: Final = re.compile(
    r'Cannot run program "[^"]*"|finding module specification for \'pyspark|Python in worker has'
    r" different version: [\d.]+ than that in driver: [\d.]+"
)

FREEZES_MAX: Final = 8
"""How often a process freezes. Frozen objects that become cyclic garbage later are never freed, so
the number is bounded; after a few tasks a worker has imported everything that it will."""

_DAEMON: Final = "pyspark.daemon"


class _Freezes:
    """How often this process froze, and its full collections up to the last task."""

    def __init__(self) -> None:
        self.count = 0
        self.collections: int | None = None


_freezes: Final = _Freezes()


def freeze_gc() -> None:
    """Freeze the objects that survived a full collection. Called before a task's work.

    Only right after a full collection, so that little of it is garbage, and only in processes of
    pyspark's daemon: others collect when they need to.
    """
    if _freezes.count >= FREEZES_MAX or not _is_of_daemon():
        return
    collections = gc.get_stats()[-1]["collections"]
    if _freezes.collections not in (None, collections):
        gc.freeze()
        _freezes.count += 1
    _freezes.collections = collections


def _is_of_daemon() -> bool:
    specification = getattr(sys.modules["__main__"], "__spec__", None)
    return getattr(specification, "name", None) == _DAEMON


def wanted_versions() -> dict[str, str]:
    """Return the versions that executors must have, those of this process."""
    return {"kafka_on_spark": __version__, "pyarrow": pa.__version__}


Check = Callable[[Mapping[str, str], str], str | None]
Load = Callable[[Mapping[str, str], str, bytes], Any]


def _make_check() -> Check:
    """Return `check`: nested, since a module's own functions are pickled as their names."""

    def check(wanted: Mapping[str, str], advice: str) -> str | None:
        """Return why this process can't run our tasks; None if it can."""
        found = []
        for name, version in wanted.items():
            try:
                there = getattr(importlib.import_module(name), "__version__", "of no version")
            except ModuleNotFoundError as error:
                found.append(f"has no {error.name}")
                break
            except Exception as error:  # an import may raise anything; it is the reason
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

    return check


def _make_load(check: Check) -> Load:
    """Return `load`: nested as well."""

    def load(wanted: Mapping[str, str], advice: str, payload: bytes) -> Any:
        """Return the unpickled task; an ImportError says why this process can't run it."""
        problem = check(wanted, advice)
        if problem is not None:
            raise ImportError(problem)
        # In the function, after the check: an executor may have no such package.
        from kafka_on_spark.spark.executors import freeze_gc

        freeze_gc()
        return pickle.loads(payload)

    return load


_check = _make_check()
_load = _make_load(_check)


class ExecutorTask(Generic[Argument, Answer]):
    """A task to send to executors: where it can't be imported, it says so in one sentence."""

    def __init__(self, run: Callable[[Argument], Answer]) -> None:
        self._run = run

    def __call__(self, argument: Argument) -> Answer:
        return self._run(argument)

    def __reduce__(self) -> tuple[Any, ...]:
        return _sent(self._run)


class SentToExecutors:
    """A base of objects that Spark itself pickles for executors: as above.

    An error of ours leaves their methods without its traceback, so that its sentence is what a
    person reads first. All other errors keep theirs.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, method in list(vars(cls).items()):
            if isfunction(method) and (name == "__init__" or not name.startswith("_")):
                setattr(cls, name, _without_traceback(method))

    def __reduce__(self) -> tuple[Any, ...]:
        return _sent(_ByDefault(self))


def _without_traceback(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(*given: Any, **named: Any) -> Any:
        with _sentence_alone():
            result = method(*given, **named)
        return _rows_of(result) if isgenerator(result) else result

    return called


def _rows_of(rows: Iterator[Any]) -> Iterator[Any]:
    with _sentence_alone():
        yield from rows


@contextmanager
def _sentence_alone() -> Iterator[None]:
    """Have Spark's worker send an error of ours without its traceback: it looks at this variable
    when it sends one, and ends (pyspark.util.handle_worker_exception)."""
    try:
        yield
    except KafkaOnSparkError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


class _ByDefault:
    """Pickles an object as Python would if its class had no `__reduce__`."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self._value), self._value.__getstate__())


def _rebuild(kind: type, state: dict[str, object] | None) -> object:
    value: Any = object.__new__(kind)
    value.__dict__.update(state or {})
    return value


def _sent(value: object) -> tuple[Load, tuple[dict[str, str], str, bytes]]:
    from pyspark import cloudpickle

    payload: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return _load, (wanted_versions(), ADVICE, payload)


@contextmanager
def clear_errors() -> Iterator[None]:
    """Raise InvalidRequestError, a sentence, in place of the traces of tasks that an executor's
    Python can't run."""
    try:
        yield
    except Exception as error:
        if said := _SENTENCE.search(str(error)):
            raise InvalidRequestError(said[0]) from error
        if said := _NO_PYTHON.search(str(error)):
            raise InvalidRequestError(
                f"executors can't be used, because of their Python ({said[0]}): {ADVICE}"
            ) from error
        raise
