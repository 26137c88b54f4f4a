"""The states in which a power cut may leave a disk, by the model of ALICE (Pillai et al., OSDI 2014)
at its weakest: of what was not flushed, each change is kept or lost by itself, in any order.

- A file that was flushed has all bytes that it had then. Of bytes written later it may have none,
  a part, or as many zeros: the size of a file reaches the disk without its bytes.
- A folder that was flushed has all names that it had then. Each later change of a name is kept or
  lost, also if an earlier one is not. A rename is one change of two names of one folder; besides,
  both names may be there.
- Flushing a file keeps none of its names, flushing a folder no bytes of what it names.
"""

import hashlib
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tests.power.states.changes import ROOT, Change, Entry, Flush, Promise, Write

LOST: Final = "lost"
"""Bytes that were not flushed are not there."""

KEPT: Final = "kept"
PART: Final = "part"
ZEROS: Final = "zeros"

_TEMPORARY: Final = re.compile(r"_[0-9a-f]{32}\.tmp|.*#\d+|_(race|probe)-[0-9a-f]{32}")
"""Names that no reader looks at: states that differ in these only are equal."""

Tree = dict[str, bytes | None]
"""The bytes of files by their paths; None for a folder. Folders come before what they hold."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a power cut keeps of what is pending."""

    how: str
    names: frozenset[int]
    bytes_of: Mapping[int, str] = field(default_factory=dict)
    split: int | None = None


