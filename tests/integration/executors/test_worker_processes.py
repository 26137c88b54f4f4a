"""The Python processes that Spark starts for us, and works with again and again."""

import pytest

from kafka_on_spark.spark.spark_executors import SparkExecutors
from kafka_on_spark.store.counts import count_request, operating, requests_sent
from kafka_on_spark.store.storage_options import StorageOptions

pytestmark = pytest.mark.integration


def test_what_executors_ask_of_roots_counts_for_the_operation_of_their_driver(spark):
    def ask(root, worker):
        count_request("GET", root)

    executors = SparkExecutors(spark, StorageOptions())
    before = requests_sent()

    with operating("control"):
        executors.run(ask, ["/one", "/two", "/three"])

    assert requests_sent() - before == {("control", "GET"): 3}
