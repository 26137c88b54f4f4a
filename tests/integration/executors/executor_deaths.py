"""Tasks that kill what runs them, once and at a named point: imported by executors.

A task whose executor is killed goes on as a process without anybody that takes its answer,
while Spark runs its task again elsewhere.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
from pyspark import TaskContext

from kafka_on_spark.log.fetch import fetch_task
from kafka_on_spark.log.segments import SegmentStore
from kafka_on_spark.spark.frames import _stage_task

EXECUTOR, WORKER = "executor", "worker"


def die_once(mark: str, whom: str) -> None:
    """Kill -9 this task's executor, or this Python worker; the first caller's only."""
    pid = os.getpid() if whom == WORKER else _executor_pid()
    try:
        with open(mark, "x", encoding="utf-8") as file:
            file.write(str(pid))
    except FileExistsError:
        return
    os.kill(pid, signal.SIGKILL)


def _executor_pid() -> int:
    """Return the JVM above this worker and its daemon."""
    pid = os.getpid()
    while "CoarseGrainedExecutorBackend" not in _command_of(pid):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        assert pid > 1, "this task runs on no executor of its own"
    return pid


def _command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")


def rows_until_death(
    batches: Iterator[pa.RecordBatch], *, mark: str, task: int, after: int
) -> Iterator[pa.RecordBatch]:
    """Pass rows on; one task loses its executor after some batches."""
    context = TaskContext.get()
    assert context is not None
    for number, batch in enumerate(batches):
        if context.partitionId() == task and number == after:
            die_once(mark, EXECUTOR)
        yield batch


def stage_and_die(batches: Iterator[pa.RecordBatch], *, mark: str, **named):
    """Stage a task's rows; the worker dies before it tells anybody."""
    rows = list(_stage_task(batches, **named))
    die_once(mark, WORKER)
    yield from rows


def fetch_and_die(order, worker, *, mark: str, point: str):
    """Fetch; the executor dies when files are copied, or when they are committed as well."""
    if point == "copied":
        with patch.object(SegmentStore, "copy", _copy_and_die(SegmentStore.copy, mark)):
            return fetch_task(order, worker)
    result = fetch_task(order, worker)
    if result.copied_records:
        die_once(mark, EXECUTOR)
    return result


def _copy_and_die(copy, mark):
    def copy_and_die(store, source, target, segments, names=None, **named):
        copy(store, source, target, segments, names, **named)
        if segments:
            die_once(mark, EXECUTOR)

    return copy_and_die
