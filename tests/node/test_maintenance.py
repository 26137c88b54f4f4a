"""Work that is due after an answer waits once, however often it is asked for."""

import pytest

from kafka_on_spark.node.node import Maintenance


@pytest.fixture
def maintenance():
    maintenance = Maintenance()
    yield maintenance
    maintenance.close()


def test_failure_leaves_the_rest_to_be_done(maintenance, caplog):
    def fail():
        raise ValueError("no checkpoint today")

    runs = []
    maintenance.add({"a": fail, "b": lambda: runs.append("b")})
    maintenance.finish()
    maintenance.add({"a": lambda: runs.append("a")})
    maintenance.finish()

    assert runs == ["b", "a"]
    assert "no checkpoint today" in caplog.text


def test_closed_maintenance_takes_nothing_and_nobody_fails():
    runs, maintenance = [], Maintenance()
    maintenance.close()

    maintenance.add({"a": lambda: runs.append("a")})

    assert runs == []
