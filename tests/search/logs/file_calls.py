"""Production code of one table's log, run with the file calls replaced by answers.

As in replaying.py a process is the answers that it got: the code runs from the start of its
operation with the recorded answers up to the first file call that has none. Here a call is one call
of the system (link, open and read, stat, list, unlink, fsync) or one request to a store (PUT if
absent, GET, HEAD, LIST, DELETE): whatever others do can come between two of them. All that stands
above them is the real code. A file that is written is there whole or not at all: one call.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.store import deadlines, parquet_files, roots
from kafka_on_spark.store.delta import (
    checkpoints,
    delta_files,
    delta_log,
)
from kafka_on_spark.store.delta.delta_files import hint_path, log_folder

LOCAL: Final = "/disk/table"
STORE: Final = "s3://bucket/table"

Stamp = tuple[str, int]
"""Which file it is: the operation that put it, and at which of its calls. No other file gets the same;
that what was answered before is no part of it makes equal tables one."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that waits for its answer.

    Attributes:
        operation: link, put, write, read, stat, list, unlink or flush.
        names: The files that it touches.
        content: What it writes.
    """

    operation: str
    names: tuple[str, ...] = ()
    content: Any = None

    @property
    def is_read(self) -> bool:
        return self.operation in ("read", "stat", "list", "flush")

    def sees(self, changed: frozenset[str], has_other_names: bool) -> bool:
        if self.operation == "list":
            return has_other_names
        return not changed.isdisjoint(self.names)


@dataclass(frozen=True, slots=True)
class Failed:
    """An answer that is an error.

    Attributes:
        kind: What is raised.
        message: With these words.
    """

    kind: type[Exception]
    message: str = "EIO"


class Blocked(BaseException):
    """The code stands before a call."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.call = call


class Answers:
    """The answers that an operation gets, in order."""

    def __init__(self) -> None:
        self.write_id = ""
        self._answers: Sequence[Any] = ()
        self._count = 0
        self._now: Callable[[Call], Any] = _blocked

    def begin(
        self,
        write_id: str,
        answers: Sequence[Any],
        now: Callable[[Call], Any] | None = None,
    ) -> None:
        """Start an operation with what it is answered; a commit of it has this id. `now`: answers each
        call after these; None: the first of them stops the operation."""
        self.write_id, self._answers, self._count = write_id, answers, 0
        self._now = now or _blocked

    def ask(self, operation: str, names: Iterable[str], content: Any = None) -> Any:
        if self._count == len(self._answers):
            answer = self._now(Call(operation, tuple(map(_name, names)), content))
        else:
            answer = self._answers[self._count]
            self._count += 1
        if isinstance(answer, Failed):
            raise answer.kind(answer.message)
        return answer


def _blocked(call: Call) -> Any:
    raise Blocked(call)


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


class _Local:
    """What stands in place of `local_files`."""

    def __init__(self, answers: Answers) -> None:
        self._ask = answers.ask

    def create_file(self, path: str, content: bytes, **how: bool) -> tuple[()] | None:
        return None if self._ask("link", [path], content) is None else ()

    def stamp_at(self, path: str) -> Stamp | None:
        found: Stamp | None = self._ask("stat", [path])
        return found

    def read_file(self, path: str, bytes_max: int) -> bytes:
        found = self._ask("read", [path])
        if found is None:
            raise FileNotFoundError(path)
        content: bytes = found[0]
        return content

    def size_of(self, path: str) -> int:
        if self.stamp_at(path) is None:
            raise FileNotFoundError(path)
        return 1  # nobody asks for more than whether there is one

    def time_and_size_of(self, path: str) -> tuple[int, int]:
        return self.size_of(path), 0  # no search has a clock

    def names_in(self, folder: str) -> list[str]:
        # A folder is read piece by piece, in no order: what comes or goes meanwhile may be in it.
        return [*self._ask("list", [], 1), *self._ask("list", [], 0)]

    def make_folder(self, path: str) -> bool:
        return True

    def delete_file(self, path: str) -> None:
        if not self._ask("unlink", [path]):
            raise FileNotFoundError(path)

    def flush_each(self, paths: Iterable[str]) -> None:
        wanted = [path for path in paths if f"{log_folder(LOCAL)}/" in path]
        if wanted and not self._ask("flush", wanted):
            raise KafkaStorageError("can't flush") from FileNotFoundError(wanted[0])


