"""Upkeep of roots: in turn, each once an interval, in parts, and when asked for."""

from dataclasses import replace

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.controller.scheduler import ROOTS_INTERVAL_MS, scheduler
from kafka_on_spark.controller.upkeep import METADATA, RootUpkeep, clean_root_task
from kafka_on_spark.metadata.temporaries import RootCleaned
from kafka_on_spark.node.node import hint_roots
from tests.builders import image_of, partition
from tests.fakes import FakeClock, MemoryHintRoots
from tests.nodes import node_of

BEGAN_MS = 1000 * ROOTS_INTERVAL_MS
ALL = [1, 2, 3]
TURN_MS = ROOTS_INTERVAL_MS // 3
EVERY = 10**9


class Roots:
    """A cluster whose process cleans its roots, and what it cleaned, in order."""

    def __init__(self, configs=None, **options):
        self.clock = FakeClock(BEGAN_MS)
        self.image = replace(image_of(partition("1 2 3"), **options), configs=configs or {})
        self.done = []
        self.cleaned = lambda: 3
        self.visited = lambda order: RootCleaned(count=0)
        self.took_ms = 0
        self.hints = MemoryHintRoots()
        self.process()

    def process(self):
        """Have another process do it from now on, which knows what the hint says."""
        given, parts = {clean_root_task: self.visit}, {hint_roots: self.hints}
        node = node_of(self, self.clock, given=given, parts=parts)
        self.scheduler, self.upkeep = node.part(scheduler), RootUpkeep(node)
        self.scheduler.begin_work(self.image)

    def clean(self):
        self.done.append(METADATA)
        return self.cleaned()

    def visit(self, orders):
        self.done += [order.broker.broker_id for order in orders]
        self.clock.advance(self.took_ms)
        return [self.visited(order) for order in orders]

    def share(self, *, after_ms=0, work_ms_max=EVERY):
        self.work(after_ms=after_ms, work_ms_max=work_ms_max)
        return self.done

    def work(self, *, after_ms=0, work_ms_max=EVERY):
        self.clock.advance(after_ms)
        self.done = []
        rows = self.upkeep.run_share(work_ms_max)
        self.scheduler.end_work(self.image, 0)
        return rows


def begun(**options):
    roots = Roots(**options)
    assert roots.share() == []
    return roots


def test_roots_of_which_nothing_is_known_are_cleaned_in_turn_within_an_interval():
    roots = begun()

    assert roots.share(after_ms=TURN_MS - 1) == []
    assert [*roots.share(after_ms=1), *roots.share(), *roots.share(after_ms=TURN_MS)] == [1, 2]
    assert [*roots.share(after_ms=TURN_MS), *roots.share(after_ms=TURN_MS)] == [3, 1]


def test_a_turn_that_a_hint_says_began_in_the_future_holds_up_no_root():
    roots = begun()
    roots.share(after_ms=TURN_MS)
    roots.clock.advance(-50 * ROOTS_INTERVAL_MS)
    roots.process()

    assert roots.share() == [2]
    assert [*roots.share(), *roots.share(after_ms=TURN_MS)] == [3]


def test_jobs_that_end_clean_all_roots_within_an_interval_together():
    roots, done = begun(), []
    for _ in range(60):
        roots.clock.advance(ROOTS_INTERVAL_MS // 60)
        roots.process()
        done += roots.share()

    assert done == ALL


def test_what_a_cleaning_has_left_is_gone_on_with():
    roots = begun()
    orders = []

    def visited(order):
        orders.append(order)
        return RootCleaned(count=0, left_at="t-1/0-a" if len(orders) == 1 else "")

    roots.visited = visited
    roots.share(after_ms=TURN_MS)
    roots.process()

    done = [roots.share(), roots.share(), roots.share(after_ms=TURN_MS)]

    assert done == [[1], [], [2]]
    assert [each.begins_at for each in orders] == ["", "t-1/0-a", ""]


def test_a_task_that_fails_is_a_row_and_the_other_roots_are_cleaned():
    roots = begun()

    def visited(order):
        if order.broker.broker_id == 1:
            raise KafkaStorageError("the executor is gone")
        return RootCleaned(count=0)

    roots.visited = visited
    [row] = roots.work(after_ms=TURN_MS)

    assert (row.broker_id, row.error) == (1, "the executor is gone")
    assert [roots.share(after_ms=TURN_MS) for _ in range(2)] == [[2], [3]]


def test_all_that_fails_when_all_are_cleaned_is_a_row():
    roots = Roots()
    roots.visited = lambda order: RootCleaned(
        count=0, error="EIO" if order.broker.broker_id == 2 else None
    )

    def fail():
        raise KafkaStorageError("away")

    roots.cleaned = fail

    rows = roots.upkeep.run()

    assert [(row.log, row.broker_id, row.error) for row in rows] == [
        ("root", 2, "EIO"),
        (f"{METADATA}-0", None, "away"),
    ]


def test_all_are_cleaned_at_once_when_asked_for():
    roots = Roots()
    orders = []
    roots.visited = lambda order: orders.append(order) or RootCleaned(count=0)

    [row] = roots.upkeep.run()

    assert str(row) == "__cluster_metadata-0: clean: 3 files deleted (0 bytes)"
    assert roots.done == [*ALL, METADATA]
    assert {order.work_ms_max for order in orders} == {None}
    assert roots.share(after_ms=TURN_MS - 1) == []


def test_a_broker_that_is_fenced_is_left_alone():
    roots = Roots(fenced="2")

    roots.upkeep.run()

    assert roots.done == [1, 3, METADATA]