@dataclass(slots=True)
class _File:
    flushed: bytes = b""
    written: bytes = b""
    digests: dict[str, bytes] = field(default_factory=dict)

    def content(self, variant: str) -> bytes:
        """Return the file's bytes, of which those that are pending are kept or lost."""
        fresh = self.written[len(self.flushed) :]
        if variant == PART:
            fresh = fresh[: len(fresh) // 2]
        elif variant == ZEROS:
            fresh = bytes(len(fresh))
        elif variant == LOST:
            fresh = b""
        return self.flushed + fresh

    def digest(self, variant: str) -> bytes:
        if variant not in self.digests:
            content = self.content(variant)
            self.digests[variant] = hashlib.blake2b(content, digest_size=16).digest()
        return self.digests[variant]


class _Folder:
    def __init__(self) -> None:
        self.flushed: dict[str, int] = {}
        self.pending: list[Entry] = []
        self.pending_ids: frozenset[int] = frozenset()

    def take(self, change: Entry) -> None:
        self.pending.append(change)
        self.pending_ids |= {id(change)}

    def names(self, choice: Choice) -> dict[str, int]:
        """Return the names, of which only some changes are kept."""
        if not self.pending:
            return self.flushed
        names = dict(self.flushed)
        for change in self.pending:
            if id(change) not in choice.names:
                continue
            if change.gone is not None and id(change) != choice.split:
                names.pop(change.gone, None)
            if change.name is not None and change.node is not None:
                names[change.name] = change.node
        return names


class PoweredDisk:
    """A disk that knows what is flushed and what is pending."""

    def __init__(self, folders: frozenset[int]) -> None:
        """`folders`: the numbers of nodes that are folders."""
        self._folders: dict[int, _Folder] = {each: _Folder() for each in {ROOT, *folders}}
        self._files: dict[int, _File] = {}
        self._digests: dict[int, bytes] = {}
        self._of_choices: dict[int, dict[object, bytes]] = {}
        self._parents: dict[int, int] = {}
        self._inner: dict[int, set[int]] = {each: set() for each in self._folders}
        self._written: dict[int, set[int]] = {each: set() for each in self._folders}
        self._ignored: set[int] = set()

    def apply(self, change: Change) -> None:
        if isinstance(change, Write):
            file = self._files[change.file]
            file.written += change.content
            file.digests.clear()
            self._written[self._parents[change.file]].add(change.file)
            self._forget(change.file)
        elif isinstance(change, Flush):
            self._flush(change.node)
        elif isinstance(change, Entry):
            self._folders[change.folder].take(change)
            self._forget(change.folder)
            if change.node is not None:
                self._parents[change.node] = change.folder
                self._ignore(change.node, change)
                if change.node not in self._folders:
                    self._files.setdefault(change.node, _File())

    def _ignore(self, node: int, change: Entry) -> None:
        """Remember what is in folders that no reader looks at: nothing is chosen there."""
        is_folder = node in self._folders
        if change.folder in self._ignored or (is_folder and is_temporary(change)):
            self._ignored.add(node)
        elif is_folder:
            self._inner[change.folder].add(node)

    def is_ignored(self, change: Change) -> bool:
        """Return whether a change, which was applied, makes no difference to any reader."""
        if isinstance(change, Promise):
            return False  # what was found before must be found now
        node = change.folder if isinstance(change, Entry) else _node_of(change)
        return node in self._ignored

    def flush_all(self) -> None:
        for node in (*self._files, *self._folders):
            self._flush(node)

    def _flush(self, node: int) -> None:
        if node in self._folders:
            folder = self._folders[node]
            folder.flushed = dict(folder.names(Choice("", folder.pending_ids)))
            folder.pending, folder.pending_ids = [], frozenset()
        else:
            self._files[node].flushed = self._files[node].written
            self._files[node].digests.clear()
            self._written[self._parents[node]].discard(node)
        self._forget(node)

    def _forget(self, node: int) -> None:
        """Forget the digests of the folders that lead to a node."""
        at: int | None = node
        while at is not None:
            self._digests.pop(at, None)
            self._of_choices.pop(at, None)
            at = self._parents.get(at)

    def _pending(self) -> tuple[list[Entry], list[int]]:
        names = [
            each
            for number, folder in self._folders.items()
            if number not in self._ignored
            for each in folder.pending
        ]
        return names, [
            number
            for number, file in self._files.items()
            if number not in self._ignored and file.flushed != file.written
        ]

    def choices(self, rng: random.Random, drawn: int) -> Iterator[Choice]:
        """Yield what a cut at this moment may keep: nothing of what is pending, all, all but one,
        one alone; each file with each variant of its bytes; and `drawn` more by chance."""
        names, files = self._pending()
        everything, nothing = frozenset(map(id, names)), frozenset[int]()
        kept = dict.fromkeys(files, KEPT)
        yield Choice("nothing is lost", everything, kept)
        if not names and not files:
            return
        yield Choice("all that is pending is lost", nothing)
        yield Choice("the bytes of all files are lost", everything)
        for each in names:
            if not is_temporary(each):
                yield Choice(f"{_words(each)} is lost", everything - {id(each)}, kept)
                yield Choice(f"{_words(each)} alone is kept", nothing | {id(each)}, kept)
            if each.gone is not None and each.name is not None:
                yield Choice(f"{_words(each)} leaves both names", everything, kept, id(each))
        for file in files:
            for variant in (LOST, PART, ZEROS):
                yield Choice(f"a file's bytes: {variant}", everything, {**kept, file: variant})
        for _ in range(drawn if len(names) + len(files) > 1 else 0):
            some = frozenset(id(each) for each in names if rng.random() < 0.5)
            variants = {each: rng.choice((LOST, KEPT, PART, ZEROS)) for each in files}
            yield Choice("by chance", some, variants)

    def identity(self, choice: Choice) -> bytes:
        """Return what tells a state from others: all but temporary files."""
        return self._identity(ROOT, choice)[0]

    def _identity(self, number: int, choice: Choice) -> tuple[bytes, bool]:
        """Return the digest of a folder, and whether nothing in it is pending.

        Most choices of a moment differ in one folder: each other one has a digest that is known.
        """
        known = self._digests.get(number)
        if known is not None:
            return known, True
        folder, written = self._folders[number], self._written[number]
        below, is_settled = {}, not (folder.pending or written)
        for each in self._inner[number]:
            below[each], is_child_settled = self._identity(each, choice)
            is_settled = is_settled and is_child_settled
        what: tuple[object, ...] = tuple(below.values())
        if folder.pending:
            what = (*what, choice.names & folder.pending_ids, choice.split)
        if written:
            what = (*what, *[choice.bytes_of.get(each, LOST) for each in written])
        of_choices = self._of_choices.setdefault(number, {})
        digest = of_choices.get(what)
        if digest is None:
            digest = of_choices[what] = self._digest(folder.names(choice), choice, below)
        if is_settled:
            self._digests[number] = digest
        return digest, is_settled

    def _digest(
        self, names: Mapping[str, int], choice: Choice, below: Mapping[int, bytes]
    ) -> bytes:
        """Return the digest of a folder with these names; `below`: those of folders in it."""
        digest = hashlib.blake2b(digest_size=16)
        for name, node in sorted(names.items()):
            if _TEMPORARY.fullmatch(name):
                continue
            if node in self._folders:
                found = below[node]
            else:
                found = self._files[node].digest(choice.bytes_of.get(node, LOST))
            digest.update(name.encode() + b"\0" + found)
        return digest.digest()

    def tree(self, choice: Choice) -> Tree:
        found: Tree = {}

        def visit(number: int, path: str) -> None:
            for name, node in self._folders[number].names(choice).items():
                if node in self._folders:
                    found[path + name] = None
                    visit(node, f"{path}{name}/")
                else:
                    variant = choice.bytes_of.get(node, LOST)
                    found[path + name] = self._files[node].content(variant)

        visit(ROOT, "")
        return found


def _node_of(change: Write | Flush) -> int:
    return change.file if isinstance(change, Write) else change.node


def is_temporary(change: Entry) -> bool:
    """Return whether a change is of names that no reader looks at."""
    names = [each for each in (change.name, change.gone) if each is not None]
    return all(_TEMPORARY.fullmatch(each) for each in names)


def _words(change: Entry) -> str:
    if change.gone is None:
        return f"the name {change.name}"
    if change.name is None:
        return f"the deletion of {change.gone}"
    return f"the renaming of {change.gone} to {change.name}"


@dataclass(frozen=True, slots=True)
class CrashState:
    """A disk after a power cut."""

    at: int
    choice: Choice
    identity: bytes


@dataclass(frozen=True, slots=True)
class Record:
    """What was done to a disk."""

    changes: Sequence[Change]
    folders: frozenset[int]
    begins_at: int = 0
    looks_from: int = 0

    def disk(self) -> PoweredDisk:
        disk = PoweredDisk(self.folders)
        for change in self.changes[: self.begins_at]:
            disk.apply(change)
        disk.flush_all()
        return disk

    def without(self, what: str) -> "Record":
        """Return what would be done by code that leaves out one kind of flush."""
        kept = [
            each
            for at, each in enumerate(self.changes)
            if at < self.begins_at or not (isinstance(each, Flush) and each.what == what)
        ]
        return replace(self, changes=kept)


def crash_states(
    record: Record, rng: random.Random, *, drawn: int, each_moment: int = 1
) -> list[CrashState]:
    """Return the states in which a cut at each moment may leave the disk, each once, as it is at
    the last moment at which it occurs: most was promised by then.

    `drawn`: how many by chance at each moment; `each_moment`: one of so many moments.
    """
    disk = record.disk()
    found: dict[bytes, CrashState] = {}
    for at, change in enumerate(record.changes[record.begins_at :], record.begins_at + 1):
        disk.apply(change)
        if at < record.looks_from or at % each_moment or disk.is_ignored(change):
            continue
        for choice in disk.choices(rng, drawn):
            identity = disk.identity(choice)
            found.pop(identity, None)  # so that states are in the order of their last moments
            found[identity] = CrashState(at, choice, identity)
    return list(found.values())


def with_trees(states: Iterable[CrashState], record: Record) -> Iterator[tuple[CrashState, Tree]]:
    """Yield states, which come in the order of their moments, with what is on the disk."""
    disk, done = record.disk(), record.begins_at
    for state in states:
        for change in record.changes[done : state.at]:
            disk.apply(change)
        done = state.at
        yield state, disk.tree(state.choice)
