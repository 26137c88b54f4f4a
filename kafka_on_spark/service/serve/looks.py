"""What a serving process has looked at, when, and what came of it; nothing else is ever reported.

Apart from the loops, which write it, and from `health`, which judges it: another thread reads it at
any moment.
"""

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from kafka_on_spark.ports.process import Clock

log = logging.getLogger(__name__)

METADATA: Final = "metadata"
PASS: Final = "pass"
ROUND: Final = "round"

CONTROL: Final = "control"
ROUNDS: Final = "rounds"


class Role(StrEnum):
    """What a serving process is now."""

    STARTING = "starting"
    STANDBY = "standby"
    CONTROLLER = "controller"
    ENDING = "ending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The last looks at one thing. Times are of the process's monotonic clock, ms.

    Attributes:
        ended_at_ms: When the last one ended that came to its end; None: none has.
        took_ms: How long that one took.
        said: What it found, as plain values.
        error: Why the newest one failed; None: it did not.
        failing_since_ms: When the first of the failed ones since then ended.
        count: How many came to their end.
        failed_count: How many failed.
    """

    ended_at_ms: int | None = None
    took_ms: int = 0
    said: Mapping[str, object] = field(default_factory=dict)
    error: str | None = None
    failing_since_ms: int | None = None
    count: int = 0
    failed_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that a serving process knows of itself, at one moment.

    Attributes:
        role: What it is.
        started_at_ms: When it began.
        looks: By what was looked at: METADATA, PASS, ROUND.
        began_at_ms: By what is being looked at now, when that began: METADATA, which a commit
            waits for, too, and ROUND.
        moved_at_ms: By loop, when that last went on to something else: CONTROL, and ROUNDS, once
            that has begun.
        controller: Who holds the lease, as far as was read; None: nobody, or not known.
        lease_until_ms: Until when the lease lasts that this process was last known to have claimed
            or renewed; None: it does not hold it.
    """

    role: Role
    started_at_ms: int
    looks: Mapping[str, Look]
    moved_at_ms: Mapping[str, int]
    began_at_ms: Mapping[str, int] = field(default_factory=dict)
    controller: str | None = None
    lease_until_ms: int | None = None

    def holds_lease(self, now_ms: int) -> bool:
        """Return whether this process is the controller, and nobody else can be by now."""
        return self.lease_until_ms is not None and now_ms <= self.lease_until_ms


class Looks:
    """Notes what a serving process looks at. Threads may share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen = Seen(
            role=Role.STARTING,
            started_at_ms=clock.monotonic_ms(),
            looks={},
            moved_at_ms={CONTROL: clock.monotonic_ms()},
        )

    @property
    def seen(self) -> Seen:
        """What is known now."""
        return self._seen

    def count(self, what: str) -> int:
        """Return how many looks at something have come to their end."""
        return self._seen.looks.get(what, Look()).count

    def become(self, role: Role, controller: str | None = None) -> None:
        """Note what the process is now, and who is the controller."""
        with self._lock:
            self._become(role, controller)

    def now_ms(self) -> int:
        """Return the clock by which looks are noted."""
        return self._clock.monotonic_ms()

    def hold(self, controller: str, until_ms: int) -> None:
        """Note that the process is the controller, and until when its lease lasts."""
        with self._lock:
            self._become(Role.CONTROLLER, controller)
            self._seen = replace(self._seen, lease_until_ms=until_ms)

    def stand_by(self, controller: str | None) -> None:
        """Note that the process is a standby. Another one that holds the lease, and has just
        renewed it, does the passes and the rounds: those of this process say nothing any more."""
        with self._lock:
            self._become(Role.STANDBY, controller)
            self._seen = replace(self._seen, lease_until_ms=None)
            if controller is not None:
                looks = {METADATA: self._seen.looks.get(METADATA, Look())}
                self._seen = replace(self._seen, looks=looks)

    def _become(self, role: Role, controller: str | None) -> None:
        before = self._seen
        if before.role is Role.ENDING:
            return
        if before.role is not role or before.controller != controller:
            log.info("%s", _words(role, controller))
        self._seen = replace(before, role=role, controller=controller)

    def move(self, loop: str) -> None:
        """Note that a loop goes on."""
        with self._lock:
            moved = {**self._seen.moved_at_ms, loop: self._clock.monotonic_ms()}
            self._seen = replace(self._seen, moved_at_ms=moved)

    def note_end(
        self, what: str, said: Mapping[str, object] | None = None, took_ms: int = 0
    ) -> str | None:
        """Note a look that came to its end; return the error of the one before, if that failed."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            before = self._seen.looks.get(what, Look())
            self._put(
                what,
                Look(
                    ended_at_ms=now_ms,
                    took_ms=took_ms,
                    said=said or {},
                    count=before.count + 1,
                    failed_count=before.failed_count,
                ),
            )
            return before.error

    def note_failure(self, what: str, error: str) -> bool:
        """Note a look that failed; return whether that is news."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            before = self._seen.looks.get(what, Look())
            since_ms = now_ms if before.failing_since_ms is None else before.failing_since_ms
            self._put(
                what,
                replace(
                    before,
                    error=error,
                    failing_since_ms=since_ms,
                    failed_count=before.failed_count + 1,
                ),
            )
            return before.error != error

    def _put(self, what: str, look: Look) -> None:
        self._seen = replace(self._seen, looks={**self._seen.looks, what: look})

    @contextmanager
    def looking(self, what: str) -> Iterator[dict[str, object]]:
        """Note how the look at something ends that the block makes, which may say what it found."""
        said: dict[str, object] = {}
        began_ms = self._clock.monotonic_ms()
        try:
            with self.under_way(what):
                yield said
        except Exception as error:
            self.note_failure(what, str(error) or type(error).__name__)
            raise
        self.note_end(what, said, self._clock.monotonic_ms() - began_ms)

    @contextmanager
    def under_way(self, what: str) -> Iterator[None]:
        """Note that something is looked at for as long as the block lasts; whoever calls notes how
        it ends."""
        self._begin(what, self._clock.monotonic_ms())
        try:
            yield
        finally:
            self._begin(what, None)

    def _begin(self, what: str, began_ms: int | None) -> None:
        with self._lock:
            begun = {name: at_ms for name, at_ms in self._seen.began_at_ms.items() if name != what}
            if began_ms is not None:
                begun[what] = began_ms
            self._seen = replace(self._seen, began_at_ms=begun)


def _words(role: Role, controller: str | None) -> str:
    match role:
        case Role.CONTROLLER:
            return f"is the controller: {controller}"
        case Role.STANDBY if controller is not None:
            return f"stands by: {controller} is the controller"
        case Role.STANDBY:
            return "stands by: nobody is the controller"
        case _:
            return f"is {role.value}"
