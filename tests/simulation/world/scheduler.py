"""Which task runs next: greenlets for processes, one virtual clock, every port call a switch.

A node is an operating system's process: a driver, or an executor's worker. Its tasks are
greenlets. A task runs alone until its next port call; there it waits until the simulation
resumes it, and only then the call takes effect, perhaps with a fault. So a process may be
stopped, killed or overtaken before each effect, and nowhere else, which loses nothing: what lies
between two port calls touches nothing that others see.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Final

import greenlet

from kafka_on_spark.base.errors import KafkaOnSparkError, KafkaStorageError

STEP_MS: Final = 2
"""Virtual time that a port call takes."""

HANG_MS: Final = 1000.0
"""How long a call is waited for that does not come back."""

IMPATIENT: Final = 0.1
"""How often an append goes on before its tries have ended."""

STARTED_AT_MS: Final = 1_700_000_000_000


class KilledError(BaseException):
    """The process is gone. No handler of the code under test may catch it."""


_FOR_WAITERS: Final = (KilledError, KafkaOnSparkError)
"""How a task may end without being a finding: its waiters are told."""


class Violation(BaseException):
    """An invariant does not hold. No handler of the code under test may catch it."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant


def program_of(name: str) -> str:
    return name.split("-")[0]


class Node:
    """A process. What it keeps in memory goes with it.

    Attributes:
        name: Unique for ever: a process that is started again has another.
        program: What it runs.
        rng: Its own randomness, so that other nodes' steps do not shift it.
        skew_ms: Its wall clock is wrong by this.
        is_frozen: Stopped (SIGSTOP, a long pause of the collector); others go on.
        was_frozen: It was, at least once: a zombie when it goes on.
        cut_off: Roots that it can't reach, though others do, and by what error.
        waits_for: Partitions that it is appending to, as (topic id, number).
    """

    def __init__(self, name: str, seed: int, skew_ms: int = 0) -> None:
        self.name = name
        self.program = program_of(name)
        self.rng = random.Random(f"{seed}/{name}")
        self.skew_ms = skew_ms
        self.is_alive = True
        self.is_frozen = False
        self.was_frozen = False
        self.cut_off: dict[str, type[KafkaStorageError]] = {}
        self.waits_for: set[tuple[str, int]] = set()
        self.uuid_count = 0
        self.child_count = 0

    def new_uuid(self) -> str:
        """Return an id that nobody else makes."""
        self.uuid_count += 1
        return f"{self.name.replace('-', '')}x{self.uuid_count}"

    def child_name(self, kind: str) -> str:
        self.child_count += 1
        return f"{self.name}.{kind}{self.child_count}"


class Task:
    """One greenlet of a node.

    Attributes:
        program: What it runs if it is the first of its node, or None.
        wake_ms: It sleeps until then; None: it does not sleep.
        awaited: How many tasks it waits for that have not ended; it runs when none is left.
        waiters: Tasks that wait for it.
        operation: The port call that it stands before.
        stood_ms: Since when: what it decided by then, it knows.
        root: The root which that call touches, or None.
        result: What its body returned.
        error: What its body raised, if that is for its waiters.
    """

    def __init__(
        self, name: str, node: Node, body: Callable[[], Any], hub: greenlet.greenlet
    ) -> None:
        self.name = name
        self.node = node
        self.program = None if "." in name else program_of(name)
        self.wake_ms: float | None = None
        self.awaited = 0
        self.waiters: list[Task] = []
        self.operation = "start"
        self.stood_ms = 0.0
        self.root: Any = None
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._body = body
        self.greenlet = greenlet.greenlet(self._run, hub)

    def _run(self, _: str | None = None) -> None:
        try:
            self.result = self._body()
        except BaseException as error:
            self.error = error
        self.is_done = True


