"""A disk that loses its power: an image whose file system is cut off as it is at one moment.

The image lies on an XFS of its own, which clones a file at once and as of one instant. A clone has
all that the file system had given to its disk by then, in that order, and lacks what was in memory
only: what a machine finds when it comes back. Its journal is replayed when the clone is mounted.
"""

import ctypes
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.rigs.images import make_image, why_failed
from tests.rigs.rig import RigError

FILE_SYSTEMS: Final[Mapping[str, tuple[str, ...]]] = {
    "ext4": ("mkfs.ext4", "-q", "-F"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}
"""How each is made; the image's path follows."""

OUTER_GIB: Final = 12
INNER_GIB: Final = 1
"""Sizes that files of holes seem to have: what is used of them is what is written."""

_CLONE_NEWNS: Final = 0x20000


def why_not(file_system: str) -> str | None:
    """Return why disks can't be cut off on this machine, or None."""
    if os.geteuid() != 0:
        return "only root can mount an image"
    for name in (FILE_SYSTEMS[file_system][0], "mkfs.xfs", "mount", "losetup"):
        if shutil.which(name) is None:
            return f"{name} is not installed"
    error = why_failed("losetup", "--find")
    return None if error is None else f"there is no loop device: {error}"


def mount_privately() -> None:
    """Give this process and its children mounts of their own, which end when the last of them does."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS) != 0:
        raise RigError(f"mounts can't be private here: {os.strerror(ctypes.get_errno())}")
    _run("mount", "--make-rprivate", "/")


class CutDisk:
    """One disk with its file system, and its snapshots.

    Attributes:
        mount_point: Where the disk, or one of its snapshots, is mounted: always the same, since
            clusters know their roots by path.
    """

    def __init__(self, folder: Path, file_system: str) -> None:
        self.mount_point = folder / "disk"
        self._file_system = file_system
        self._outer_image = folder / "outer.img"
        self._outer = folder / "outer"
        self._image = self._outer / "disk.img"

    def make(self) -> None:
        for folder in (self.mount_point, self._outer):
            folder.mkdir(exist_ok=True)
        make_image(self._outer_image, OUTER_GIB << 30)
        _run("mkfs.xfs", "-q", "-f", "-m", "reflink=1", str(self._outer_image))
        _mount(self._outer_image, self._outer)
        make_image(self._image, INNER_GIB << 30)
        _run(*FILE_SYSTEMS[self._file_system], str(self._image))
        self.mount(self._image)

    def mount(self, image: Path) -> None:
        """Mount the disk or a snapshot; its file system comes up as after a power cut."""
        # A snapshot has the identity of its disk, which XFS takes for a mistake.
        _mount(image, self.mount_point, *(["nouuid"] if self._file_system == "xfs" else []))

    def snapshot(self, number: int) -> Path:
        """Cut the power off in a copy; return its image."""
        image = self._outer / f"cut-{number}.img"
        _run("cp", "--reflink=always", str(self._image), str(image))
        return image

    def unmount(self) -> None:
        _run("umount", str(self.mount_point))

    def release(self) -> None:
        """Unmount and delete all that there is; what can't be is left to the end of this process's
        mounts."""
        for place in (self.mount_point, self._outer):
            with suppress(RigError):
                _run("umount", "-l", str(place))
        self._outer_image.unlink(missing_ok=True)


def _mount(image: Path, place: Path, *options: str) -> None:
    _run("mount", "-o", ",".join(["loop", *options]), str(image), str(place))


def _run(*command: str) -> None:
    error = why_failed(*command)
    if error is not None:
        raise RigError(f"{' '.join(command)} failed: {error}")
