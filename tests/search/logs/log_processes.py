"""Processes that use one table: what each does, what it knows of the table, and what it was told.

A process is a number: of its program, of what it knows between two operations, and of the answers
that it got in this one. Whoever got the same answers is the same process, so each piece of code is
run once, however many states it occurs in.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.store.delta import log_cleaning
from kafka_on_spark.store.delta.delta_files import TableState
from kafka_on_spark.store.delta.delta_log import DeltaLog
from kafka_on_spark.store.roots import RootFiles, StorageOptions
from tests.search.logs.file_calls import Answers, Blocked, Call, Stamp

OPTIONS: Final = StorageOptions()
SCHEMA: Final = pa.schema([("base_offset", pa.int64())])
CONFIGURATION: Final = {"kos": "search"}

Counters = tuple[tuple[str, int], ...]
"""What a table holds here: a counter for each commit, named by its write id, set to its version."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a process knows of a table between two operations: the fields of a DeltaLog.

    Attributes:
        version: The newest that it found or wrote; -1: none.
        counters: What the table holds there; None: it is opened anew next time.
        newest: Which file the newest commit is.
        checkpoint: The newest version up to which no checkpoint is due.
        turn: The newest version that it put and that had it write a due checkpoint.
    """

    version: int = -1
    counters: Counters | None = None
    newest: Stamp | None = None
    checkpoint: int = -1
    turn: int = -1

    @classmethod
    def of(cls, log: DeltaLog) -> "Known":
        state: Any = log._state
        counters = None if state is None else tuple(sorted(state.counters.items()))
        newest: Any = log._newest
        assert state is None or state.version == log.version
        return cls(log.version, counters, newest, log._checkpoint_version, log._turn)

    def log(self, uri: str) -> DeltaLog:
        log = DeltaLog(uri, OPTIONS)
        log.version, log._newest = self.version, self.newest
        log._checkpoint_version, log._turn = self.checkpoint, self.turn
        if self.counters is not None:
            log._state = TableState(
                version=self.version,
                counters=dict(self.counters),
                configuration=dict(CONFIGURATION),
            )
        return log


@dataclass(frozen=True, slots=True)
class Told:
    """What an operation came to.

    Attributes:
        operation: Which it was.
        outcome: "done", or what was raised: "conflict", "unknown", "lost", "corrupt", "failed".
        write_id: Of a commit.
        at_version: The version that it was decided on, or that was asked for.
        known: What the process knows since.
        message: What was raised, in words.
    """

    operation: str
    outcome: str
    write_id: str
    at_version: int
    known: Known
    message: str = field(default="", compare=False)


_OUTCOMES: Final = (
    (CommitConflictError, "conflict"),
    (CommitOutcomeUnknownError, "unknown"),
    (ReplicaLostError, "lost"),
    (CorruptLogError, "corrupt"),
    (KafkaStorageError, "failed"),
    (OSError, "failed"),
)


@dataclass(frozen=True, slots=True)
class Process:
    """A process at a call, or at its end.

    Attributes:
        name: Its own.
        program: The operations that are not done.
        known: What it knew when this one began.
        floor: The newest version of the table when it began; None: it has not begun.
        answers: What its calls were answered.
        done: How many operations are.
    """

    name: str
    program: tuple[str, ...]
    known: Known = Known()
    floor: int | None = None
    answers: tuple[Any, ...] = ()
    done: int = 0

    @property
    def write_id(self) -> str:
        """Of the commit that this operation may make."""
        return f"{self.name}{self.done}"

    @property
    def stamp(self) -> Stamp:
        """Of the file that its next call may put."""
        return self.write_id, len(self.answers)


def _after(process: Process, told: Told) -> Process:
    """Return a process after an operation; after the last one it is the same, whatever it knew."""
    rest = process.program[1:]
    return replace(
        process,
        program=rest,
        known=told.known if rest else Known(),
        floor=None,
        answers=(),
        done=process.done + 1,
    )


class Processes:
    """All processes that occur in a search, by number."""

    def __init__(self, uri: str, answers: Answers) -> None:
        self._uri = uri
        self._answers = answers
        self._files = RootFiles(uri, OPTIONS)
        self._numbers: dict[Process, int] = {}
        self._answered: dict[Any, tuple[int, Told | None]] = {}
        self.processes: list[Process] = []
        self.calls: list[Call | None] = []

    def number(self, process: Process) -> int:
        """Return the number of a process that is about to begin its next operation. One that needs
        no call, such as a checkpoint that is not due, is done at once."""
        while process.program:
            told = self._run(process)
            if isinstance(told, Call):
                return self._kept(process, told)
            process = _after(process, told)
        return self._kept(process, None)

    def _kept(self, process: Process, call: Call | None) -> int:
        number = self._numbers.get(process)
        if number is None:
            number = self._numbers[process] = len(self.processes)
            self.processes.append(process)
            self.calls.append(call)
        return number

    def answered(self, number: int, answer: Any, newest: int) -> tuple[int, Told | None]:
        """Return a process after its call was answered, and what its operation came to if that was
        the last one. `newest`: the table's newest version when it was called."""
        process = self.processes[number]
        floor = newest if process.floor is None else process.floor
        key = (number, floor, answer)
        found = self._answered.get(key)
        if found is None:
            answers = (*process.answers, answer)
            found = self._answered[key] = self._next(replace(process, floor=floor, answers=answers))
        return found

    def _next(self, process: Process) -> tuple[int, Told | None]:
        told = self._run(process)
        if isinstance(told, Call):
            return self._kept(process, told), None
        return self.number(_after(process, told)), told

    def alone(self, process: Process, answer: Callable[[Call], Any]) -> Told:
        """Return what an operation comes to each of whose calls is answered at once. It is run once,
        not once a call."""
        told = self._run(process, answer)
        assert isinstance(told, Told), f"{told} has no answer"
        return told

    def _run(self, process: Process, now: Callable[[Call], Any] | None = None) -> Call | Told:
        """Run an operation up to the first call without answer, or to its end."""
        log, operation = process.known.log(self._uri), process.program[0]
        self._answers.begin(process.write_id, process.answers, now)
        outcome, message = "done", ""
        try:
            made = self._operate(operation, log, process)
            log = made if isinstance(made, DeltaLog) else log
            outcome = "no" if made is False else "done"
        except Blocked as blocked:
            return blocked.call
        except tuple(kind for kind, _ in _OUTCOMES) as error:
            outcome = next(name for kind, name in _OUTCOMES if isinstance(error, kind))
            message = str(error)
        at_version = process.known.version
        return Told(operation, outcome, process.write_id, at_version, Known.of(log), message)

    def _operate(self, operation: str, log: DeltaLog, process: Process) -> Any:
        if operation == "commit":
            return log.commit(
                log.version, operation="test", counters={process.write_id: log.version + 1}
            )
        if operation == "refresh":
            return log.refresh()
        if operation == "ask":
            return log.is_still_at(log.version)
        if operation == "checkpoint":
            return log.checkpoint_if_due()
        if operation == "clean":
            return log_cleaning.clean_log(self._files, self._uri)
        assert operation == "create"
        return DeltaLog.create(
            self._uri,
            OPTIONS,
            schema=SCHEMA,
            partition_by=[],
            configuration=CONFIGURATION,
            counters={process.write_id: 0},
        )