class _Store:
    def __init__(self, answers: Answers) -> None:
        self._ask = answers.ask

    def pipe_file(self, path: str, content: bytes, mode: str) -> dict[str, Any]:
        assert mode == "create"
        stamp = self._ask("put", [path], content)
        if stamp is None:
            raise FileExistsError(path)
        return {"ETag": stamp}

    def info(self, path: str) -> dict[str, Any]:
        found = self._ask("stat", [path])
        if found is None:
            raise FileNotFoundError(path)
        # As long as all commits of a search are, see `encoded`.
        return {"ETag": found, "LastModified": "2026-01-01", "size": COMMIT_BYTES}

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        found = self._ask("read", [path])
        if found is None:
            raise FileNotFoundError(path)
        content: bytes = found[0]
        return content

    def cat_ranges(
        self, paths: Sequence[str], start: int, end: int, *, on_error: str
    ) -> list[bytes | Exception]:
        """Read one after the other, the last one first: a store does so in any order, and one that
        was absent before those were put that it follows says the least."""
        found = [self._content_or_error(path, start, end) for path in reversed(paths)]
        return found[::-1]

    def _content_or_error(self, path: str, start: int, end: int) -> bytes | Exception:
        try:
            return self.cat_file(path, start, end)
        except Exception as error:
            return error

    def ls(self, path: str, *, detail: bool) -> list[dict[str, str | int]]:
        assert detail, "names alone are not asked for"
        return [{"name": name, "size": 0} for name in self._ask("list", [])]

    def rm_file(self, path: str) -> None:
        """Delete an object; a store does not say whether there was one."""
        self._ask("unlink", [path])


COMMIT_BYTES: Final = 900
"""All commits are padded to this: a store tells one's own commit from another's by its size first."""


def padded(commit: bytes) -> bytes:
    """Return a commit with as many bytes as all have: spaces say nothing."""
    assert len(commit) <= COMMIT_BYTES, len(commit)
    return commit[:-1] + b" " * (COMMIT_BYTES - len(commit)) + b"\n"


def hint_bytes(version: int) -> bytes:
    return b'{"version":%d}' % version


@lru_cache(maxsize=4096)
def checkpoint_bytes(counters: tuple[tuple[str, int], ...]) -> bytes:
    """Return a checkpoint: all tables of a search have the same settings, and no files."""
    add = pa.struct([("path", pa.string())])
    txn = pa.struct([("appId", pa.string()), ("version", pa.int64())])
    meta = pa.struct([("configuration", pa.map_(pa.string(), pa.string()))])
    protocol = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
    rows = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"configuration": [("kos", "search")]}},
        *({"txn": {"appId": name, "version": value}} for name, value in counters),
    ]
    remove = pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64())])
    kinds = {"add": add, "txn": txn, "metaData": meta, "protocol": protocol, "remove": remove}
    columns = {
        name: pa.array([row.get(name) for row in rows], kind) for name, kind in kinds.items()
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue().to_pybytes())


def _read_parquet(content: bytes, path: str, columns: Sequence[str]) -> Any:
    """Return what a file holds, or the error of reading it: damaged ones are read again and again."""
    try:
        return parquet_files.read_parquet(content, path, columns=columns)
    except Exception as error:
        return error


@contextmanager
def calls_answered(answers: Answers, uri: str) -> Iterator[None]:
    """Have the code of logs get its answers from `answers`; the table is at LOCAL or at STORE."""
    local, store = _Local(answers), _Store(answers)
    read_parquet = lru_cache(maxsize=4096)(_read_parquet)

    def parsed(content: bytes, path: str, *, columns: Sequence[str]) -> Any:
        found = read_parquet(content, path, tuple(columns))
        if isinstance(found, Exception):
            raise found.with_traceback(None)
        return found

    checkpoint_step = lru_cache(maxsize=4096)(delta_files.checkpoint_step)
    commit_step = lru_cache(maxsize=4096)(delta_files.commit_step)
    encode = delta_log.encode_commit

    def write(path: str, content: bytes) -> None:
        is_hint = path == hint_path(uri)
        told = hint_bytes(json.loads(content)["version"]) if is_hint else content
        answers.ask("write", [path], told)

    def counters_of(actions: Sequence[dict[str, Any]]) -> tuple[tuple[str, int], ...]:
        return tuple(sorted((each["appId"], each["version"]) for each in actions))

    replaced: list[tuple[Any, str, Any]] = [
        (roots, "local_files", local),
        (roots, "filesystem", lambda path, options: store),
        (checkpoints, "read_parquet", parsed),
        (checkpoints, "checkpoint_step", checkpoint_step),
        (delta_log, "commit_step", commit_step),
        (delta_log, "uuid4", lambda: SimpleNamespace(hex=answers.write_id)),
        (
            delta_log,
            "time",
            SimpleNamespace(time_ns=lambda: 0, sleep=lambda seconds: None),
        ),
        (delta_log, "encode_commit", lambda **of: padded(encode(**of))),
        (delta_log, "until_found", lambda ask, seconds: ask()),
        (roots.RootFiles, "write", lambda files, path, content: write(path, content)),
        (checkpoints, "_encode", lambda rows: checkpoint_bytes(counters_of(rows["txn"]))),
        # A step within a call that has begun runs in the thread that asks for it.
        (deadlines._current, "call", deadlines.Call(uri, lambda: None)),
    ]
    with ExitStack() as stack:
        for owner, name, instead in replaced:
            stack.enter_context(mock.patch.object(owner, name, instead))
        yield
