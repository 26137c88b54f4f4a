"""Processes as numbers, and what becomes of them: by an answer, or by what others commit.

Which commits may still win is part of a process: a state that it has loaded is the table's newest,
or it is not and never will be again. So no state needs a version, the metadata log no offset and
the partition no epoch of its own (all of them would grow for ever): others' commits switch flags
off. A commit that has lost is answered at once. That loses nothing: its answer changes nothing
that others see, and is the same however long it takes (13 times fewer states).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from kafka_on_spark.base.errors import CommitConflictError
from tests.search.programs import LATE_MS, Appending, Program, Replicating
from tests.search.replaying import (
    MAIN,
    AtMap,
    Call,
    Finished,
    Images,
    Lane,
    Log,
    News,
    Process,
    Raised,
    States,
    Waiting,
    no_guess,
)

CONFLICT = Raised(CommitConflictError, "the version is taken")

Handle = tuple[Lane, int, int, bool]
"""(lane, its answer, broker, whether it is the table's newest)."""

Calls = tuple[tuple[Lane, Call], ...]
"""The calls that a process stands before, by lane."""


class CrashError(Exception):
    """Production code raised what it must never raise."""


class Slot(NamedTuple):
    """A process: what it runs, the answers so far, and which of them still hold.

    Attributes:
        program: What it runs.
        image: Number of the image it was started with; None: it has not begun.
        history: Answers by lane.
        handles: Reads of tables that a commit may rest on.
        is_image_current: Nothing was committed to the metadata log since its last read.
        is_partition_current: The partition's epoch has not changed since that read.
    """

    program: Any
    image: int | None = None
    history: tuple[tuple[Lane, Any], ...] = ()
    handles: tuple[Handle, ...] = ()
    is_image_current: bool = False
    is_partition_current: bool = False


class Slots:
    """All processes that occur in a search, by number."""

    def __init__(self, states: States, images: Images) -> None:
        self._states = states
        self._images = images
        self._numbers: dict[Slot, int] = {}
        self._stages: dict[Any, Any] = {}
        self._moved: dict[tuple[int, bool], int] = {}
        self._overtaken: dict[tuple[int, int], int] = {}
        self.slots: list[Slot] = []
        self.calls: list[Calls] = []
        self.lanes: list[dict[Lane, tuple[int, Call]]] = []
        self.ready: list[bool] = []
        self.ended: list[int] = []
        self.guess: Callable[[Call, bool], Any] = no_guess
        self._is_same_epoch = False

    def idle(self, program: Program) -> int:
        """Return the process that is about to begin `program`."""
        return self._number(Slot(program), ())

    def begin(self, number: int, image: int) -> int:
        """Return the process after its first read of the metadata log found `image`."""
        slot = self.slots[number]
        return self._run_until_blocked(
            slot._replace(image=image, is_image_current=True, is_partition_current=True)
        )

    def answer(self, number: int, lane: Lane, answer: Any) -> int:
        """Return the process after `lane` got its answer."""
        answered = self._answered(self.slots[number], self.calls[number], lane, answer)
        return self._run_until_blocked(answered)

    def overtaken(self, number: int, broker_id: int) -> int:
        """Return the process after somebody else's commit to the replica on `broker_id`."""
        place = (number, broker_id)
        known = self._overtaken.get(place)
        if known is None:
            slot = self.slots[number]
            handles = tuple(
                (lane, index, broker, is_newest and broker != broker_id)
                for lane, index, broker, is_newest in slot.handles
            )
            same = handles == slot.handles
            known = number if same else self._run_until_blocked(slot._replace(handles=handles))
            self._overtaken[place] = known
        return known

    def moved(self, number: int, is_same_epoch: bool) -> int:
        """Return the process after somebody else's commit to the metadata log."""
        place = (number, is_same_epoch)
        known = self._moved.get(place)
        if known is None:
            slot, known = self.slots[number], number
            if slot.is_image_current or (slot.is_partition_current and not is_same_epoch):
                is_current = slot.is_partition_current and is_same_epoch
                known = self._run_until_blocked(
                    slot._replace(is_image_current=False, is_partition_current=is_current)
                )
            self._moved[place] = known
        return known

    def _answered(self, slot: Slot, calls: Calls, lane: Lane, answer: Any) -> Slot:
        """Return a process that stands before `calls` after one of them got its answer."""
        history = dict(slot.history)
        index = len(history.get(lane, ()))
        history[lane] = (*history.get(lane, ()), answer)
        call = next(each for at, each in calls if at == lane)
        handles = slot.handles
        is_image, is_partition = slot.is_image_current, slot.is_partition_current
        if isinstance(answer, Log):
            assert call.address is not None
            broker_id = call.address.broker_id
            if call.operation == "commit":
                handles = tuple((*each[:3], each[3] and each[2] != broker_id) for each in handles)
            handles = (*handles, (lane, index, broker_id, True))
        elif isinstance(answer, News) or (call.operation == "append" and answer == "committed"):
            is_image = is_partition = True
        return slot._replace(
            history=tuple(sorted(history.items())),
            handles=handles,
            is_image_current=is_image,
            is_partition_current=is_partition,
        )

    def _run_until_blocked(self, slot: Slot) -> int:
        """Run `slot` on until all its calls wait for others; return its number."""
        known = self._numbers.get(slot)
        while known is None:
            outcome = self._run(slot)
            if isinstance(outcome, Finished):
                return self._number(Slot(outcome.result), ())
            finished, calls = outcome
            slot = _without_dead(_with_finished(slot, finished), calls)
            lost = next((each for each in calls if _has_lost(slot, *each)), None)
            if lost is None:
                return self._number(slot, calls)
            slot = self._answered(slot, calls, lost[0], CONFLICT)
            known = self._numbers.get(slot)
        return known

    def _number(self, slot: Slot, calls: Calls) -> int:
        number = self._numbers.get(slot)
        if number is None:
            number = self._numbers[slot] = len(self.slots)
            self.slots.append(slot)
            self.calls.append(calls)
            self.lanes.append({at: (place, call) for place, (at, call) in enumerate(calls)})
            self.ready.append(slot.image is None and isinstance(slot.program, Program))
            self.ended.append(-1 if isinstance(slot.program, Program) else number)
        return number

    def _run(self, slot: Slot) -> Any:
        """Return what a process did up to its calls without answers: its result, or those, with
        the lanes that have ended."""
        history = dict(slot.history)
        ended: dict[Lane, Finished] = {}
        self._is_same_epoch = slot.is_partition_current
        while True:
            stage = self._stage(slot.program, slot.image, history.get(MAIN, ()), ended)
            if isinstance(stage, Finished):
                return stage
            if isinstance(stage, Call):
                return ended, ((MAIN, stage),)
            lanes = [(stage.at.number, place) for place in range(len(stage.at.items))]
            outcomes = [self._lane(stage, lane, history.get(lane, ())) for lane in lanes]
            pairs = list(zip(lanes, outcomes, strict=True))
            ended |= {lane: each for lane, each in pairs if isinstance(each, Finished)}
            calls = tuple((lane, each) for lane, each in pairs if isinstance(each, Call))
            if calls:
                return ended, calls

    def _stage(
        self, program: Any, image: int | None, answers: Any, ended: dict[Lane, Finished]
    ) -> Any:
        """Return where the main lane comes to: its result, a call, or a map."""
        key = (program, image, tuple(sorted(ended.items())))
        stages = self._stages.get(key)
        if stages is None:
            stages = self._stages[key] = {}
        known = stages.get(answers)
        if known is None:
            process = self._process(program, image, {**ended, MAIN: answers})
            known = self._kept(stages, answers, process, lambda: _outcome(program, process))
        return known

    def _process(self, program: Any, image: int | None, history: dict[Lane, Any]) -> Process:
        assert image is not None
        is_round = isinstance(program, Replicating)
        return Process(
            self._states,
            self._images,
            self._images.values[image],
            history,
            late_ms=LATE_MS if is_round else 0,
            fresh_reads=1 if is_round else 0,
        )

    def _lane(self, stage: "_Stage", lane: Lane, answers: Any) -> "Finished | Call":
        if isinstance(answers, Finished):
            return answers
        known: Finished | Call | None = stage.lanes[lane].get(answers)
        if known is None:
            process = stage.process
            run = partial(process.run_lane, stage.at, lane[1], answers)
            known = self._kept(stage.lanes[lane], answers, process, run)
        return known

    def _kept(
        self, outcomes: dict[Any, Any], answers: Any, process: Process, run: Callable[[], Any]
    ) -> Any:
        """Run a lane, and keep where it comes to, by the answers: also where it would after guesses."""
        process.guess = lambda call: self.guess(call, self._is_same_epoch)
        try:
            outcome = run()
        except Exception as error:
            if not process.passed:
                raise CrashError(f"{type(error).__name__}: {error}") from error
            # What was guessed may be what can't be.
            outcomes[answers] = process.passed[0][1]
            return outcomes[answers]
        finally:
            process.guess = no_guess
        for before, call in process.passed:
            outcomes[before] = call
        outcomes.setdefault(process.answers, outcome)
        return outcomes[answers]


@dataclass(frozen=True, slots=True)
class _Stage:
    """A process at a map: what runs its lanes, and where each comes to by its answers."""

    process: Process
    at: AtMap
    lanes: dict[Lane, dict[Any, Any]]


def _outcome(program: Any, process: Process) -> "Finished | Call | _Stage":
    """Run a program to its end, a call, or a map."""
    try:
        return Finished(program.run(process))
    except Waiting as waiting:
        return waiting.call
    except AtMap as at:
        at.__traceback__ = at.__context__ = None  # they keep all that the run had in its hands
        return _Stage(process, at, {(at.number, place): {} for place in range(len(at.items))})


def _with_finished(slot: Slot, finished: dict[Lane, Finished]) -> Slot:
    if not finished:
        return slot
    history = {**dict(slot.history), **finished}
    return slot._replace(history=tuple(sorted(history.items())))


def _without_dead(slot: Slot, calls: Calls) -> Slot:
    """Drop what no commit can rest on any more, so that it does not tell states apart.

    Before a commit those are the reads that came later than its own, and others of its table;
    before a read of a table, the earlier ones of it. That production code goes on so is checked: a
    commit that rests on a read that was dropped fails the search.
    """
    handles = []
    for lane, index, broker_id, is_newest in slot.handles:
        call = next((each for at, each in calls if at == lane), None)
        if call is None:
            continue
        if call.address is None:
            # An append reads its log, then the metadata, and commits to the log.
            if call.operation == "read" and isinstance(slot.program, Appending):
                handles.append((lane, index, broker_id, is_newest))
            continue
        is_its_table = call.address.broker_id == broker_id
        if call.operation == "load" and is_its_table:
            continue
        if call.operation == "commit" and call.handle != index:
            assert call.handle is not None
            if is_its_table or index > call.handle:
                continue
        handles.append((lane, index, broker_id, is_newest))
    return slot._replace(handles=tuple(handles))


def _has_lost(slot: Slot, lane: Lane, call: Call) -> bool:
    """Return whether `call` is a commit that can't win any more."""
    if call.operation == "append":
        return not slot.is_image_current
    if call.operation != "commit":
        return False
    assert call.address is not None
    wanted = (lane, call.handle, call.address.broker_id)
    known = [each for each in slot.handles if each[:3] == wanted]
    assert known, f"a commit rests on a read that was dropped: {call}"
    return not known[0][3]
