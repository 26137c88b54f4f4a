"""The runs of streaming queries on a real cluster: epochs, workers, old checkpoints, and fences."""

import pytest

from kafka_on_spark.base import merge_tiers
from kafka_on_spark.base.errors import ProducerFencedError, UnknownProducerIdError
from kafka_on_spark.spark import sink
from kafka_on_spark.spark.sink import LOCAL_DIRS
from tests.cluster.disks import values_of
from tests.cluster.format.sinks import Query, both, expected, row, sink_disks


@pytest.fixture
def disks():
    with sink_disks() as disks:
        yield disks


@pytest.fixture
def local_dirs(tmp_path, monkeypatch):
    """The folder that the workers of one driver share."""
    monkeypatch.setenv(LOCAL_DIRS, f"{tmp_path},/another")


class Workers:
    """Processes that append a driver's batches, each with services of its own."""

    def __init__(self, monkeypatch):
        self._monkeypatch = monkeypatch
        self._runs = {}

    def use(self, name):
        """Append the next batch in the process `name`."""
        self._monkeypatch.setattr(sink, "_RUNS", self._runs.setdefault(name, {}))

    def close(self):
        for each in [services for runs in self._runs.values() for services in runs.values()]:
            each.close()


@pytest.fixture
def workers(monkeypatch):
    workers = Workers(monkeypatch)
    yield workers
    workers.close()


@pytest.mark.parametrize("given", [{}, {"transactional_id": "etl"}], ids=["query", "etl"])
def test_a_run_whose_batches_are_appended_by_several_workers_does_not_fence_itself(
    disks, monkeypatch, local_dirs, workers, given
):
    """Spark lends a driver's idle workers to all of its queries, in turn."""
    query = Query(disks, monkeypatch, **given)
    for number, worker in enumerate([1, 2, 1, 3, 2]):
        workers.use(worker)
        query.add(number, both(6 * number))

    assert set(disks.cluster.image.producers.values()) == {0}
    assert values_of(disks.cluster, "two") == [
        value for number in range(5) for value in expected(both(6 * number), "two")
    ]


@pytest.mark.parametrize("given", [{}, {"transactional_id": "etl"}], ids=["query", "etl"])
def test_workers_of_an_older_run_are_fenced_wherever_its_next_batch_is_appended(
    disks, monkeypatch, local_dirs, workers, given
):
    older, newer = (Query(disks, monkeypatch, run=run, **given) for run in "ab")
    workers.use(1)
    older.add(0, both())
    workers.use(2)
    newer.add(0, both())

    for worker in (1, 2, 3):
        workers.use(worker)
        with pytest.raises(ProducerFencedError):
            older.add(1, both(6))
    newer.add(1, both(6))

    assert len(values_of(disks.cluster, "two")) == 8


FAN_IN = 8
"""Files that are merged at once, here: fewer batches than the 32 of the product show the same."""


@pytest.fixture
def merged(disks, monkeypatch):
    """The values of a query's batches, all merged: logs can compare those of the last one only."""
    monkeypatch.setattr(merge_tiers, "FAN_IN", FAN_IN)
    disks.cluster.alter_cluster_configs({"merge.min.lag.batches": 0})
    values = [b"%d" % number for number in range(FAN_IN)]
    query = Query(disks, monkeypatch, run="a")
    for number, value in enumerate(values):
        query.add(number, [[row("two", value)]])
    merges = [each.count for each in disks.cluster.maintain().rows if each.kind == "merge"]
    assert merges == [1, 1]
    return values


def test_a_batch_of_an_older_checkpoint_is_refused_and_never_taken_for_the_one_of_its_number(
    disks, monkeypatch, merged
):
    """It was planned anew, over other records, and the headers of its number are merged."""
    again = Query(disks, monkeypatch, run="b")

    with pytest.raises(UnknownProducerIdError, match=r"sequence 3 .*checkpoint is older"):
        again.add(3, [[row("two", b"another")]])

    assert values_of(disks.cluster, "two") == merged


def test_a_batch_under_a_query_id_that_has_expired_is_refused_until_the_query_is_told_to_go_on(
    disks, monkeypatch
):
    """Its first try may have been merged, and the log has forgotten it."""
    Query(disks, monkeypatch, run="a").add(0, both())
    expire(disks)
    above = disks.cluster.image.expired_epoch + 1

    with pytest.raises(UnknownProducerIdError, match=f"'spark-q' has expired.* {above} and"):
        Query(disks, monkeypatch, run="b").add(0, both())

    told = Query(disks, monkeypatch, run="c", producer_epoch=str(above))
    told.add(0, both())  # its header is there still
    told.add(1, both(6))
    assert values_of(disks.cluster, "two") == [
        value for first in (0, 6) for value in expected(both(first), "two")
    ]


def expire(disks):
    disks.cluster.alter_cluster_configs({"producer.id.expiration.ms": 1})
    disks.cluster.run_controller()
    disks.cluster.alter_cluster_configs({"producer.id.expiration.ms": None})
    assert disks.cluster.image.producers == {}


def test_the_older_of_two_queries_with_a_transactional_id_is_fenced(disks, monkeypatch):
    older = Query(disks, monkeypatch, query="a", run="a", transactional_id="etl")
    newer = Query(disks, monkeypatch, query="b", run="b", transactional_id="etl")
    older.add(0, both())
    newer.add(0, both(6))

    with pytest.raises(ProducerFencedError, match="'etl' was taken over by a newer writer"):
        older.add(1, both(12))
    newer.add(1, both(18))

    assert values_of(disks.cluster, "two") == [
        value for first in (0, 6, 18) for value in expected(both(first), "two")
    ]
