"""What a table costs as it grows: opening, following, committing, a checkpoint, memory."""

import gc
import time
import tracemalloc
from collections import deque
from collections.abc import Callable
from statistics import median
from uuid import uuid4

from jobs.benchmarks.bench import Bench, say
from jobs.benchmarks.report import Row, row
from kafka_on_spark.base.ids import LeaderEpoch
from kafka_on_spark.log.batch import segment_name
from kafka_on_spark.log.segments import HEADER_SCHEMA, TABLE_SCHEMA
from kafka_on_spark.store.delta.checkpoints import CHECKPOINT_INTERVAL
from kafka_on_spark.store.delta.delta_files import FileEntry
from kafka_on_spark.store.delta.delta_log import DeltaLog
from kafka_on_spark.store.roots import StorageOptions

VERSIONS = (10, 1_000, 100_000)
FILES = (10, 100, 1_000, 10_000)
FEW_FILES = 10
FILES_A_COMMIT = 100
TRIES = 20
OPTIONS = StorageOptions()


def tables(bench: Bench) -> list[Row]:
    """Measure a table at three ages with ten files, and at four sizes."""
    rows: list[Row] = []
    aged = _Table(bench, "aged", files=FEW_FILES)
    for versions in VERSIONS:
        while aged.log.version < versions:
            aged.replace_file()
        rows += _measured(aged, f"a table at version {versions:,}, {FEW_FILES} files")
    for files in FILES:
        table = _Table(bench, f"files-{files}", files=files)
        rows += _measured(table, f"a table of {files:,} files")
        rows.append(_checkpoint(table, files))
    return rows


class _Table:
    """A table with a fixed number of files. It is not flushed: the disk is not what is measured."""

    def __init__(self, bench: Bench, name: str, *, files: int) -> None:
        self.uri = str(bench.folder / f"table-{name}")
        self.log = DeltaLog.create(
            self.uri,
            OPTIONS,
            schema=TABLE_SCHEMA,
            partition_by=HEADER_SCHEMA.names,
            configuration={},
            is_flushed=False,
        )
        self._names: deque[str] = deque()
        while len(self._names) < files:
            self._commit(min(FILES_A_COMMIT, files - len(self._names)), removed=0)

    def replace_file(self) -> None:
        """Commit a file, and the removal of the oldest one."""
        self._commit(1, removed=1)

    def _commit(self, added: int, *, removed: int) -> None:
        removes = [_file(self._names.popleft()) for _ in range(removed)]
        names = [segment_name(LeaderEpoch(0), uuid4().hex, uuid4().hex) for _ in range(added)]
        self._names += names
        self.log.commit(
            self.log.version,
            operation="append",
            adds=map(_file, names),
            removes=removes,
            counters={"log-end-offset": self.log.version},
        )
        self.log.checkpoint_if_due()


def _values() -> dict[str, str | None]:
    return {name: "1234567" for name in HEADER_SCHEMA.names}


def _file(name: str) -> FileEntry:
    return FileEntry(path=name, size_bytes=1000, values=_values(), record_count=1, time_ms=0)


def _measured(table: _Table, name: str) -> list[Row]:
    say(f"  {name}")
    follower = DeltaLog(table.uri, OPTIONS, is_flushed=False)
    follower.refresh()
    commits: list[float] = []
    follows: list[float] = []
    while len(commits) < TRIES:
        before = table.log.version // CHECKPOINT_INTERVAL
        took = _ms(table.replace_file)
        follow = _ms(follower.refresh)
        if table.log.version // CHECKPOINT_INTERVAL == before:  # a checkpoint is measured alone
            commits.append(took)
            follows.append(follow)
    return [
        row(f"{name}: commit to it, processor", commits, "ms"),
        row(f"{name}: follow one commit, processor", follows, "ms"),
        row(f"{name}: open it, processor", [_ms(lambda: _open(table)) for _ in range(TRIES)], "ms"),
        row(f"{name}: memory of a process that holds it", [_memory_kib(table)], "KiB"),
    ]


def _open(table: _Table) -> DeltaLog:
    log = DeltaLog(table.uri, OPTIONS, is_flushed=False)
    log.refresh()
    return log


def _memory_kib(table: _Table) -> float:
    gc.collect()
    tracemalloc.start()
    try:
        log = _open(table)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert log.version == table.log.version
    return held / 1024


def _checkpoint(table: _Table, files: int) -> Row:
    """Return the processor time of a checkpoint, a commit's share of it, and its clean-up."""
    times: list[float] = []
    while len(times) < 3:
        while (table.log.version + 1) % CHECKPOINT_INTERVAL:
            table.replace_file()
        times.append(_ms(table.replace_file))
    share = median(times) / CHECKPOINT_INTERVAL
    return row(
        f"a table of {files:,} files: a commit with a checkpoint, processor"
        f" ({share:.2f} ms for each of {CHECKPOINT_INTERVAL} commits)",
        times,
        "ms",
    )


def _ms(work: Callable[[], object]) -> float:
    """Return the processor time of all threads of this process, ms."""
    start = time.process_time()
    work()
    return 1000 * (time.process_time() - start)