class Scheduler:
    """All tasks and the clock. It decides nothing: the simulation says which task is resumed.

    Attributes:
        now_ms: The clock.
        tasks: Those that have not ended, by name.
        ended: How many have.
        current: The one that runs.
        calls: Port calls so far.
    """

    def __init__(self) -> None:
        self.ended = 0
        self.now_ms = 0.0
        self.tasks: dict[str, Task] = {}
        self.current: Task | None = None
        self.calls = 0
        self._hub = greenlet.getcurrent()

    def spawn(self, name: str, node: Node, body: Callable[[], Any]) -> Task:
        """Start a task; it waits for its first turn."""
        assert name not in self.tasks, name
        task = Task(name, node, body, self._hub)
        self.tasks[name] = task
        return task

    def ready(self) -> list[Task]:
        now_ms = self.now_ms
        return [
            task
            for task in self.tasks.values()
            if not task.awaited
            and (task.wake_ms is None or task.wake_ms <= now_ms)
            and not task.node.is_frozen
        ]

    def next_sleeper(self) -> Task | None:
        sleepers = [
            task
            for task in self.tasks.values()
            if task.wake_ms is not None and not task.node.is_frozen
        ]
        return min(sleepers, key=lambda task: task.wake_ms or 0.0, default=None)

    def resume(self, task: Task, fault: str | None) -> None:
        """Let `task` do its port call and what follows, up to its next one."""
        if task.wake_ms is not None:
            self.now_ms = max(self.now_ms, task.wake_ms)
            task.wake_ms = None
        self.now_ms += STEP_MS
        self._switch(task, task.greenlet.switch, fault)

    def _switch(self, task: Task, switch: Callable[[Any], Any], given: Any) -> None:
        before, self.current = self.current, task
        try:
            switch(given)
        finally:
            self.current = before
        if task.is_done:
            self._end(task)
            if task.error is not None and not isinstance(task.error, _FOR_WAITERS):
                raise task.error

    def _end(self, task: Task) -> None:
        del self.tasks[task.name]
        self.ended += 1
        for waiter in task.waiters:
            waiter.awaited -= 1

    def kill(self, node: Node) -> None:
        """End a node at once: none of its tasks does anything more."""
        node.is_alive = False
        for task in [each for each in self.tasks.values() if each.node is node]:
            if task.greenlet.gr_frame is None and not task.greenlet:
                task.is_done, task.error = True, KilledError()
                self._end(task)
            else:
                self._switch(task, task.greenlet.throw, KilledError())

    def end(self) -> None:
        """Let go of every task that is left, without another effect."""
        for task in list(self.tasks.values()):
            if task.node.is_alive:
                self.kill(task.node)

    def call(self, operation: str, root: Any = None) -> str | None:
        """Stand before a port call until resumed; return the fault that it meets, or None."""
        task = self._running()
        task.operation, task.root, task.stood_ms = operation, root, self.now_ms
        self.calls += 1
        fault: str | None = self._hub.switch()
        self._check_alive(task)
        if fault == "hung":
            # Its thread is left behind at a deadline, and the caller goes on.
            self.sleep(HANG_MS)
            return fault
        if fault == "slow":
            self.sleep(100.0 * (1 + task.node.rng.randrange(40)))
            return None
        error = None if root is None else task.node.cut_off.get(root.url)
        if error is not None:
            raise error("this process can't reach the root")
        return fault

    def sleep(self, duration_ms: float) -> None:
        task = self._running()
        task.operation, task.root = "sleep", None
        task.wake_ms = self.now_ms + duration_ms
        self._hub.switch()
        self._check_alive(task)

    def wait_for(self, tasks: Sequence[Task]) -> None:
        task, left = self._running(), [each for each in tasks if not each.is_done]
        if not left:
            return
        for each in left:
            each.waiters.append(task)
        task.operation, task.root, task.awaited = "wait", None, len(left)
        self._hub.switch()
        self._check_alive(task)

    def _running(self) -> Task:
        assert self.current is not None, "a port was called outside of any process"
        self._check_alive(self.current)
        return self.current

    def _check_alive(self, task: Task) -> None:
        if not task.node.is_alive:
            raise KilledError


class Clock:
    """The Clock port of one node."""

    def __init__(self, scheduler: Scheduler, node: Node) -> None:
        self._scheduler = scheduler
        self._node = node

    def now_ms(self) -> int:
        """Return the node's wall clock, which may be wrong."""
        return STARTED_AT_MS + int(self._scheduler.now_ms) + self._node.skew_ms

    def monotonic_ms(self) -> int:
        return int(self._scheduler.now_ms)

    def sleep_ms(self, duration_ms: float) -> None:
        self._scheduler.sleep(duration_ms)


class Lock:
    """A lock between greenlets: an RLock is re-entrant for all greenlets of a thread.

    Replaces the lock of a MetadataService, which guards it against threads of its process.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._holder: Task | None = None
        self._depth = 0

    def __enter__(self) -> None:
        task = self._scheduler.current
        while self._holder is not None and self._holder is not task and not self._holder.is_done:
            self._scheduler.sleep(1)
        self._holder = task
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._holder = None


class Threads:
    """What an Append needs of its threads, each call a greenlet of the node."""

    def __init__(self, scheduler: Scheduler, node: Node) -> None:
        self._scheduler = scheduler
        self._node = node
        self._rng = random.Random(str(node.rng.getstate()))  # draws nothing from the node's
        self._begun: list[tuple[Future[Any], Task]] = []

    def pool(self, brokers: object) -> "Threads":
        """Return this: greenlets are as many as are asked for."""
        return self

    def submit(self, work: Callable[..., Any], /, *arguments: Any) -> "Future[Any]":
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(work(*arguments))
            except Exception as error:
                future.set_exception(error)

        task = self._scheduler.spawn(self._node.child_name("thread"), self._node, run)
        self._begun = [*((one, of) for one, of in self._begun if not of.is_done), (future, task)]
        return future

    def wait(self, tries: Sequence["Future[Any]"], timeout_ms: float, *, for_all: bool) -> None:
        """Wait for some calls; now and then for a moment only, as where a root hangs."""
        if self._rng.random() < IMPATIENT:
            self._scheduler.sleep(min(timeout_ms, 10 * STEP_MS))
        else:
            self._scheduler.wait_for([task for future, task in self._begun if future in tries])

    def at_roots(self, work: Callable[[Any], Any], addresses: Iterable[Any]) -> list[Any]:
        """Return the results in order; all calls run at once."""
        return self.map(work, addresses)

    def map(self, work: Callable[[Any], Any], *arguments: Iterable[Any]) -> list[Any]:
        """Return the results in order; all calls run at once."""
        calls = list(zip(*arguments, strict=True))
        if len(calls) == 1:
            return [work(*calls[0])]
        tasks = [
            self._scheduler.spawn(
                self._node.child_name("thread"), self._node, lambda call=call: work(*call)
            )
            for call in calls
        ]
        self._scheduler.wait_for(tasks)
        for each in tasks:
            if each.error is not None:
                raise each.error
        return [each.result for each in tasks]
