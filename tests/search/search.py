"""Every interleaving within a scope, each state once; those with few changes of process first.

What is reduced, and why nothing is lost:

* A process is its history (replaying.py); versions, offsets and partition epochs are flags, and a
  commit that has lost is answered at once (slots.py).
* A read (of a table, of the metadata log, and the one that a process begins with) is taken as late
  as it can be (late_reads.py): right before the next effect of its own process, or right before what
  it has read is changed. Any order of steps can be brought into this one by moving reads past
  others' effects on other things, which changes no effect and nothing that anybody sees.
* Decisions that rest on the image alone (a broker fenced, or back) are one step, for that reason.
* Records are alike, so the second append does not begin before the first.
* States are inspected for what is in them; a state in which an invariant fails is not gone on from.
"""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from kafka_on_spark.metadata.metadata_service import CollectorPaused
from tests.search.environment import Environment
from tests.search.invariants import check_commit, check_register
from tests.search.late_reads import ENDED, Around, LateReads
from tests.search.programs import Acked, Appending
from tests.search.replaying import MAIN, Call, Lane, Log, Raised, no_guess
from tests.search.scope import Scope
from tests.search.slots import CrashError, Slots
from tests.search.states import ALLOWANCE, DISK, IMAGE, PAST, SLOTS, Inspector, State, changed_at
from tests.search.telling import count, told
from tests.search.world import (
    BROKERS,
    PARTITION_EPOCH,
    Found,
    Past,
    Violation,
    World,
    committed_by,
    past_after,
    require,
)


