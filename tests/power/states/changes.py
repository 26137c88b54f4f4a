"""Changes of a disk, in the order in which processes asked for them, and a disk that takes them."""

from dataclasses import dataclass, field
from typing import Any, Final

ROOT: Final = 0
"""The number of the folder that holds everything."""


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes are added to a file."""

    file: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """A folder's names change: `name` comes to stand for `node`, and `gone` for nothing.

    A new file, folder or link has no `gone`, a deletion no `node`, a rename both.
    """

    folder: int
    name: str | None = None
    node: int | None = None
    gone: str | None = None


@dataclass(frozen=True, slots=True)
class Flush:
    """A file's bytes, or a folder's names, are made durable."""

    node: int
    what: str


@dataclass(frozen=True, slots=True)
class Promise:
    """A caller was told something, which must hold from here on."""

    kind: str
    what: dict[str, Any]


Change = Write | Entry | Flush | Promise


@dataclass(slots=True)
class Disk:
    """Names and bytes. A node is a folder if it is in `folders`, else a file."""

    folders: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})
    files: dict[int, bytes] = field(default_factory=dict)

    def apply(self, change: Change) -> None:
        """Take a change as a system without power cuts shows it."""
        if isinstance(change, Write):
            self.files[change.file] += change.content
        elif isinstance(change, Entry):
            names = self.folders[change.folder]
            if change.gone is not None:
                names.pop(change.gone, None)
            if change.name is not None:
                assert change.node is not None
                names[change.name] = change.node

    def tree(self) -> dict[str, bytes | None]:
        """Return the bytes of each file by its path; None for a folder."""
        found: dict[str, bytes | None] = {}

        def visit(folder: int, path: str) -> None:
            for name, node in self.folders[folder].items():
                if node in self.folders:
                    found[path + name] = None
                    visit(node, f"{path}{name}/")
                else:
                    found[path + name] = self.files[node]

        visit(ROOT, "")
        return found
