"""A table that may be needed is opened early, once; what hangs or fails there holds up nobody else."""

from concurrent.futures import Future

import pytest

from kafka_on_spark.base.errors import KafkaStorageError, ReplicaLostError
from kafka_on_spark.log import replicas
from kafka_on_spark.log.replicas import ReplicaLog
from kafka_on_spark.store.roots import StorageOptions
from tests.builders import address


class Begun(Future):
    """A call that has begun, and ends as the test says."""

    def in_time(self):
        return self.result(timeout=10)


@pytest.fixture
def begun(monkeypatch):
    calls = []

    def begin(root, work):
        calls.append((work.__name__, Begun()))
        return calls[-1][1]

    monkeypatch.setattr(replicas, "begin", begin)
    return calls


@pytest.fixture
def log():
    return ReplicaLog(address(root="s3://bucket/root"), StorageOptions())


def test_however_often_a_table_is_wanted_it_is_opened_early_once(log, begun):
    for _ in range(300):
        log.open_early()

    assert [name for name, _ in begun] == ["check_root", "load"]
    assert log.known is None, "who asks what is known does not wait for it"


def test_a_table_that_could_not_be_opened_early_is_read_by_who_needs_it(log, begun):
    log.open_early()
    begun[-1][1].set_exception(ReplicaLostError("there is no table"))

    assert log.known_soon() is None


def test_a_root_that_takes_no_more_calls_holds_up_no_append(log, monkeypatch):
    def refuse(root, work):
        raise KafkaStorageError("calls to it hang")

    monkeypatch.setattr(replicas, "begin", refuse)

    log.open_early()

    assert log.known_soon() is None
