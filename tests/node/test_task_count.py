"""How many Spark tasks do a number of orders: a task costs as much to begin as a small order."""

import pytest

from kafka_on_spark.spark.spark_executors import task_count

# fmt: off
CASES = [  # orders, cores, tasks
    pytest.param(1,    2,   1, id="one order is one task"),
    pytest.param(2,    2,   2, id="every core has one"),
    pytest.param(8,    2,   2, id="a task does four at once"),
    pytest.param(9,    2,   3, id="one more than they do"),
    pytest.param(8,    100, 8, id="on a cluster, all cores first"),
    pytest.param(300,  100, 100, id="and then several each"),
    pytest.param(1000, 2,   8, id="at most four tasks a core"),
]
# fmt: on


@pytest.mark.parametrize("orders, cores, tasks", CASES)
def test_cores_are_filled_before_tasks_are(orders, cores, tasks):
    assert task_count(orders, cores) == tasks
