"""The driver dies at each commit of a sink's batch; the query starts again: once, and in order.

A commit is one to the metadata log or to a replica's table. Which of two tables of one moment is
first is the threads' choice; each number of commits is a state that a death can leave.
"""

from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

import pytest

from kafka_on_spark.spark import sink
from tests.cluster.disks import new_disks
from tests.cluster.format.sinks import Query
from tests.cluster.mortal import KilledError
from tests.nodes import worker_with

TOPICS = ("one", "two")


@dataclass
class Life:
    """A process that dies before its `at`-th commit; None: it lives."""

    at: int | None
    commits: int = 0
    is_dead: bool = False
    lock: Lock = field(default_factory=Lock)

    def commit(self, commit, *arguments, **named):
        with self.lock:
            if self.is_dead:
                raise KilledError
            self.commits += 1
            self.is_dead = self.commits == self.at
            if self.is_dead:
                raise KilledError
            return commit(*arguments, **named)


class Mortal:
    """A log or a replica whose commits are counted by a life."""

    def __init__(self, log, life: Life, name: str) -> None:
        self._log = log
        self._life = life
        self._name = name

    def __getattr__(self, name):
        found = getattr(self._log, name)
        if name != self._name:
            return found
        return lambda *arguments, **named: self._life.commit(found, *arguments, **named)


class MortalReplicas:
    """A store whose replicas are mortal."""

    def __init__(self, store, life: Life) -> None:
        self._store = store
        self._life = life

    def open(self, address):
        return Mortal(self._store.open(address), self._life, "commit")

    def __getattr__(self, name):
        return getattr(self._store, name)


def make_mortal(node, life: Life) -> None:
    """Have a process's commits counted."""
    node.metadata.log = Mortal(node.metadata.log, life, "append")
    node.tasks.worker = worker_with(node, lambda replicas: MortalReplicas(replicas, life))


def rows(first):
    """Return a batch of two tasks: rows of one key a topic, values rising."""
    named = [
        {"topic": TOPICS[n % 2], "key": b"key", "value": b"%03d" % (first + n)} for n in range(6)
    ]
    return [named[:3], named[3:]]


def values(batches, topic):
    return [each["value"] for tasks in batches for rows in tasks for each in rows if each["topic"] == topic]  # fmt: skip


@contextmanager
def new_query(monkeypatch):
    with new_disks(2) as disks:
        for each in TOPICS:
            disks.cluster.create_topic(each, replication_factor=2)
        yield (
            disks.cluster,
            lambda run: Query(disks, monkeypatch, run=run, transactional_id="writer"),
        )
        for each in sink._RUNS.values():
            each.close()
        sink._RUNS.clear()


def test_a_driver_that_dies_at_any_commit_of_a_batch_has_it_appended_once(monkeypatch):
    batches = [rows(0), rows(6)]
    with new_query(monkeypatch) as (_, start):
        query, life = start("lives"), Life(None)
        make_mortal(query.node(), life)
        query.add(0, batches[0])
    # Two epochs; for each topic writer and records, and its follower's records; the high
    # watermarks of both at once. Tables begin with the leadership under which they are made.
    assert life.commits >= 9

    for at in range(1, life.commits + 2):
        with new_query(monkeypatch) as (cluster, start):
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
