"""Upkeep of roots: once an interval, by whichever process, and when asked for."""

from dataclasses import replace

from kafka_on_spark.controller.scheduler import ROOTS_INTERVAL_MS
from kafka_on_spark.controller.upkeep import METADATA, Upkeep, clean_root_task
from kafka_on_spark.node.node import hint_roots
from tests.builders import image_of
from tests.fakes import FakeClock, MemoryHintRoots
from tests.nodes import node_of

BEGAN_MS = 1000 * ROOTS_INTERVAL_MS
ALL = [1, 2, 3]


class Roots:
    """A cluster whose process cleans its roots, and what it cleaned, in order."""

    def __init__(self, **options):
        self.clock = FakeClock(BEGAN_MS)
        self.image = replace(image_of(**options), topics={}, topic_ids={})
        self.done = []
        self.cleaned = lambda: 3
        self.errors = {}
        self.hints = MemoryHintRoots()
        self.process()

    def process(self):
        """Have another process do it from now on, which knows what the hint says."""
        given, parts = {clean_root_task: self.visit}, {hint_roots: self.hints}
        self.upkeep = Upkeep(node_of(self, self.clock, given=given, parts=parts))

    def catch_up(self):
        return self.image

    def clean(self):
        self.done.append(METADATA)
        return self.cleaned()

    def visit(self, orders):
        self.done += [order.broker.broker_id for order in orders]
        return [self.errors.get(order.broker.broker_id) for order in orders]

    def share(self, *, after_ms=0):
        self.clock.advance(after_ms)
        self.done = []
        self.report = self.upkeep.run_share()
        return self.done

    def said(self):
        return [(row.log, row.broker_id, row.error) for row in self.report.rows]


def begun():
    roots = Roots()
    assert roots.share() == []
    return roots


def test_roots_of_which_nothing_is_known_are_cleaned_after_an_interval():
    roots = begun()

    assert roots.share(after_ms=ROOTS_INTERVAL_MS - 1) == []
    assert roots.share(after_ms=1) == ALL
    assert roots.share(after_ms=ROOTS_INTERVAL_MS - 1) == []


def test_jobs_that_end_clean_roots_once_an_interval_together():
    roots, done = begun(), []
    for _ in range(60):
        roots.process()
        done += roots.share(after_ms=ROOTS_INTERVAL_MS // 60)

    assert done == ALL


def test_a_root_that_fails_is_a_row():
    roots = begun()
    roots.errors = {2: "EIO"}

    roots.share(after_ms=ROOTS_INTERVAL_MS)

    assert roots.said() == [("root", 2, "EIO")]


def test_maintain_cleans_all_at_once_and_the_metadata_roots():
    roots = begun()
    roots.share(after_ms=ROOTS_INTERVAL_MS - 1)

    [row] = roots.upkeep.maintain(None).rows

    assert str(row) == "__cluster_metadata-0: clean: 3 files deleted (0 bytes)"
    assert roots.done == [*ALL, METADATA]
    assert roots.share(after_ms=1) == []


def test_a_broker_that_is_fenced_is_left_alone():
    roots = Roots(fenced="2")

    roots.upkeep.maintain(None)

    assert roots.done == [1, 3, METADATA]
