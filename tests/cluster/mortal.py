"""A process that dies at one of its commits, and does nothing afterwards."""

from dataclasses import dataclass, field
from threading import Lock

from tests.nodes import worker_with


class KilledError(BaseException):
    """The process is dead. No error that anybody handles."""


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
