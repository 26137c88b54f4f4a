"""The Python processes that Spark starts for us, and works with again and again."""

import pytest

from kafka_on_spark.spark.executors import ExecutorTask
from kafka_on_spark.spark.spark_executors import SparkExecutors
from kafka_on_spark.store.counts import count_request, operating, requests_sent
from kafka_on_spark.store.storage_options import StorageOptions

pytestmark = pytest.mark.integration


def test_an_executors_process_no_longer_collects_what_it_has_imported(spark):
    context = spark.sparkContext

    def frozen_objects(part):
        import gc

        # Spark keeps processes that have read all that they were given.
        return [gc.get_freeze_count() for _ in part]

    def run():
        return context.parallelize([0], 1).mapPartitions(ExecutorTask(frozen_objects)).collect()[0]

    # Spark may have several processes of other tests and takes them in turn.
    counts = (run() for _ in range(100))

    assert any(count > 10_000 for count in counts)


def test_what_executors_ask_of_roots_counts_for_the_operation_of_their_driver(spark):
    def ask(root, worker):
        count_request("GET", root)

    executors = SparkExecutors(spark, StorageOptions())
    before = requests_sent()

    with operating("control"):
        executors.run(ask, ["/one", "/two", "/three"])

    assert requests_sent() - before == {("control", "GET"): 3}
