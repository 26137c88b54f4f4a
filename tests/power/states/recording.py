"""Records what our code does to the roots of a cluster, where it does it: in `local_files`.

Delta-rs writes checkpoints by itself: each file under another name, which it then renames to its own;
nothing is flushed (`test_system_calls` shows that this is all). So a checkpoint is recorded as these
changes, once it is written.
"""

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafka_on_spark.metadata import commit_lock
from kafka_on_spark.store import local_files
from tests.power.states.changes import ROOT, Change, Disk, Entry, Flush, Promise, Write
from tests.power.states.crashes import Record
from tests.power.states.kinds import kind_of_flush


class Killed(BaseException):
    """The process is dead: it does nothing any more."""


class Recording:
    """What was done below one folder, in order."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.changes: list[Change] = []
        self.disk = Disk()
        self.calls: list[tuple[str, str]] = []
        self.dies_at: str | None = None
        self._is_dead = False
        self._lock = threading.RLock()
        self._next_node = ROOT + 1
        self._open: dict[int, int] = {}
        self._paths: dict[int, str] = {ROOT: ""}

    def promise(self, kind: str, **what: Any) -> None:
        """Note that a caller was told something."""
        with self._lock:
            self.changes.append(Promise(kind, what))

    # The disk as processes see it

    def _relative(self, path: Any, dir_fd: int | None = None) -> str | None:
        """Return a path below the base, or None if it is elsewhere."""
        text = os.fspath(path)
        if dir_fd is not None:
            text = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), text)
        text, base = os.path.abspath(text), str(self.base)
        if text == base:
            return ""
        return text[len(base) + 1 :] if text.startswith(f"{base}/") else None

    def _node(self, path: str) -> int:
        node = ROOT
        for name in filter(None, path.split("/")):
            node = self.disk.folders[node][name]
        return node

    def _place(self, path: str) -> tuple[int, str]:
        folder, _, name = path.rpartition("/")
        return self._node(folder), name

    def _new_node(self, path: str) -> int:
        node, self._next_node = self._next_node, self._next_node + 1
        self._paths[node] = path
        return node

    def _add(self, change: Change) -> None:
        self.changes.append(change)
        self.disk.apply(change)

    def check_alive(self) -> None:
        if self._is_dead:
            raise Killed

    def revive(self) -> None:
        """Let another process go on where one died."""
        assert self._is_dead, f"nothing was named like {self.dies_at}"
        self.dies_at, self._is_dead = None, False

    def _may_die(self, path: str) -> None:
        self._is_dead |= self.dies_at is not None and bool(re.fullmatch(self.dies_at, path))

    # What may be done to it

    def made_file(self, path: str, descriptor: int | None = None) -> int:
        """Note a new file; return its number."""
        folder, name = self._place(path)
        node = self._new_node(path)
        self.disk.files[node] = b""
        self._add(Entry(folder, name, node))
        self.calls.append(("make", path))
        if descriptor is not None:
            self._open[descriptor] = node
        return node

    def made_folder(self, path: str) -> None:
        folder, name = self._place(path)
        node = self._new_node(path)
        self.disk.folders[node] = {}
        self._add(Entry(folder, name, node))
        self.calls.append(("make", path))
        self._may_die(path)

    def opened(self, path: str, descriptor: int) -> None:
        self._open[descriptor] = self._node(path)

    def wrote(self, node: int, content: bytes) -> None:
        """Note bytes at a file's end."""
        self.calls.append(("write", self._paths[node]))
        self._add(Write(node, content))

    def named(self, source: str, target: str, *, is_moved: bool) -> None:
        folder, name = self._place(target)
        node = self._node(source)
        at, gone = self._place(source)
        assert at == folder, f"{source} is renamed into another folder: a state for that is missing"
        self._paths[node] = target
        self._add(Entry(folder, name, node, gone if is_moved else None))
        self.calls.append(("name", target))
        self._may_die(target)

    def deleted(self, path: str) -> None:
        folder, name = self._place(path)
        self._add(Entry(folder, gone=name))
        self.calls.append(("delete", path))

    def flushed(self, node: int) -> None:
        self.calls.append(("flush", self._paths[node]))
        self.changes.append(Flush(node, ""))

    def node_of(self, descriptor: int) -> int | None:
        return self._open.get(descriptor)

    def closed(self, descriptor: int) -> None:
        self._open.pop(descriptor, None)

    def locked(self) -> threading.RLock:
        return self._lock

    def record(self, *, begins_at: int = 0, looks_from: int = 0) -> Record:
        """Return all changes, each flush with its kind: of what a file became, not of what its
        temporary name was."""
        return Record(tuple(self._finished()), frozenset(self.disk.folders), begins_at, looks_from)

    def _finished(self) -> list[Change]:
        found: list[Change] = []
        for at, change in enumerate(self.changes):
            if isinstance(change, Flush):
                before = self._path_of_flush_before(at)
                path = self._paths[change.node]
                is_folder = change.node in self.disk.folders
                change = Flush(change.node, kind_of_flush(path, before, is_folder=is_folder))
            found.append(change)
        return found

    def _path_of_flush_before(self, at: int) -> str:
        earlier = (each for each in reversed(self.changes[:at]) if isinstance(each, Flush))
        return next((self._paths[each.node] for each in earlier), "")


