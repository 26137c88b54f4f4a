"""Disks of brokers and voters, and what can befall them: each fault is a function that returns how to
undo it.

Where it is allowed, a disk is a small file system of its own, so that it can be full: a broker's in
memory, a voter's in a file, since one in memory can't be made to hang. Where it is not, it is a
folder, and such faults are left out with their reason.
"""

import ctypes
import errno
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.rigs.images import make_image, why_failed
from tests.rigs.torturing.folder import BROKERS, DiskName, TortureFolder

DISK_MIB: Final = 256
MIB_A_MINUTE: Final = 48
BUSY_S_MAX: Final = 60.0
"""A process that is frozen, for eight seconds, or gets no processor keeps its file open."""
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


@dataclass(slots=True)
class Disks:
    """The disks of a run."""

    folder: TortureFolder
    why_not: dict[str, str] = field(default_factory=dict)
    rolled_back: set[tuple[int, str, int, int]] = field(default_factory=set)
    _are_mounted: bool = False

    def prepare(self, minutes: float) -> None:
        size_mib = DISK_MIB + int(MIB_A_MINUTE * minutes)
        for name in self._names:
            disk = self.folder.disk(name)
            disk.mkdir()
            if "full" not in self.why_not:
                error = self._mount(name, size_mib)
                if error is not None:
                    self.why_not["full"] = f"no disk of a fixed size can be mounted: {error}"
                self._are_mounted |= error is None
            self.folder.root(name).mkdir()
        if self.folder.voter_disks and "full" in self.why_not:
            self.why_not.setdefault("hangs", self.why_not["full"])
        if "full" in self.why_not:
            self.why_not["read-only"] = self.why_not["full"]

    def _mount(self, name: DiskName, size_mib: int) -> str | None:
        """Mount a disk of a fixed size; return why that failed, or None."""
        disk = self.folder.disk(name)
        if name in self.folder.voter_disks and "hangs" not in self.why_not:
            error = _mount_file(disk, size_mib)
            if error is None:
                return None
            self.why_not["hangs"] = f"no disk that can be frozen can be mounted: {error}"
        return why_failed("mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(disk))

    @property
    def _names(self) -> tuple[DiskName, ...]:
        return (*BROKERS, *self.folder.voter_disks)

    @property
    def kind(self) -> str:
        if not self._are_mounted:
            return "folders"
        has_files = self.folder.voter_disks and "hangs" not in self.why_not
        return "tmpfs, one a root" + ("; ext4 in a file for each voter" if has_files else "")

    # Faults: each returns what undoes it.

    def take_away(self, name: DiskName) -> Callable[[], None]:
        root = self.folder.root(name)
        away = root.with_name("away")
        root.rename(away)

        def give_back() -> None:
            while away.exists():
                if root.exists():  # made by what was under way; nobody may count what is in it
                    root.rename(free_name(root, "stray"))
                try:
                    away.rename(root)
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # made once more
                        raise

        return give_back

    def set_read_only(self, name: DiskName) -> Callable[[], None]:
        root = str(self.folder.root(name))
        _check_run("mount", "--bind", root, root)
        _run_while_busy("mount", "-o", "remount,bind,ro", root)
        return lambda: _check_run("umount", "-l", root)

    def freeze(self, name: DiskName) -> Callable[[], None]:
        """Have all that write to a disk wait; it can be read."""
        disk = str(self.folder.disk(name))
        _check_run("fsfreeze", "--freeze", disk)
        return lambda: _check_run("fsfreeze", "--unfreeze", disk)

    def fill(self, name: DiskName) -> Callable[[], None]:
        filler = self.folder.disk(name) / "filler"
        with filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                with suppress(OSError):  # full: what this is for
                    while True:
                        file.write(bytes(size))
        return filler.unlink

    def wipe(self, name: DiskName) -> None:
        """Put an empty folder in a root's place; what was there is kept beside it."""
        root = self.folder.root(name)
        lost = free_name(root, "wiped")
        lost.mkdir()
        exchange(lost, root)

    def empty(self, broker_id: int) -> Callable[[], None]:
        """Take every replica from a root; the root knows still whose it is."""
        root = self.folder.root(broker_id)
        lost = free_name(root, "emptied")
        lost.mkdir()
        for each in root.iterdir():
            if each.is_dir():
                each.rename(lost / each.name)
        return lambda: None

    def roll_back(self, broker_id: int, copy: Path) -> None:
        """Put an older copy in a root's place, in one step."""
        root = self.folder.root(broker_id)
        for table in copy.glob("*/*"):
            topic, number = table.parent.name.rpartition("-")[0], int(table.name.split("-")[0])
            self.rolled_back.add((broker_id, topic, number, last_version(table)))
        exchange(copy, root)
        copy.rename(free_name(root, "rolled-back"))

    def copy(self, broker_id: int) -> Path:
        """Return a copy of a root as it is at one moment, made of links: files never change."""
        root = self.folder.root(broker_id)
        copy = free_name(root, "copy")
        copy.mkdir()
        for name in ("meta.properties",):
            os.link(root / name, copy / name)
        for table in sorted(root.glob("*/*")):
            with suppress(FileNotFoundError):  # a former replica's, which goes meanwhile
                _copy_table(table, copy / table.relative_to(root))
        return copy

    def release(self) -> None:
        """Undo mounts; what the disks hold stays where it was, as plain folders."""
        if not self._are_mounted:
            return
        for name in self._names:
            disk = self.folder.disk(name)
            kept = disk.with_name(f"{disk.name}.kept")
            if not os.path.ismount(disk):
                continue
            shutil.copytree(disk / "root", kept / "root")
            why_failed("umount", "-l", str(disk))
            disk.rmdir()
            kept.rename(disk)


def _copy_table(table: Path, copy: Path) -> None:
    """Link a table's files: commits first, since what they name is there before them.

    Commits appear while the folder is listed: a later one counts only if all before it were seen.
    """
    log = table / "_delta_log"
    if not log.is_dir():
        return
    (copy / "_delta_log").mkdir(parents=True)
    names = sorted(os.listdir(log))
    commits = [name for name in names if name.endswith(".json") and name[:20].isdecimal()]
    first = int(commits[0][:20]) if commits else 0
    dense = [name for at, name in enumerate(commits, first) if int(name[:20]) == at]
    last = int(dense[-1][:20]) if dense else -1
    others = [
        name
        for name in names
        if name not in commits and name[:20].isdecimal() and int(name[:20]) <= last
    ]
    for name in (*dense, *others):
        _link(log / name, copy / "_delta_log" / name)
    for file in table.iterdir():
        if file.is_file() and not file.name.startswith("_"):
            _link(file, copy / file.name)


def last_version(table: Path) -> int:
    """Return the version of the newest commit in a table's log; -1: it has none."""
    names = (each.stem for each in (table / "_delta_log").glob("*.json"))
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def _link(source: Path, target: Path) -> None:
    with suppress(FileNotFoundError):  # a temporary file
        os.link(source, target)


def free_name(root: Path, name: str) -> Path:
    numbers = (root.with_name(f"{name}-{number}") for number in range(10**6))
    return next(path for path in numbers if not path.exists())


def _check_run(*command: str) -> None:
    error = why_failed(*command)
    if error is not None:
        raise OSError(error)


def _run_while_busy(*command: str) -> None:
    """Run what is refused while a process has a file open to write it: those come and go."""
    end_s = time.monotonic() + BUSY_S_MAX
    while (error := why_failed(*command)) is not None:
        if "busy" not in error or time.monotonic() > end_s:
            raise OSError(error)
        time.sleep(0.01)


def _mount_file(disk: Path, size_mib: int) -> str | None:
    """Mount a file system in a file, which goes with the mount; return why that failed, or None."""
    image = disk.with_name(f"{disk.name}.ext4")
    make_image(image, size_mib << 20)
    error = why_failed("mkfs.ext4", "-q", "-m", "0", str(image))
    error = error or why_failed("mount", "-o", "loop", str(image), str(disk))
    image.unlink()
    return error


def exchange(first: Path, second: Path) -> None:
    """Exchange two folders: in one step (Linux's renameat2) where the file system can do it."""
    library = ctypes.CDLL(None, use_errno=True)
    names = (os.fsencode(first), os.fsencode(second))
    call = getattr(library, "renameat2", None)
    if call is None or call(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) != 0:
        between = free_name(second, "exchanged")
        second.rename(between)
        first.rename(second)
        between.rename(first)
