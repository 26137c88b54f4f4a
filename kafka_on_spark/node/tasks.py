"""Runs tasks on orders: in threads of this process, or on executors."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Protocol, TypeVar

from kafka_on_spark.base.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.log.worker import Worker

Order = TypeVar("Order")
Result = TypeVar("Result")

Task = Callable[[Order, Worker], Result]


class Executors(Protocol):
    """Runs tasks in other processes, each with a worker of its own; or in none, if `are_local`."""

    application_id: str
    """Spark's name for the application, which commits name."""

    @property
    def are_local(self) -> bool:
        """Whether they are in this process: they reach what it reaches."""
        ...

    def run(self, task: Task[Order, Result], orders: Sequence[Order]) -> list[Result]:
        """Return one result an order, in order. `task` may run twice for an order."""
        ...

    def run_on_each(self, task: Task[Order, Result], orders: Sequence[Order]) -> list[Result]:
        """Return the results of every order on each of several executors, as a rule on all."""
        ...


class Tasks:
    """Runs tasks.

    Attributes:
        worker: This process's own.
        threads: Of this process.
        executors: Where tasks run; None: in `threads`.
    """

    def __init__(
        self, worker: Worker, threads: Executor, executors: Executors | None = None
    ) -> None:
        self.worker = worker
        self.threads = threads
        self.executors = executors

    def run(
        self, task: Task[Order, Result], orders: Sequence[Order], *, few: int = 0
    ) -> list[Result]:
        """Return one result an order, in order. So `few` orders are done in this process."""
        if self.executors is None or len(orders) <= few:
            return self.run_here(task, orders)
        return self.executors.run(task, orders)

    def run_here(self, task: Task[Order, Result], orders: Sequence[Order]) -> list[Result]:
        """Return the results of tasks in threads of this process."""
        return list(self.threads.map(lambda order: task(order, self.worker), orders))

    def run_or_lose(self, task: Task[Order, Result], orders: Sequence[Order]) -> list[Result]:
        """Do as `run`; if Spark gives the job up, it is lost as if a root were away.

        Raises:
            KafkaStorageError: It did: what was to be done is found again.
        """
        with _lost_with_spark():
            return self.run(task, orders)

    def run_elsewhere(self, task: Task[Order, Result], orders: Sequence[Order]) -> list[Result]:
        """Return the results of every order on each of several executors; none, if the executors
        are in this process.

        Raises: as `run_or_lose`.
        """
        if self.executors is None or self.executors.are_local or not orders:
            return []
        with _lost_with_spark():
            return self.executors.run_on_each(task, orders)


@contextmanager
def _lost_with_spark() -> Iterator[None]:
    try:
        yield
    except KafkaOnSparkError:
        raise
    except Exception as error:  # whatever Spark calls the loss of an executor
        raise KafkaStorageError(f"the executors did not do it: {error}") from error
