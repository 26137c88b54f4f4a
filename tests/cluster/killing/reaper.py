"""Kills its own process (SIGKILL) right before or right after its n-th change to files of a cluster.

Every change to a local root goes through `local_changes`, but for checkpoints, which delta-rs
writes, and queued reports. What a kill can't undo is not counted: a flush changes nothing that the
next process sees, and a file that is half written has the same name as one that was just made.
"""

import os
import re
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import deltalake

from kafka_on_spark.spark.run.task_runner import ThreadTaskRunner
from kafka_on_spark.storage import commit_lock
from kafka_on_spark.storage.roots import local_changes


class Reaper:
    """Counts a process's changes below a folder, and kills it at one of them.

    Attributes:
        changes: What was changed so far, in order: kind and path.
    """

    def __init__(
        self,
        base: Path,
        at: int | None,
        *,
        is_after: bool,
        last_words: Callable[[str], object],
        counts: str = ".*",
    ) -> None:
        """`at`: the change to die at, from 1 on, or None; `last_words` is told which it is.
        `counts`: only changes that this pattern matches count towards `at`."""
        self.changes: list[str] = []
        self._base = str(base)
        self._at = at
        self._pattern = re.compile(counts)
        self._count = 0
        self._is_after = is_after
        self._last_words = last_words
        self._lock = threading.RLock()

    def around(self, kind: str, path: str, change: Callable[[], Any]) -> Any:
        """Make a change that counts if it is below the folder."""
        path = os.path.abspath(path)
        if not path.startswith(f"{self._base}/"):
            return change()
        with self._lock:
            name = self._name(kind, path)
            self.changes.append(name)
            does_count = self._pattern.fullmatch(name) is not None
            self._count += does_count
            is_last = does_count and self._count == self._at
            if is_last and not self._is_after:
                self._die()
            try:
                return change()
            finally:
                if is_last:
                    self._die()

    def dies_before(self, kind: str, path: str) -> bool:
        """Return whether the process dies after the change that is made now, before this one."""
        if self._is_after:
            return self._count == self._at
        does_count = self._pattern.fullmatch(self._name(kind, path)) is not None
        return does_count and self._count + 1 == self._at

    def _name(self, kind: str, path: str) -> str:
        return f"{kind} {path[len(self._base) + 1 :]}"

    def _die(self) -> NoReturn:
        self._last_words(self.changes[-1])
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("killed")


class MortalOs:
    """Stands for the module `os` in code that changes roots."""

    def __init__(self, reaper: Reaper) -> None:
        self._reaper = reaper

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        really = partial(os.open, path, flags, mode, dir_fd=dir_fd)
        if not flags & os.O_CREAT:
            return really()
        return self._reaper.around("make", _path(path, dir_fd), really)

    def link(self, source: Any, target: Any) -> None:
        self._reaper.around("put", _path(target), partial(os.link, source, target))

    def rename(self, source: Any, target: Any) -> None:
        self._reaper.around("rename", _path(target), partial(os.rename, source, target))

    def mkdir(self, path: Any, mode: int = 0o777) -> None:
        self._reaper.around("make", _path(path), partial(os.mkdir, path, mode))

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._reaper.around("unlink", _path(path, dir_fd), partial(os.unlink, path, dir_fd=dir_fd))

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._reaper.around("unlink", _path(path, dir_fd), partial(os.rmdir, path, dir_fd=dir_fd))


def _path(path: Any, dir_fd: int | None = None) -> str:
    folder = "" if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
    return os.path.join(folder, os.fspath(path))


def _mortal_table(reaper: Reaper) -> type:
    really = deltalake.DeltaTable

    class MortalTable:
        """Stands for delta-rs's table where checkpoints are written: first the file, then the hint."""

        def __init__(self, uri: str, **options: Any) -> None:
            self._log = f"{uri.removeprefix('file://')}/_delta_log"
            self._hint = f"{self._log}/_last_checkpoint"
            self._table = really(uri, **options)

        def create_checkpoint(self) -> None:
            reaper.around("checkpoint", f"{self._log}/checkpoint", self._write)
            reaper.around("hint", self._hint, lambda: None)

        def _write(self) -> None:
            hint = Path(self._hint)
            before = hint.read_bytes() if hint.exists() else None
            self._table.create_checkpoint()
            if reaper.dies_before("hint", self._hint):
                hint.unlink()
                if before is not None:
                    hint.write_bytes(before)

    return MortalTable


def watch(reaper: Reaper) -> None:
    """Have this process, which does nothing else any more, reaped. Its tasks run one by one, so
    that two runs make the same changes in the same order."""
    for module in (local_changes, commit_lock):
        module.os = MortalOs(reaper)
    deltalake.DeltaTable = _mortal_table(reaper)
    ThreadTaskRunner.run = lambda self, task, orders: [task(each) for each in orders]