class RecordingOs:
    """Stands for the module `os` in code whose changes are recorded."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        recording = self._recording
        place = recording._relative(path, dir_fd)
        with recording.locked():
            if place is not None and flags & os.O_CREAT:
                recording.check_alive()
            descriptor = os.open(path, flags, mode, dir_fd=dir_fd)
            if place is not None:
                if flags & os.O_CREAT:
                    recording.made_file(place, descriptor)
                else:
                    recording.opened(place, descriptor)
        return descriptor

    def write(self, descriptor: int, content: Any) -> int:
        with self._recording.locked():
            node = self._recording.node_of(descriptor)
            if node is not None:
                self._recording.check_alive()
            count = os.write(descriptor, content)
            if node is not None:
                self._recording.wrote(node, bytes(content)[:count])
        return count

    def fsync(self, descriptor: int) -> None:
        with self._recording.locked():
            node = self._recording.node_of(descriptor)
            if node is not None:
                self._recording.check_alive()
                self._recording.flushed(node)
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        with self._recording.locked():
            self._recording.closed(descriptor)
            os.close(descriptor)

    def link(self, source: Any, target: Any) -> None:
        self._name(source, target, os.link, is_moved=False)

    def rename(self, source: Any, target: Any) -> None:
        self._name(source, target, os.rename, is_moved=True)

    def _name(
        self, source: Any, target: Any, really: Callable[[Any, Any], None], *, is_moved: bool
    ) -> None:
        recording = self._recording
        places = recording._relative(source), recording._relative(target)
        with recording.locked():
            if None not in places:
                recording.check_alive()
            really(source, target)
            if places[0] is not None and places[1] is not None:
                recording.named(places[0], places[1], is_moved=is_moved)

    def mkdir(self, path: Any, mode: int = 0o777) -> None:
        place = self._recording._relative(path)
        with self._recording.locked():
            if place is not None:
                self._recording.check_alive()
            os.mkdir(path, mode)
            if place is not None:
                self._recording.made_folder(place)

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._delete(path, dir_fd, os.unlink)

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._delete(path, dir_fd, os.rmdir)

    def _delete(self, path: Any, dir_fd: int | None, really: Callable[..., None]) -> None:
        place = self._recording._relative(path, dir_fd)
        with self._recording.locked():
            if place is not None:
                self._recording.check_alive()
            really(path, dir_fd=dir_fd)
            if place is not None:
                self._recording.deleted(place)


@contextmanager
def recorded(base: Path) -> Iterator[Recording]:
    """Record what is done below a folder, which is empty."""
    recording = Recording(base)
    stand_in = RecordingOs(recording)
    with pytest.MonkeyPatch.context() as patch:
        for module in (local_files, commit_lock):
            patch.setattr(module, "os", stand_in)
        yield recording


def tree_of(base: Path) -> dict[str, bytes | None]:
    """Return what there really is below a folder, as `Disk.tree` does."""
    return {
        str(each.relative_to(base)): None if each.is_dir() else each.read_bytes()
        for each in base.glob("**/*")
    }
