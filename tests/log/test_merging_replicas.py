"""Merging of one replica: what is committed, after which outcome again, and what is left alone."""

import pytest

from kafka_on_spark.base import merge_tiers
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import epoch_in_name
from tests.builders import NOW_MS, address, staged
from tests.controller.rounds import EPOCH
from tests.log.merging import NEWEST, Merging, made_anew


def test_neighbours_become_one_and_the_newest_stay():
    cluster = Merging()
    before = cluster.table(1).load()

    done = cluster.merge()

    after = cluster.table(1).load()
    assert (done.count, done.what, done.is_left) == (1, "merges", False)
    assert cluster.spans(1) == [(0, 32), *((each, each + 1) for each in range(32, 42))]
    assert after.version == before.version + 1
    assert after.chain_digest == before.chain_digest
    assert after.batches[0].segment.epoch_in_name == EPOCH


def test_a_log_that_is_another_under_the_same_fence_is_not_merged():
    """Its leader's disk went back since: past an older high watermark only epochs would tell."""
    cluster = Merging()
    made_anew(cluster, 3, 20)
    log, place = cluster.table(3), address(3, key=cluster.keys[0])
    for number in range(22):
        other = staged(f"other{number}", epoch=EPOCH)
        cluster.segments.put(place, other.segments[0])
        state = log.load()
        log.commit(state, operations.append(state, other, leader_epoch=EPOCH, now_ms=NOW_MS))

    assert log.load().log_end_offset == cluster.order(3).partition.high_watermark
    assert cluster.merge(3).count == 0
    assert cluster.merge(1).count == 1


@pytest.mark.parametrize("bytes_max", [None, 1])
def test_a_damaged_file_ends_the_merge_of_its_neighbours_and_no_other(bytes_max):
    cluster = Merging(64 + NEWEST)
    name = cluster.damage(1, 5)

    done = cluster.merge(bytes_max=bytes_max)

    assert (done.count, done.is_evidence, done.suspect.file_name) == (1, True, name)
    assert cluster.spans(1)[30:34] == [(30, 31), (31, 32), (32, 64), (64, 65)]


@pytest.mark.parametrize("bytes_max", [None, 1])
def test_files_that_are_too_large_to_be_merged_keep_no_others_from_it(bytes_max):
    """Each visit would else write files for nothing, and never come to the others."""
    cluster = Merging(96 + NEWEST)
    parts = cluster.table(1).load().batches
    cluster.segments.too_large = {parts[each].segments[0].file_name for each in (5, 40)}
    before = cluster.files(1)

    assert cluster.merge(is_dry_run=True).count == 2
    done = cluster.merge(bytes_max=bytes_max, work_ms_max=0)

    assert (done.count, done.is_left) == (1, True)
    assert (64, 96) in cluster.spans(1)
    new = [epoch_in_name(name) for name in cluster.files(1) - before]
    assert sum(epoch is not None for epoch in new) == 1
    assert (cluster.merge().is_left, (6, 38) in cluster.spans(1)) == (False, True)
    last = cluster.files(1)
    assert (cluster.merge(is_dry_run=True).count, cluster.merge().is_left) == (0, False)
    assert cluster.files(1) == last


def test_a_batch_of_many_files_becomes_one_file_also_alone(monkeypatch):
    monkeypatch.setattr(merge_tiers, "FILES_A_CHANGE_MAX", 4)
    cluster = Merging(1)
    cluster.append(0, "b", 4 + NEWEST, counts="1 1 1")
    cluster.run()

    assert not cluster.merge().is_left

    parts = cluster.table(1).load().batches
    assert [(each.end_offset, len(each.segments)) for each in parts[:2]] == [(10, 1), (13, 3)]


def test_an_input_that_another_has_merged_and_cleaned_is_no_damage():
    cluster = Merging()
    rewrite = cluster.segments.rewrite

    def twin(*arguments, **named):
        cluster.segments.rewrite = rewrite
        old = cluster.named(1)
        assert cluster.merge().count == 1
        for name in old - cluster.named(1):
            cluster.write(1, name, b"gone")
        return rewrite(*arguments, **named)

    cluster.segments.rewrite = twin

    done = cluster.merge()
    assert (done.count, done.error) == (0, "")
    assert len(cluster.spans(1)) == 11


def test_a_dry_run_says_what_is_due_and_a_spent_allowance_leaves_it():
    cluster = Merging(64 + NEWEST)

    due = cluster.merge(is_dry_run=True)
    assert (due.count, due.size_bytes, len(cluster.spans(1))) == (2, 6400, 74)

    none = cluster.merge(bytes_max=0)
    assert (none.count, none.is_left) == (0, True)

    one = cluster.merge(bytes_max=1)
    assert (one.count, one.is_left, len(cluster.spans(1))) == (1, True, 43)

    rest = cluster.merge()
    assert (rest.count, rest.is_left, len(cluster.spans(1))) == (1, False, 12)
