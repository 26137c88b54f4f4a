"""The driver dies at each commit of a sink's batch; the query starts again: once, and in order.

A commit is one to the metadata log or to a replica's table. Which of two tables of one moment is
first is the threads' choice; each number of commits is a state that a death can leave.
"""

from dataclasses import dataclass, field
from threading import Lock

import pytest

from kafka_on_spark.spark import sink
from tests.cluster.disks import new_disks
from tests.cluster.mortal import KilledError
from tests.cluster.sinks import Query

TOPICS = ("one", "two")


@dataclass
class Life:
    """A process that dies at its `at`-th commit, before it or just after; None: it lives."""

    at: int | None
    is_after: bool
    commits: int = 0
    is_dead: bool = False
    lock: Lock = field(default_factory=Lock)

    def commit(self, commit, *arguments, **named):
        with self.lock:
            if self.is_dead:
                raise KilledError
            self.commits += 1
            self.is_dead = self.commits == self.at
            if self.is_dead and not self.is_after:
                raise KilledError
            result = commit(*arguments, **named)
            if self.is_dead:
                raise KilledError
            return result


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


def make_mortal(services, life: Life) -> None:
    """Have a process's commits counted."""
    services.metadata._log = Mortal(services.metadata._log, life, "append")
    appender = services.appends._appender
    appender._replicas = MortalReplicas(appender._replicas, life)


def rows(topics, first):
    """Return a batch of two tasks: rows of one key a topic, values rising."""
    named = [
        {"topic": topics[n % 2], "key": b"key", "value": b"%03d" % (first + n)} for n in range(6)
    ]
    return [named[:3], named[3:]]


def values(batches, topic):
    return [each["value"] for tasks in batches for rows in tasks for each in rows if each["topic"] == topic]  # fmt: skip


@pytest.fixture(scope="module")
def disks():
    with new_disks(2) as disks:
        yield disks
        for each in sink._RUNS.values():
            each.close()
        sink._RUNS.clear()


def new_query(disks, monkeypatch, name):
    """Return two new topics and what starts a run of a query into them."""
    topics = [f"{each}-{name}" for each in TOPICS]
    for each in topics:
        disks.cluster.create_topic(each, replication_factor=2)
    given = {"query": name, "transactional_id": f"writer-{name}"}
    return topics, lambda run: Query(disks, monkeypatch, run=f"{name}-{run}", **given)


def commits_of_a_batch(disks, monkeypatch) -> int:
    """Return how many commits a batch of new topics takes, of a process that lives."""
    topics, start = new_query(disks, monkeypatch, "lives")
    query, life = start("a"), Life(None, is_after=False)
    make_mortal(query.services(), life)
    query.add(0, rows(topics, 0))
    return life.commits


def test_a_driver_that_dies_at_any_commit_of_a_batch_has_it_appended_once(disks, monkeypatch):
    count = commits_of_a_batch(disks, monkeypatch)
    # Two epochs, and for each topic: leadership, writer, records, and its follower's two; then
    # the high watermarks. Replicas are made by commits of other kinds.
    assert count >= 11

    for at in range(1, count + 1):
        for is_after in (False, True):
            topics, start = new_query(disks, monkeypatch, f"{at}-{is_after}")
            batches = [rows(topics, 0), rows(topics, 6)]
            killed = start("killed")
            life = Life(at, is_after)
            make_mortal(killed.services(), life)
            with pytest.raises(KilledError):
                killed.add(0, batches[0])
            assert life.is_dead

            again = start("again")
            for number, tasks in enumerate(batches):
                again.add(number, tasks)

            table = {each: disks.cluster.read(each) for each in topics}
            for each in topics:
                assert table[each].column("value").to_pylist() == values(batches, each), (at, each)
                assert table[each].column("offset").to_pylist() == list(range(6))
