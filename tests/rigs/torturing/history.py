"""What the clients of a torture run did and saw: one line of JSON for each event, on the disk.

A client writes `invoke` before a call and its outcome after it, each flushed before it goes on, so
that a kill -9 at any moment leaves a history that is true: a call without an outcome has an unknown
one. Times are nanoseconds of the machine's monotonic clock, which all its processes share.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

INVOKE: Final = "invoke"
OK: Final = "ok"
FAIL: Final = "fail"
INFO: Final = "info"
"""Kinds of an event: a call begins; it succeeded; it certainly did nothing; nobody knows."""

APPEND: Final = "append"
POLL: Final = "poll"
END: Final = "end_offset"
CRASH: Final = "crash"
NEMESIS: Final = "nemesis"
HEALED: Final = "healed"
ENDED: Final = "ended"
"""What an event is about: calls of clients, the end of a process, a fault, the end of faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of a history."""

    kind: str
    call: str
    index: int
    process: str
    at_ns: int
    fields: Mapping[str, Any]

    @property
    def client(self) -> str:
        """The role, without the incarnation."""
        return self.process.rpartition(".")[0]


class HistoryWriter:
    """Appends one process's events to a file of its own; threads must not share it."""

    def __init__(self, folder: Path, process: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.process = process
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(folder / f"{process}.jsonl", flags, 0o644)
        self._next = 0

    def invoke(self, call: str, **fields: Any) -> int:
        """Say that a call begins; return its index."""
        index = self._next
        self._next += 1
        self._write(INVOKE, call, index, fields)
        return index

    def complete(self, index: int, call: str, kind: str, **fields: Any) -> None:
        self._write(kind, call, index, fields)

    def note(self, call: str, **fields: Any) -> None:
        self._write(INFO, call, -1, fields)

    def _write(self, kind: str, call: str, index: int, fields: Mapping[str, Any]) -> None:
        line = {
            "kind": kind,
            "call": call,
            "index": index,
            "process": self.process,
            "at_ns": time.monotonic_ns(),
            **fields,
        }
        content = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        if os.write(self._file, content) != len(content):
            raise OSError(f"the history of {self.process} can't be written whole: free the disk")
        os.fsync(self._file)


def read_file(file: Path) -> Iterator[Event]:
    """Yield a file's events; a last line that a kill has cut off is not one."""
    for line in file.read_bytes().split(b"\n")[:-1]:
        fields = json.loads(line)
        yield Event(
            kind=fields.pop("kind"),
            call=fields.pop("call"),
            index=fields.pop("index"),
            process=fields.pop("process"),
            at_ns=fields.pop("at_ns"),
            fields=fields,
        )


def read_history(folder: Path, client: str = "*") -> list[Event]:
    """Return the events of all processes, or of one role's so far, in the order of time."""
    files = sorted(folder.glob(f"{client}.*.jsonl"))
    return sorted((event for each in files for event in read_file(each)), key=lambda e: e.at_ns)
