"""Has states checked quickly: what is computed of equal bytes is computed once, and who only looks
hands nothing to another thread.

Hundreds of states differ in one file. The functions here have no other input than bytes, so this is no
memory that a process after a power cut would not have.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import pytest

from kafka_on_spark.fsck import metadata_audit, replica_audit
from kafka_on_spark.log import evidence, segments
from kafka_on_spark.metadata.quorum import voter_log, voter_tables
from kafka_on_spark.store import deadlines
from kafka_on_spark.store.deadlines import DaemonThreads
from kafka_on_spark.store.delta import checkpoints, delta_log, table_history
from kafka_on_spark.store.delta.delta_files import FileEntry

_OF_BYTES: Final = (
    (voter_log, "decode_file"),
    (checkpoints, "checkpoint_step"),
    (delta_log, "commit_step"),
    (table_history, "commit_step"),
    (evidence, "commit_step"),
    (segments, "read_parquet"),
    (replica_audit, "check_content"),
)


@contextmanager
def quick() -> Iterator[None]:
    """Compute nothing twice, and wait for nobody who might write a commit: nobody does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta_log, "RECHECK_SECONDS", 0.0)
        for module, name in _OF_BYTES:
            patch.setattr(module, name, _once(getattr(module, name)))
        for module, name in ((segments, "parquet_batches"), (metadata_audit, "decode_rows")):
            patch.setattr(module, name, _once(_all_of(getattr(module, name))))
        yield


def _all_of(yielding: Callable[..., Iterator[Any]]) -> Callable[..., list[Any]]:
    """Return what a generator yields as a list, which may be gone through again."""
    return lambda *arguments, **options: list(yielding(*arguments, **options))


@contextmanager
def at_once() -> Iterator[None]:
    """Do what threads are asked for in the thread that asks: a disk in memory does not hang, so no
    deadline needs a thread of its own, and reads change nothing for each other."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (deadlines, segments, voter_tables):
            patch.setattr(module, "begin", _begun_here)
        patch.setattr(DaemonThreads, "submit", _done_here)
        yield


def _begun_here(root: str, work: Callable[[], Any], seconds: float | None = None) -> Any:
    return _done(deadlines.Call(root, work, seconds))


def _done_here(
    _: DaemonThreads, work: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Future[Any]:
    return _done(deadlines.Call("", partial(work, *args, **kwargs)))


def _done(job: "deadlines.Call[Any]") -> "deadlines.Call[Any]":
    """Do a job in this thread, as a thread of a pool that has none of its own."""
    pool = DaemonThreads(0, "")
    pool.begin(job)
    pool._do_next()
    return job


def _once(compute: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[tuple[Any, ...], Any] = {}

    def remembered(*arguments: Any, **options: Any) -> Any:
        asked = (
            *map(_as_key, arguments),
            *((name, _as_key(each)) for name, each in sorted(options.items())),
        )
        if asked not in known:
            known[asked] = compute(*arguments, **options)
        return known[asked]

    return remembered


def _as_key(argument: Any) -> Any:
    """Return what tells an argument from others, also of those that have no hash."""
    if isinstance(argument, list):
        return tuple(argument)
    return repr(argument) if isinstance(argument, FileEntry) else argument
