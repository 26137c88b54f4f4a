"""Compaction of one replica: what it reads and keeps, in which commits, within which allowance."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log import compactor
from tests.log.compacting import Compacting


@pytest.mark.parametrize("below, tombstones", [(10, 0), (10, 6), (12, 12), (1, 0)])
def test_what_is_left_is_what_the_decision_says(below, tombstones):
    cluster = Compacting(below=below, tombstones=tombstones)
    before = cluster.table().load()

    done = cluster.compact()

    after = cluster.table().load()
    assert cluster.records() == cluster.expected()
    assert cluster.progress().has_finished(cluster.decided)
    assert (done.is_left, done.count > 0) == (False, below > 1)
    assert after.log_end_offset == before.log_end_offset
    assert after.chain_digest == before.chain_digest


def test_without_a_decision_nothing_is_read():
    cluster = Compacting(below=0)

    assert cluster.compact().count == 0
    assert cluster.compactor.asked == []


def test_a_later_decision_reads_the_new_keys_only():
    cluster = Compacting(below=6)
    cluster.compact()
    cluster.decided = replace(cluster.decided, compacted_below=Offset(11))

    cluster.compact()

    assert cluster.compactor.asked == [(0, 6), (6, 11)]
    assert cluster.records() == cluster.expected()


def test_a_dry_run_says_that_it_is_due_and_changes_nothing():
    cluster = Compacting()
    before = cluster.table().load()

    done = cluster.compact(is_dry_run=True)

    assert (done.count, done.what) == (1, "decisions of compaction to apply")
    assert cluster.table().load() == before


def test_an_order_that_found_nothing_to_remove_has_got_on_if_the_next_begins_later(monkeypatch):
    monkeypatch.setattr(compactor, "GROUP_BYTES_MAX", 200)
    cluster = Compacting()
    cluster.compactor.without_stale = lambda *arguments, **named: None
    before = cluster.progress()

    done = cluster.compact(bytes_max=1)

    assert (done.count, done.is_left, done.has_advanced) == (0, True, True)
    assert cluster.progress() != before
    assert not cluster.compact(bytes_max=0).has_advanced


@pytest.mark.parametrize("parts_max", [1, 3])
def test_what_is_too_large_for_one_file_uncompressed_is_compacted_in_several(parts_max):
    cluster = Compacting()
    cluster.compactor.parts_max = parts_max

    done = cluster.compact()

    assert done.count > 1
    assert not done.is_left
    assert cluster.records() == cluster.expected()
    assert cluster.progress().has_finished(cluster.decided)


def test_too_many_keys_for_the_memory_are_read_in_rounds():
    cluster = Compacting()
    memory = 4 * compactor.BYTES_A_KEY
    order = cluster.order()

    class Small:
        def integer(self, name):
            return memory if name == "log.cleaner.dedupe.buffer.size" else 2**30

    done = cluster.compact(order=replace(order, settings=Small()))

    assert cluster.compactor.asked == [(0, 5), (5, 10)]
    assert not done.is_left
    assert cluster.records() == cluster.expected()
    assert cluster.progress().has_finished(cluster.decided)
