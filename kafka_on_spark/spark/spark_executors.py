"""Runs tasks on the executors of a Spark session."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.node.node import Task
from kafka_on_spark.spark.executors import ExecutorTask, clear_errors
from kafka_on_spark.spark.versions import check_versions, is_local
from kafka_on_spark.store.counts import (
    Requests,
    count_requests,
    current_operation,
    operating,
    requests_sent,
)
from kafka_on_spark.store.deadlines import DaemonThreads
from kafka_on_spark.store.storage_options import StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THREADS_OF_A_TASK: Final = 4

ON_EACH_MAX: Final = 64
"""Tasks that run on all executors, as a rule: one a core, up to this bound."""

Order = TypeVar("Order")
Result = TypeVar("Result")


class SparkExecutors:
    """The executors of a classic Spark session. `options`: credentials of all roots. Raises as
    `check_session`."""

    def __init__(self, spark: "SparkSession", options: StorageOptions) -> None:
        check_session(spark)
        self._context = spark.sparkContext
        self.application_id: str = self._context.applicationId
        self._options = options

    @property
    def are_local(self) -> bool:
        """Whether the executors are in the driver's own process."""
        return is_local(self._context.master)

    def run_on_each(self, task: Task[Order, Result], orders: Sequence[Order]) -> list[Result]:
        """Return the results of every order on each of several executors, as a rule on all.

        One task a core, so that each executor gets one, up to ON_EACH_MAX.
        """
        slices = min(self._context.defaultParallelism, ON_EACH_MAX)

        def run_all(_: Iterable[int], worker: Worker) -> list[Result]:
            return [task(each, worker) for each in orders]

        return self._in_tasks(range(slices), slices, run_all)

    def run(self, task: Task[Order, Result], orders: Sequence[Order]) -> list[Result]:
        """Return one result an order, in order.

        Orders wait for disks and stores more than for the processor, and a Spark task costs as much
        to begin as a small order. So one task runs several orders at once, in threads.
        """
        if not orders:
            return []

        def run_slice(part: Iterable[Order], worker: Worker) -> list[Result]:
            with DaemonThreads(THREADS_OF_A_TASK, "order") as threads:
                return list(threads.map(lambda order: task(order, worker), part))

        slices = task_count(len(orders), self._context.defaultParallelism)
        return self._in_tasks(orders, slices, run_slice)

    def _in_tasks(
        self,
        items: Sequence[Any],
        slices: int,
        run: Callable[[Iterable[Any], Worker], list[Result]],
    ) -> list[Result]:
        """Return what `run` returns for each slice of items, and count what its tasks, each alone
        in its process, have asked of roots."""
        operation, options = current_operation(), self._options

        def run_slice(part: Iterable[Any]) -> Iterable[tuple[list[Result], Requests]]:
            before = requests_sent()
            with operating(operation):
                results = run(part, Worker(options))
            return [(results, requests_sent() - before)]

        tasks = self._context.parallelize(items, slices).mapPartitions(ExecutorTask(run_slice))
        with clear_errors():
            found = tasks.collect()
        for _, requests in found:
            count_requests(requests)
        return [result for results, _ in found for result in results]


def task_count(orders: int, cores: int) -> int:
    """Return how many Spark tasks run `orders`: each core has one before a task has several orders,
    and no core has more than four."""
    full = -(-orders // THREADS_OF_A_TASK)
    return min(orders, max(cores, full), 4 * cores)


def check_session(spark: object) -> None:
    """Raise InvalidRequestError unless `spark` is a classic session, which has mapPartitions, of a
    Spark that works."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise InvalidRequestError(
            "a Spark Connect session can't run the cluster's tasks (it has no mapPartitions):"
            " use a classic SparkSession, or Cluster.open without one"
        )
    from pyspark.sql import SparkSession

    if not isinstance(spark, SparkSession):
        raise InvalidRequestError(
            f"spark can't be {spark!r}: give a SparkSession, or none to run tasks in threads"
        )
    check_versions()
