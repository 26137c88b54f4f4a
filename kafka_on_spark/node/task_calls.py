"""Runs tasks on their orders: by a task runner, on executors or in threads."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from kafka_on_spark.base.errors import NO_ERROR, KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.base.process import TaskRunner
from kafka_on_spark.controller.probes import ProbeOrder, ProbeResult
from kafka_on_spark.node.task_runner import SparkTaskRunner, ThreadTaskRunner
from kafka_on_spark.node.tasks import probe_task
from kafka_on_spark.store.roots import StorageOptions

Order = TypeVar("Order")
Result = TypeVar("Result")
Ordered = TypeVar("Ordered", contravariant=True)
Done = TypeVar("Done", covariant=True)
Run = Callable[[Sequence[Order]], list[Result]]


class Task(Protocol[Ordered, Done]):
    """A function that executors import: what it does, and the credentials of the roots."""

    def __call__(self, order: Ordered, /, options: StorageOptions) -> Done:
        """Do what is ordered."""
        ...


@dataclass(frozen=True, slots=True)
class TaskCalls:
    """Runs tasks.

    Attributes:
        runner: Where tasks run.
        options: Credentials of all roots.
        threads: Of this process.
    """

    runner: TaskRunner
    options: StorageOptions
    threads: Executor

    @property
    def are_in_this_process(self) -> bool:
        """Whether tasks run in threads of this process."""
        return isinstance(self.runner, ThreadTaskRunner)

    def in_threads(self, work: Callable[[Order], Result], orders: Sequence[Order]) -> list[Result]:
        """Return the results of `work`, done in threads of this process."""
        return list(self.threads.map(work, orders))

    def of(self, task: Task[Order, Result], *, few: int = 0) -> "Run[Order, Result]":
        """Return what runs a task on orders and returns a result for each, in order. So `few` are
        done in this process, faster than a Spark job begins."""

        def run(orders: Sequence[Order]) -> list[Result]:
            work = partial(task, options=self.options)
            if len(orders) <= few:
                return self.in_threads(work, orders)
            return self.runner.run(work, orders)

        return run

    def probe_where_it_appends(self, orders: Sequence[ProbeOrder]) -> list[ProbeResult]:
        """Probe roots from this process, which commits appends, and from the executors, which write
        their files: a root is reachable if one executor reaches it.

        Executors within this process are not asked: they reach what this process reaches.

        Raises:
            KafkaStorageError: Spark has given the job up, so the result is unknown.
        """
        probe = partial(probe_task, options=self.options)
        results = self.in_threads(probe, orders)
        if not isinstance(self.runner, SparkTaskRunner) or self.runner.is_local:
            return results
        failed = [order for order, each in zip(orders, results, strict=True) if not each.is_answer]
        found = or_away(partial(self.runner.run_on_each, probe))(failed)
        elsewhere = {each.broker_id for each in found if each.is_answer}
        return [
            ProbeResult(each.broker_id, NO_ERROR) if each.broker_id in elsewhere else each
            for each in results
        ]


def or_away(run: "Run[Order, Result]") -> "Run[Order, Result]":
    """Return the same, where it is lost as if a root were away if Spark gives the job up.

    The caller's KafkaStorageError: what was to be done is found again.
    """

    def run_or_lose(orders: Sequence[Order]) -> list[Result]:
        try:
            return run(orders)
        except KafkaOnSparkError:
            raise
        except Exception as error:  # whatever Spark calls the loss of an executor
            raise KafkaStorageError(f"the executors did not do it: {error}") from error

    return run_or_lose
