"""The driver dies at each commit of a sink's batch; the query starts again: once, and in order.

A commit is one to the metadata log or to a replica's table. Which of two tables of one moment is
first is the threads' choice; each number of commits is a state that a death can leave.
"""

from contextlib import contextmanager

import pytest

from kafka_on_spark.spark import sink
from tests.cluster.disks import kept_disks, restored
from tests.cluster.format.sinks import Query
from tests.cluster.mortal import KilledError, Life, make_mortal

TOPICS = ("one", "two")


def rows(first):
    """Return a batch of two tasks: rows of one key a topic, values rising."""
    named = [
        {"topic": TOPICS[n % 2], "key": b"key", "value": b"%03d" % (first + n)} for n in range(6)
    ]
    return [named[:3], named[3:]]


def values(batches, topic):
    return [each["value"] for tasks in batches for rows in tasks for each in rows if each["topic"] == topic]  # fmt: skip


def prepare(disks):
    for each in TOPICS:
        disks.cluster.create_topic(each, replication_factor=2)


@pytest.fixture
def new_query(monkeypatch):
    """Gives a way to have the same cluster as it was, and to start a query's runs."""

    @contextmanager
    def new_query():
        with restored(life) as disks:
            yield (
                disks.cluster,
                lambda run: Query(disks, monkeypatch, run=run, transactional_id="writer"),
            )
            for each in sink._RUNS.values():
                each.close()
            sink._RUNS.clear()

    with kept_disks(prepare, brokers=2) as life:
        yield new_query


def test_a_driver_that_dies_at_any_commit_of_a_batch_has_it_appended_once(new_query):
    batches = [rows(0), rows(6)]
    with new_query() as (_, start):
        query, life = start("lives"), Life(None)
        make_mortal(query.node(), life)
        query.add(0, batches[0])
    # Two epochs; for each topic writer and records, and its follower's records; the high
    # watermarks of both at once. Tables begin with the leadership under which they are made.
    assert life.commits >= 9

    for at in range(1, life.commits + 2):
        with new_query() as (cluster, start):
            killed = start("killed")
            make_mortal(killed.node(), Life(at))
            if at <= life.commits:
                with pytest.raises(KilledError):
                    killed.add(0, batches[0])
            else:  # it dies when all is committed, before Spark has written it down
                killed.add(0, batches[0])

            again = start("again")
            for number, tasks in enumerate(batches):
                again.add(number, tasks)

            for each in TOPICS:
                table = cluster.read(each)
                assert table.column("value").to_pylist() == values(batches, each), (at, each)
                assert table.column("offset").to_pylist() == list(range(6))
