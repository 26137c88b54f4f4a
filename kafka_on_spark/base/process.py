"""What the services ask of the process that they run in: tasks and time."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Order = TypeVar("Order")


Result = TypeVar("Result")


class TaskRunner(Protocol):
    """Runs a task function on each order, on executors or in threads."""

    def run(self, task: Callable[[Order], Result], orders: Sequence[Order]) -> list[Result]:
        """Return one result an order, in order. `task` may run twice for an order."""
        ...


class Clock(Protocol):
    """Time. No rule of safety rests on it."""

    def now_ms(self) -> int:
        """Return the wall clock, ms since 1970 UTC."""
        ...

    def monotonic_ms(self) -> int:
        """Return a clock of this process that never goes back."""
        ...

    def sleep_ms(self, duration_ms: float) -> None:
        """Wait."""
        ...
