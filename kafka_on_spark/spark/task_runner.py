"""Where tasks run: on a Spark session's executors, or in threads of this process."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.spark.executors import ExecutorTask, check_executors, clear_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Order = TypeVar("Order")
Result = TypeVar("Result")


class ThreadTaskRunner:
    """A TaskRunner without Spark."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads

    def run(self, task: Callable[[Order], Result], orders: Sequence[Order]) -> list[Result]:
        """Return one result an order, in order."""
        return list(self._threads.map(task, orders))


class SparkTaskRunner:
    """A TaskRunner on a classic Spark session's executors.

    Raises:
        InvalidRequestError: The session is a Spark Connect one, or its executors can't run ours.
    """

    def __init__(self, spark: "SparkSession") -> None:
        check_session(spark)
        self.session = spark
        self._context = spark.sparkContext
        check_executors(self._context)

    def run(self, task: Callable[[Order], Result], orders: Sequence[Order]) -> list[Result]:
        """Return one result an order, in order; a task for each, at most a few a core."""
        if not orders:
            return []
        slices = min(len(orders), 4 * self._context.defaultParallelism)

        def run_slice(part: Iterable[Order]) -> Iterable[Result]:
            return (task(order) for order in part)

        tasks = self._context.parallelize(orders, slices).mapPartitions(ExecutorTask(run_slice))
        with clear_errors():
            results: list[Result] = tasks.collect()
        return results


def check_session(spark: object) -> None:
    """Check that `spark` is a classic session.

    Raises:
        InvalidRequestError: It is none, or a Spark Connect one, which has no mapPartitions.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise InvalidRequestError(
            "a Spark Connect session can't run the cluster's tasks (it has no mapPartitions):"
            " use a classic SparkSession, or Cluster.open without one"
        )
    from pyspark.sql import SparkSession  # slow to import, and of no use without a session

    if not isinstance(spark, SparkSession):
        raise InvalidRequestError(
            f"spark can't be {spark!r}: give a SparkSession, or none to run tasks in threads"
        )