class Search:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.world = World(scope)
        self.slots = Slots(self.world.states, self.world.images)
        self.environment = Environment(self.world)
        self.inspector = Inspector(scope, self.world, self.slots, self.environment)
        programs = scope.programs()
        self._idle = [self.slots.idle(each) for each in programs]
        self.reads = LateReads(self.world, self.slots)
        self.ways: dict[State, Any] = {}
        self._last: State = ()
        self._may_be_late = [scope.is_late(each) for each in programs]
        self._commits: dict[tuple[int, Lane, int, int], tuple[int, int]] = {}
        self._appends: dict[tuple[int, int], tuple[int, int, int]] = {}
        self._registers: dict[tuple[int, ...], int | None] = {}

    def first(self) -> State:
        world = self.world
        disks = [world.first_disk(each) for each in BROKERS]
        past, allowance = world.past_number(Past()), self.environment.first()
        return (world.first_image(), *disks, past, allowance, *self._idle)

    def run(self, states_max: int = 100_000_000) -> Found:
        """Visit every state; stop at the first violation."""
        with (
            CollectorPaused()
        ):  # nothing here is a cycle, and millions of tuples take long to go through
            self.slots.guess = self.reads.guess
            found = self._run(states_max)
            self.slots.guess = no_guess
        return found

    def _run(self, states_max: int) -> Found:
        first = self.first()
        self.ways = {first: None}
        queue = deque([(first, -1)])
        found = Found()
        while queue and len(self.ways) < states_max and found.violation is None:
            state, mover = self._next(queue)
            self._last, self.reads.around = state, state[:PAST]
            try:
                for after, place in self._new_states(state, found):
                    if place == mover:
                        queue.appendleft((after, place))
                    else:
                        queue.append((after, place))
            except (Violation, CrashError) as error:
                found.violation = getattr(error, "invariant", "crash")
                found.message, found.path = str(error), told(self, self._last)
        found.is_whole = not queue and found.violation is None
        found.states = len(self.ways)
        for state, times in self._kinds():
            count(self, state, times, found.seen)
        return found

    def _kinds(self) -> Iterator[tuple[State, int]]:
        """Yield a state of each kind, and how many there are: they differ in nothing that is counted."""
        ended, examples, times = self.slots.ended, {}, Counter[tuple[int, ...]]()
        for state in self.ways:
            kind = (state[IMAGE], state[PAST], *[ended[each] for each in state[SLOTS:]])
            examples[kind] = state
            times[kind] += 1
        yield from ((state, times[kind]) for kind, state in examples.items())

    def _next(self, queue: deque[tuple[State, int]]) -> tuple[State, int]:
        return queue.popleft()

    def _new_states(self, state: State, found: Found) -> Iterator[tuple[State, int]]:
        """Yield each state that one step leads to and that was not visited, with the process that moved."""
        for label, after in self.steps(state):
            if after in self.ways:
                continue
            self.ways[after] = (state, label)
            self._last = after
            self.inspector.check(after)
            self._last = state
            yield after, label[0] if isinstance(label[0], int) else -1

    def steps(self, state: State) -> Iterator[tuple[Any, State]]:
        """Yield each step from `state`, and where it leads."""
        around = state[:PAST]
        for place in range(SLOTS, len(state)):
            number = self._begun(state, place)
            if number is None:
                continue
            for moved, index in self.reads.moves(number, around):
                for after in self._effects(state, place, moved, index):
                    yield (place, moved, index), after
        for label, image, disks, allowance in self.environment.events(state):
            yield from self._environment_steps(state, label, image, disks, allowance)

    def _begun(self, state: State, place: int) -> int | None:
        """Return the process at `place`, begun now if it was not; None if it may not begin."""
        number = state[place]
        if not self.slots.ready[number]:
            return number
        program = self.slots.slots[number].program
        if isinstance(program, Appending) and program.carried.is_first:
            if place > SLOTS and state[place - 1] == self._idle[place - 1 - SLOTS]:
                return None
            offsets = [offset for _, offset in self.inspector.acked(state)]
            number = self.slots.idle(replace(program, after=max(offsets, default=-1)))
        return self.reads.begin(number, state[IMAGE])

    def _effects(self, state: State, place: int, number: int, index: int) -> Iterator[State]:
        """Yield what the call of a process leads to: one state for each choice of reads by others."""
        if index == ENDED:
            yield self._acknowledged(changed_at(state, place, number), place, number)
            return
        lane, call = self.slots.calls[number][index]
        if call.operation == "append":
            yield from self._append(state, place, number, call)
        elif call.operation == "make":
            yield from self._make(state, place, number, lane, call)
        else:
            yield from self._commit(state, place, number, lane, call)

    def _commit(
        self, state: State, place: int, number: int, lane: Lane, call: Call
    ) -> Iterator[State]:
        assert call.address is not None
        at = DISK + call.address.broker_id - 1
        for others in self._others_have_read(state, place, at):
            for own in self.reads.earlier(number, at, state[:PAST], but=lane):
                disk, after = self._committed(own, lane, state[at], state[PAST])
                changed = list(others)
                changed[at] = disk
                for other in range(SLOTS, len(state)):
                    if other == place:
                        changed[other] = after
                    else:
                        changed[other] = self.slots.overtaken(others[other], at)
                yield self._acknowledged(tuple(changed), place, number)

    def _make(
        self, state: State, place: int, number: int, lane: Lane, call: Call
    ) -> Iterator[State]:
        assert call.address is not None
        at = DISK + call.address.broker_id - 1
        disk, answer = self.world.with_made(state[at], call.address, call.content)
        for others in self._others_have_read(state, place, at):
            yield changed_at(
                changed_at(others, at, disk), place, self.slots.answer(number, lane, answer)
            )

    def _others_have_read(self, state: State, place: int, at: int) -> list[State]:
        """Return `state`, and it with every choice of processes that have read `at` before it changes.

        A read comes as late as it can: with what its process does next, or here.
        """
        around, is_alone = state[:PAST], True
        choices = []
        for other in range(SLOTS, len(state)):
            ways = [state[other]]
            if other != place and self._may_be_late[other - SLOTS]:
                ways = self._ways_before(state, other, at, around)
                is_alone = is_alone and len(ways) == 1
            choices.append(ways)
        if is_alone:
            return [state]
        return [(*state[:SLOTS], *chosen) for chosen in product(*choices)]

    def _ways_before(self, state: State, place: int, at: int, around: Around) -> list[int]:
        """Return what the process at `place` may be right before `at` changes."""
        number = state[place]
        if not self.slots.ready[number]:
            return self.reads.earlier(number, at, around)
        begun = self._begun(state, place)
        if begun is None:
            return [number]
        first = [number, begun] if at == IMAGE and begun != number else [number]
        return first + self.reads.earlier(begun, at, around)[1:]

    def _committed(self, number: int, lane: Lane, disk_number: int, past: int) -> tuple[int, int]:
        """Return disk and process after the commit that `lane` of a process stands before."""
        key = (number, lane, disk_number, past)
        known = self._commits.get(key)
        if known is not None:
            return known
        world = self.world
        call = next(each for at, each in self.slots.calls[number] if at == lane)
        assert call.address is not None
        disk = world.disks.values[disk_number]
        found = disk.table(call.address)
        assert not isinstance(found, Raised), "a task that has lost its table has lost its commit"
        before = world.states.values[found]
        after = committed_by(before, call.content)
        check_commit(
            call.address.broker_id,
            before,
            call.content,
            after,
            past=world.pasts.values[past],
            removed=disk.removed_by(call.address.replica_uuid),
        )
        answer = world.states.number(after)
        known = self._commits[key] = (
            world.disk_number(disk.with_commit(before, after, answer)),
            self.slots.answer(number, lane, Log(answer)),
        )
        return known

    def _append(self, state: State, place: int, number: int, call: Call) -> Iterator[State]:
        """Commit to the metadata log, unless that leads out of the scope."""
        key = (number, state[IMAGE])
        known = self._appends.get(key)
        if known is None:
            before = self.world.images.values[state[IMAGE]]
            image, epoch = self.world.image_after(before, call.content, call.partition_epoch)
            after = self.slots.answer(number, MAIN, "committed")
            known = self._appends[key] = (self.world.images.number(image), epoch, after)
        image, epoch, after = known
        for others in self._others_have_read(state, place, IMAGE):
            changed = self._with_image(others, image, epoch == PARTITION_EPOCH, but=place)
            if changed is not None:
                yield self._acknowledged(changed_at(changed, place, after), place, number)

    def _acknowledged(self, state: State, place: int, number: int) -> State:
        """Check an acknowledgement that a step has led to (H7); return the state."""
        if self.slots.ended[state[place]] < 0:
            return state
        result = self.slots.slots[state[place]].program
        if isinstance(result, Acked) and result.base_offset is not None:
            after = result.after
            is_later = result.is_duplicate or result.base_offset > after
            require(is_later, "H7 real time order", f"acked at {result}, begun after {after}")
        return state

    def _environment_steps(
        self, state: State, label: Any, image: int, disk: int, allowance: int
    ) -> Iterator[tuple[Any, State]]:
        at = DISK + label[1] - 1
        changes = IMAGE if image != state[IMAGE] else at
        for others in self._others_have_read(state, -1, changes):
            changed: State | None = changed_at(others, ALLOWANCE, allowance)
            if image != state[IMAGE]:
                changed = self._with_image(others, image, is_same_epoch=False)
            if changed is None:
                continue
            changed = changed_at(changed_at(changed, at, disk), ALLOWANCE, allowance)
            if changes == at:
                late = [self.slots.overtaken(each, at) for each in changed[SLOTS:]]
                changed = (*changed[:SLOTS], *late)
            yield label, changed

    def _with_image(
        self, state: State, image: int, is_same_epoch: bool, but: int = -1
    ) -> State | None:
        """Return the state with another image: what that commits, and whom it leaves behind."""
        key = (*state[:ALLOWANCE], self.inspector.losses(state), image)
        if key not in self._registers:
            self._registers[key] = self._past_with(state, image)
        past = self._registers[key]
        if past is None:
            return None
        changed = list(state)
        changed[IMAGE], changed[PAST] = image, past
        for place in range(SLOTS, len(state)):
            if place != but:
                changed[place] = self.slots.moved(state[place], is_same_epoch)
        return tuple(changed)

    def _past_with(self, state: State, image: int) -> int | None:
        """Check a commit that puts `image` in place of the state's; return the past after it, or None
        if it leads out of the scope."""
        before, after = (self.world.registration(each) for each in (state[IMAGE], image))
        if after.leader_epoch > self.scope.epoch_max:
            return None
        logs = self.inspector.logs(state, before)
        past = self.world.pasts.values[state[PAST]]
        check_register(
            before,
            after,
            min_isr=self.scope.min_isr,
            losses=self.inspector.losses(state),
        )
        return self.world.past_number(past_after(past, before, after, logs))


def search(scope: Scope, states_max: int = 100_000_000) -> Found:
    with CollectorPaused():  # until the states are gone
        return Search(scope).run(states_max)
