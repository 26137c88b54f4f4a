"""The files of one table's log, what truly became of each commit, and the effect of each call.

A commit counts if it was put right after the newest one that counts; that is the table's history,
whoever knows of it. One that is put at a version whose file was deleted is a stray: it must count
for nobody.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.store.delta.delta_files import (
    TableCommit,
    TableSettings,
    checkpoint_path,
    checkpoint_version,
    commit_path,
    commit_step,
    commit_version,
    encode_commit,
    hint_path,
)
from tests.search.logs.file_calls import (
    Call,
    Failed,
    Stamp,
    checkpoint_bytes,
    hint_bytes,
    padded,
)
from tests.search.logs.log_processes import CONFIGURATION, Counters

File = tuple[bytes, Stamp]
Files = tuple[tuple[str, File], ...]
"""The files in a log's folder, by name."""

DAMAGED: Final = b"PAR1 and then nothing that can be read"

HINTS: Final = (None, b"", b"garbage")
"""What stands in place of the hint once it is damaged; an old hint is made from an old version."""


def commit_name(version: int) -> str:
    return commit_path("", version).rsplit("/", 1)[-1]


def checkpoint_name(version: int) -> str:
    return checkpoint_path("", version).rsplit("/", 1)[-1]


HINT: Final = hint_path("").rsplit("/", 1)[-1]


def _is_in_piece(name: str, piece: int | None) -> bool:
    """Return whether a listing has a name in one of its two pieces, 1 or 0; None: it has one."""
    version = commit_version(name) or checkpoint_version(name) or 0
    return piece is None or version % 2 == piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What the environment may still do.

    Attributes:
        commits: Commits of processes that are never interrupted, one after the other.
        damages: Checkpoints whose bytes are lost.
        hints: Changes of the hint: it is gone, empty, garbage, or names an old version.
        faults: Calls of processes that fail: a file that can't be deleted; a put that landed or not, and
            nobody can say so; on a store one that lands later.
    """

    commits: int = 0
    damages: int = 0
    hints: int = 0
    faults: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """A table, as nobody sees it.

    Attributes:
        files: What is in its folder.
        history: The commits that count, by version.
        pending: Puts under way that nobody waits for.
        allowance: What may still happen to it.
    """

    files: Files = ()
    history: tuple[File, ...] = ()
    pending: tuple[tuple[str, File], ...] = ()
    allowance: Allowance = Allowance()

    @property
    def newest(self) -> int:
        """The newest version; -1: there is no table."""
        return len(self.history) - 1

    def with_file(self, name: str, file: File | None) -> "Table":
        """Return the table with a file written, or deleted; a commit counts if it is the next."""
        files = {**dict(self.files), name: file}
        kept = tuple(sorted((each, found) for each, found in files.items() if found is not None))
        history = self.history
        if file is not None and commit_version(name) == len(history):
            history = (*history, file)
        return replace(self, files=kept, history=history)


class LogWorld:
    """The effects of calls on a table.

    Attributes:
        interval: Commits between checkpoints.
        is_local: It is on a disk; else on a store.
    """

    def __init__(self, interval: int, *, is_local: bool) -> None:
        self.interval = interval
        self.is_local = is_local
        self._counters: dict[bytes, Counters] = {}

    def counters_in(self, commit: bytes) -> Counters:
        found = self._counters.get(commit)
        if found is None:
            step = commit_step(commit, 0, "a commit")
            assert isinstance(step, TableCommit), step
            found = self._counters[commit] = tuple(step.counters.items())
        return found

    def counters_at(self, table: Table, version: int) -> Counters:
        commits = table.history[: version + 1]
        return tuple(sorted(each for file in commits for each in self.counters_in(file[0])))

    # What nobody interrupts

    def grown(self, table: Table) -> Table:
        """Return the table after one commit of a process that knows the newest, and its checkpoint
        if one is due."""
        version = table.newest + 1
        settings = TableSettings(table_id="a-table", schema="{}", configuration=CONFIGURATION)
        content = encode_commit(
            write_id=f"e{version}",
            operation="test",
            now_ms=0,
            settings=settings if version == 0 else None,
            counters={f"e{version}": version},
        )
        table = table.with_file(commit_name(version), (padded(content), (f"e{version}", 0)))
        if version == 0 or version % self.interval:
            return table
        content = checkpoint_bytes(self.counters_at(table, version))
        table = table.with_file(checkpoint_name(version), (content, (f"e{version}", 1)))
        return table.with_file(HINT, (hint_bytes(version), (f"e{version}", 2)))

    def events(self, table: Table) -> Iterator[tuple[str, Table]]:
        allowed = table.allowance
        if allowed.commits:
            less = replace(table, allowance=replace(allowed, commits=allowed.commits - 1))
            yield "others commit", self.grown(less)
        for index, (name, file) in enumerate(table.pending):
            rest = (*table.pending[:index], *table.pending[index + 1 :])
            less, landed = replace(table, pending=rest), name not in dict(table.files)
            yield f"a put lands at {name}", less.with_file(name, file) if landed else less
        if allowed.damages:
            less = replace(table, allowance=replace(allowed, damages=allowed.damages - 1))
            for name, (content, stamp) in table.files:
                if checkpoint_version(name) is not None and content != DAMAGED:
                    yield f"{name} is damaged", less.with_file(name, (DAMAGED, (*stamp[:1], -1)))
        if allowed.hints:
            less = replace(table, allowance=replace(allowed, hints=allowed.hints - 1))
            old = hint_bytes(max(table.newest - 2 * self.interval, 0))
            for content in (*HINTS, old):
                file = None if content is None else (content, ("hint", 0))
                yield f"the hint is {content!r}", less.with_file(HINT, file)

    # What processes do

    def effects(self, table: Table, call: Call, stamp: Stamp) -> Iterator[tuple[Any, Table]]:
        """Yield each answer that a call may get, with the table after it."""
        yield self.effect(table, call, stamp)
        allowed = table.allowance
        if not allowed.faults:
            return
        less = replace(table, allowance=replace(allowed, faults=allowed.faults - 1))
        if call.operation == "unlink":
            yield Failed(OSError), less
        if call.operation in ("link", "put"):
            failed = Failed(KafkaStorageError, "the store failed")
            landed, after = self.effect(less, call, stamp)
            if landed:
                yield failed, after
            yield failed, less
            if not self.is_local:
                late = (call.names[0], (call.content, stamp))
                yield failed, replace(less, pending=(*less.pending, late))

    def effect(self, table: Table, call: Call, stamp: Stamp) -> tuple[Any, Table]:
        """Return the answer to a call that does not fail, and the table after it."""
        files = dict(table.files)
        if not call.names:
            return self._answer_of_all(files, call), table
        if call.operation == "flush":
            # No search takes commits from a disk: a flush only finds that a file is gone.
            return all(name in files for name in call.names), table
        name = call.names[0]
        found = files.get(name)
        if call.operation == "read":
            return found, table
        if call.operation == "stat":
            return None if found is None else found[1], table
        if call.operation in ("link", "put", "write"):
            if found is not None and call.operation != "write":
                return None, table
            return stamp, table.with_file(name, (call.content, stamp))
        assert call.operation == "unlink"
        return found is not None, table.with_file(name, None)

    def _answer_of_all(self, files: dict[str, File], call: Call) -> Any:
        """Return the answer to a call that looks at the whole folder."""
        assert call.operation == "list"
        return tuple(name for name in files if _is_in_piece(name, call.content))
