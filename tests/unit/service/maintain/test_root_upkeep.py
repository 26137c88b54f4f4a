"""Upkeep of roots: once an interval by whichever process comes first, in parts, and when asked for."""

from dataclasses import replace

import pytest

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.service.maintain.root_upkeep import (
    INTERVAL_MS,
    METADATA,
    RootUpkeep,
    VisitResult,
)
from kafka_on_spark.service.maintain.upkeep_watch import UpkeepWatch
from tests.builders import image_of, partition
from tests.fakes import FakeClock, MemoryRootHints

BEGAN_MS = 1000 * INTERVAL_MS
ALL = [1, 2, 3]
EVERY = 10**9


class Roots:
    """A cluster whose processes clean its roots, and what they cleaned, in order."""

    def __init__(self, configs=None, **options):
        self.clock = FakeClock(BEGAN_MS)
        self.hints = MemoryRootHints()
        self.image = replace(image_of(partition("1 2 3"), **options), configs=configs or {})
        self.done = []
        self.cleaned = lambda: 3
        self.visited = lambda order: VisitResult()
        self.took_ms = 0
        self.watch = UpkeepWatch(self.clock)
        self.upkeep = self.process()

    def process(self):
        return RootUpkeep(self, self.clock, hints=self.hints, visit=self.visit, watch=self.watch)

    def failing(self):
        return {each.broker_id: each.error for each in self.watch.current(self.image)}

    def clean(self):
        self.done.append(METADATA)
        return self.cleaned()

    def visit(self, orders):
        self.done += [order.broker_id for order in orders]
        self.clock.advance(self.took_ms)
        return [self.visited(order) for order in orders]

    def share(self, upkeep=None, *, after_ms=0, work_ms_max=EVERY):
        """Return what a round cleans."""
        self.work(upkeep, after_ms=after_ms, work_ms_max=work_ms_max)
        return self.done

    def work(self, upkeep=None, *, after_ms=0, work_ms_max=EVERY):
        """Return what a round tells."""
        self.clock.advance(after_ms)
        self.done = []
        return (upkeep or self.upkeep).run_share(work_ms_max)


def begun(**options):
    """Return roots of which it is known that they were due a moment ago."""
    roots = Roots(**options)
    assert roots.share() == []
    return roots


def test_a_cluster_of_which_nothing_is_known_is_cleaned_an_interval_later():
    roots = begun()

    assert roots.share(after_ms=INTERVAL_MS - 1) == []
    assert roots.share(after_ms=1) == ALL
    assert roots.share() == []


def test_of_many_processes_one_cleans():
    roots = begun()
    others = [roots.process() for _ in range(3)]
    for other in others:
        roots.share(other)
    roots.clock.advance(INTERVAL_MS)

    done = [roots.share(each) for each in (*others, roots.upkeep)]

    assert list(map(len, done)) == [3, 0, 0, 0]
    assert len(roots.share(others[2], after_ms=INTERVAL_MS)) == 3


