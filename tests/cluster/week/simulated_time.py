"""Time that passes when a test says so, for all of the product in this process, files on disks too.

The clocks go on by themselves as well, so that budgets of time are spent as they are in a real run.
Time begins now and goes into the future: delta-rs, which has the real clock, then drops no tombstone
from a checkpoint, and what it would have dropped is taken out here.
"""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_on_spark.metadata import temporaries
from kafka_on_spark.metadata.quorum import voter_upkeep
from kafka_on_spark.store import local_files
from kafka_on_spark.store.deadlines import SystemClock
from kafka_on_spark.store.delta import delta_log

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
TOMBSTONES_KEPT = "delta.deletedFileRetentionDuration"


class Killed(BaseException):
    """The process is dead: it does nothing more, its own cleaning up neither."""


class SimulatedTime:
    """The clocks of this process, and of its disks."""

    def __init__(self) -> None:
        self._began_ms = time.time_ns() // 1_000_000
        self._began_ns = time.monotonic_ns()
        self._passed_ms = 0.0
        self._lock = threading.Lock()
        self.kill_after: int | None = None

    def now_ms(self) -> int:
        return self._began_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return (time.monotonic_ns() - self._began_ns) // 1_000_000 + int(self._passed_ms)

    def pass_ms(self, duration_ms: float) -> None:
        with self._lock:
            self._passed_ms += duration_ms

    def count_change(self) -> None:
        with self._lock:
            if self.kill_after is None:
                return
            if self.kill_after == 0:
                raise Killed
            self.kill_after -= 1

    def install(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(SystemClock, "now_ms", lambda _: self.now_ms())
        monkeypatch.setattr(SystemClock, "monotonic_ms", lambda _: self.monotonic_ms())
        monkeypatch.setattr(SystemClock, "sleep_ms", lambda _, duration: self.pass_ms(duration))
        monkeypatch.setattr(temporaries, "time", _Clock(self))
        monkeypatch.setattr(delta_log, "time", _Clock(self))
        monkeypatch.setattr(voter_upkeep, "time", _Clock(self))
        monkeypatch.setattr(local_files, "os", _Disks(self))
        create = deltalake.DeltaTable.create_checkpoint

        def create_checkpoint(table: deltalake.DeltaTable) -> None:
            self.count_change()
            create(table)
            log = Path(table.table_uri.removeprefix("file://")) / "_delta_log"
            kept_s = int(table.metadata().configuration[TOMBSTONES_KEPT].split()[1])
            _drop_tombstones(log, table.version(), self.now_ms() - 1000 * kept_s)

        monkeypatch.setattr(deltalake.DeltaTable, "create_checkpoint", create_checkpoint)


class _Clock:
    sleep = staticmethod(time.sleep)

    def __init__(self, clock: SimulatedTime) -> None:
        self._clock = clock

    def time(self) -> float:
        return self._clock.now_ms() / 1000

    def time_ns(self) -> int:
        return self._clock.now_ms() * 1_000_000


class _Disks:
    """The functions of `os`, for files that get the simulated time, and a process that may die."""

    _CHANGES = ("link", "rename", "unlink", "mkdir", "rmdir", "write", "fsync")

    def __init__(self, clock: SimulatedTime) -> None:
        self._clock = clock
        self._written: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        call = getattr(os, name)
        if name not in self._CHANGES:
            return call

        def counted(*arguments: Any, **named: Any) -> Any:
            self._clock.count_change()
            return call(*arguments, **named)

        return counted

    def open(self, path: str, flags: int, *arguments: Any, **named: Any) -> int:
        if flags & os.O_CREAT:
            self._clock.count_change()
        descriptor = os.open(path, flags, *arguments, **named)
        if flags & os.O_CREAT:
            self._written.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        if descriptor in self._written:
            self._written.discard(descriptor)
            now_ns = self._clock.now_ms() * 1_000_000
            os.utime(descriptor, ns=(now_ns, now_ns))
        os.close(descriptor)


def _drop_tombstones(log: Path, version: int, before_ms: int) -> None:
    """Leave in a checkpoint what delta-rs would have left that has the simulated time."""
    path = log / f"{version:020}.checkpoint.parquet"
    table = pq.read_table(path)
    if "remove" not in table.schema.names:
        return
    removed_at_ms = pc.struct_field(table.column("remove"), "deletionTimestamp")
    is_old = pc.fill_null(pc.less(removed_at_ms, pa.scalar(before_ms, pa.int64())), False)
    if not pc.any(is_old).as_py():
        return
    table = table.filter(pc.invert(is_old))
    whole = path.with_name(f"_{path.name}.whole")  # another thread may read the checkpoint
    pq.write_table(table, whole)
    whole.replace(path)
    hint = log / "_last_checkpoint"
    told = json.loads(hint.read_text())
    if told.get("version") == version:
        told["size"] = table.num_rows
        told.pop("sizeInBytes", None)
        told.pop("numOfAddFiles", None)
        whole = hint.with_name("_hint.whole")
        whole.write_text(json.dumps(told))
        whole.replace(hint)
