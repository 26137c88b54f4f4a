"""Voters that hang, and processes that leave them behind.

A voter hangs in real threads until its test ends, or by the test's clock.
"""

import threading
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic

from kafka_on_spark.metadata.quorum.voter_tables import SideBySide
from kafka_on_spark.store.deadlines import begin
from tests.voter_fakes import OneByOne

LONG_S = 30
SHORT_MS = 200
POLL_S = 0.01


class Hanging:
    """Roots whose commits hang. `begun` counts those, and `threads` has those that they are made in."""

    def __init__(self):
        self.begun, self.over, self.threads = 0, threading.Event(), set()

    def wait(self):
        self.begun += 1
        self.threads.add(threading.get_ident())
        if not self.over.wait(LONG_S):  # no assert: it would go with -O, and the waiting with it
            raise AssertionError("the test does not end")
        self.threads.discard(threading.get_ident())

    def commits(self, root):
        root.before_commit = lambda change: self.wait()


class LeavesTheHanging(SideBySide):
    """Leaves calls behind once the time is up, but none that only this machine keeps waiting: it may
    be slow, and then another voter would lead than the one that a test expects."""

    def __init__(self, hanging):
        super().__init__(str)
        self._hanging = hanging

    def run(self, calls, timeout_ms):
        done, left, threads = SimpleQueue(), len(calls), set()
        for call in calls:
            begin(str(call.key), partial(self._answer, done, threads, call))
        last_s = monotonic() + timeout_ms / 1000
        while left:
            try:
                found = done.get(timeout=POLL_S)
            except Empty:
                if monotonic() > last_s and len(threads & self._hanging.threads) == left:
                    return
                continue
            left -= 1
            yield found

    @staticmethod
    def _answer(done, threads, call):
        threads.add(threading.get_ident())
        try:
            found = call()
        finally:
            threads.discard(threading.get_ident())
        done.put(found)


class NeverReturning(OneByOne):
    """Calls on one voter that take the time for which they are waited for, and never return: those
    that commit, or all. `asked` names them."""

    def __init__(self, quorum, root, *, only_commits):
        super().__init__()
        self._clock, self._key, self._only_commits = quorum.clock, root.key, only_commits
        self.asked = []

    def run(self, calls, timeout_ms):
        hanging = [call for call in calls if self._hangs(call)]
        self.asked += [asked_by(call) for call in hanging]
        yield from super().run([call for call in calls if call not in hanging], timeout_ms)
        if hanging:
            self._clock.advance(timeout_ms)

    def _hangs(self, call):
        return call.key == self._key and not (self._only_commits and asked_by(call) == "look")


def asked_by(call):
    return call.ask.func.__name__


def process_of(quorum, hanging, **times):
    """A process of which each call waits a moment for a voter that hangs."""
    times = {"answer_timeout_ms": SHORT_MS, "election_timeout_ms": SHORT_MS, **times}
    process = quorum.process(**times)
    process.decide("first")
    process.tables._side_by_side = LeavesTheHanging(hanging)
    return process


def wait_until(holds):
    for _ in range(LONG_S * 100):
        if holds():
            return
        threading.Event().wait(POLL_S)
    raise AssertionError("it does not come to hold")