def test_a_process_that_ends_is_followed_by_one_that_knows():
    roots = begun()

    assert roots.share(roots.process(), after_ms=INTERVAL_MS // 2) == []
    assert len(roots.share(roots.process(), after_ms=INTERVAL_MS // 2)) == 3
    assert roots.share(roots.process(), after_ms=1000) == []


@pytest.mark.parametrize("is_offline", [True, False])
def test_without_a_hint_a_process_goes_by_what_it_remembers(is_offline):
    roots = begun()
    for _ in range(3):
        roots.hints.hint, roots.hints.is_offline = None, is_offline
        assert roots.share(after_ms=INTERVAL_MS // 2) == []
        roots.hints.hint = None
        assert len(roots.share(after_ms=INTERVAL_MS // 2)) == 3


@pytest.mark.parametrize("ahead_ms", [10**12, -(10**12)])
def test_a_wrong_clock_keeps_no_process_from_its_turn(ahead_ms):
    roots = begun()
    roots.hints.hint = {str(each): BEGAN_MS + ahead_ms for each in ALL}

    assert len(roots.share(after_ms=INTERVAL_MS)) == 3


def test_clocks_that_differ_a_little_leave_one_to_clean():
    roots = begun()
    behind = roots.process()
    assert len(roots.share(after_ms=INTERVAL_MS)) == 3

    assert roots.share(behind, after_ms=-5000) == []


def test_a_share_ends_when_its_time_is_over_and_the_next_goes_on_with_the_rest():
    roots = begun()
    roots.took_ms = 10
    done = [roots.share(after_ms=INTERVAL_MS, work_ms_max=5)]
    done += [roots.share(work_ms_max=15), roots.share(work_ms_max=5)]

    assert done == [[1], [2, 3], []]


def test_what_a_cleaning_has_left_is_gone_on_with_by_the_process_that_knows_where():
    roots = begun()
    other = roots.process()
    orders = []

    def visited(order):
        orders.append(order)
        return VisitResult(left_at="t-1/0-a" if len(orders) == 1 else "")

    roots.visited = visited
    roots.share(after_ms=INTERVAL_MS)

    assert roots.share(other) == []
    assert roots.share() == [orders[0].broker_id]
    assert orders[-1].begins_at == "t-1/0-a"
    assert roots.share() == []


def test_who_fails_leaves_a_root_to_another_process():
    roots = begun()
    other = roots.process()
    roots.visited = lambda order: VisitResult(error="EIO" if order.broker_id == 2 else None)
    assert 2 in roots.share(after_ms=INTERVAL_MS)

    assert roots.share() == []
    assert roots.share(other) == [2]
    assert 2 in roots.share(after_ms=INTERVAL_MS)


def test_a_root_that_fails_is_told_and_a_row_until_a_whole_cleaning_has_not_failed():
    roots = begun()
    visits = iter(
        [
            VisitResult(left_at="t-1/0-a", error="EIO"),
            VisitResult(left_at="t-2/0-a"),
            VisitResult(),
            VisitResult(),
        ]
    )
    roots.visited = lambda order: next(visits) if order.broker_id == 2 else VisitResult()

    rows = []
    for after_ms in (INTERVAL_MS, 0, 0):
        rows += roots.work(after_ms=after_ms)
        assert roots.failing() == {2: "EIO"}

    assert list(map(str, rows)) == ["root on broker 2: clean: EIO"]
    assert roots.work(after_ms=INTERVAL_MS) == []
    assert roots.failing() == {}


def test_a_task_that_fails_leaves_its_root_to_another_process_and_cleans_the_others():
    roots = begun()

    def visited(order):
        if order.broker_id == 1:
            raise KafkaStorageError("the executor is gone")
        return VisitResult()

    roots.visited = visited
    [row] = roots.work(after_ms=INTERVAL_MS)

    assert (row.broker_id, row.error, roots.done) == (1, "the executor is gone", ALL)
    assert (roots.failing(), roots.share()) == ({1: "the executor is gone"}, [])


def test_all_that_fails_when_all_are_cleaned_is_a_row():
    roots = Roots()
    roots.visited = lambda order: VisitResult(error="EIO" if order.broker_id == 2 else None)

    def fail():
        raise KafkaStorageError("away")

    roots.cleaned = fail

    rows = roots.upkeep.run()

    assert [(row.log, row.broker_id, row.error) for row in rows] == [
        ("root", 2, "EIO"),
        (f"{METADATA}-0", None, "away"),
    ]
    assert roots.failing() == {2: "EIO"}


def test_all_are_cleaned_at_once_when_asked_for():
    roots = Roots()
    orders = []
    roots.visited = lambda order: orders.append(order) or VisitResult()

    [row] = roots.upkeep.run()

    assert str(row) == "__cluster_metadata-0: clean: 3 files deleted (0 bytes)"
    assert roots.done == [*ALL, METADATA]
    assert {order.work_ms_max for order in orders} == {None}
    assert roots.share(roots.process(), after_ms=INTERVAL_MS - 1) == []


def test_a_broker_that_is_fenced_is_left_alone():
    roots = Roots(fenced="2")

    roots.upkeep.run()

    assert roots.done == [1, 3, METADATA]
