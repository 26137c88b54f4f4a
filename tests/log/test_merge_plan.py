"""Which neighbours are merged: runs that may, tiers, and how often a record is rewritten."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_on_spark.base import merge_tiers
from kafka_on_spark.base.ids import NO_CHAIN, LeaderEpoch, Offset
from kafka_on_spark.base.merge_tiers import FAN_IN, OFFSETS_MAX, tier_of
from kafka_on_spark.log.batch import Batch, MergedSegment, Segment
from kafka_on_spark.log.merge_plan import (
    MergeRules,
    merges_due,
)
from tests.examples import many

KIB = 1024
RULES = MergeRules(stable_offset=Offset(2**60), size_bytes_max=2**26, span_ms=1000, lag_batches=0)


def segment(records, size_bytes):
    return Segment(
        file_name="0-u-d.parquet",
        size_bytes=size_bytes,
        record_count=records,
        timestamp_min_us=0,
        timestamp_max_us=0,
    )


def batch(base, records=1, size_bytes=2 * KIB, *, epoch=0, at_ms=0, **fields):
    return Batch(
        base_offset=Offset(base),
        record_count=records,
        leader_epoch=LeaderEpoch(epoch),
        partition_count=1,
        producer=None,
        appended_at_ms=at_ms,
        segments=(segment(records, size_bytes),),
        **fields,
    )


def run(*kinds):
    """Return neighbouring batches of one record, with fields."""
    return [batch(place, **fields) for place, fields in enumerate(kinds)]


def together(parts):
    """Return what parts become: the sum of what they have."""
    return MergedSegment(
        base_offset=parts[0].base_offset,
        end_offset=parts[-1].end_offset,
        leader_epoch=parts[0].leader_epoch,
        appended_at_ms=parts[-1].appended_at_ms,
        segment=segment(
            sum(each.record_count for each in parts), sum(each.size_bytes for each in parts)
        ),
        content_digest=0,
        chain_digest=NO_CHAIN,
    )


def offsets(due):
    return [(each[0].base_offset, each[-1].end_offset) for each in due]


def with_damage(log, *places):
    """Return a log and the rules by which files at some places can't be read."""
    damaged = {
        place: replace(segment(1, 2 * KIB), file_name=f"0-{place}-d.parquet") for place in places
    }
    named = [
        replace(part, segments=(damaged[place],)) if place in damaged else part
        for place, part in enumerate(log)
    ]
    return named, replace(RULES, left_out=frozenset(damaged.values()))


def test_a_damaged_file_hides_no_merge_of_a_higher_tier():
    small = [batch(place) for place in range(32)]
    large = [batch(32 + 64 * place, 64) for place in range(FAN_IN)]
    log, rules = with_damage([*small, *large], 5)

    assert offsets(merges_due(log, RULES)) == [(0, 32)]
    assert offsets(merges_due(log, rules)) == [(6, 32 + 64 * FAN_IN)]


# fmt: off
CLOSING = [  # fields of a batch after which no more of a kind comes
    pytest.param({"epoch": 1},                              id="another leadership"),
    pytest.param({"has_append_time": True},                 id="another kind of timestamps"),
    pytest.param({"at_ms": 1000},                           id="another span of time"),
]
PARTED = [  # fields of the last of 32 batches, or rules
    pytest.param({"size_bytes": 2**26}, {},                 id="a full file"),
    pytest.param({}, {"stable_offset": Offset(31)},         id="above the last stable offset"),
    pytest.param({}, {"lag_batches": 1},                    id="too new"),
]
# fmt: on


@pytest.mark.parametrize("fields, rules", PARTED)
def test_what_differs_is_not_merged(fields, rules):
    batches = run(*[{}] * 31, fields)

    assert merges_due(batches, replace(RULES, **rules)) == []
    assert offsets(merges_due([*run(*[{}] * 32), batch(32, **fields)], RULES)) == [(0, 32)]


@pytest.mark.parametrize("fields", CLOSING)
def test_what_no_more_will_join_becomes_one_file(fields):
    """A log of many leaderships would keep some small files of each else."""
    assert offsets(merges_due(run(*[{}] * 31, fields), RULES)) == [(0, 31)]
    assert offsets(merges_due(run({}, {}, fields), RULES)) == [(0, 2)]
    assert merges_due(run({}, fields), RULES) == []
    assert offsets(merges_due(run(*[{}] * 32, fields), RULES)) == [(0, 32)]


def test_what_comes_next_closes_nothing_while_it_is_too_new():
    """The newest batches are left alone, and those before them wait for the rest of their kind."""
    batches = run({}, {}, {}, {"epoch": 1}, {"epoch": 1})

    assert merges_due(batches, replace(RULES, lag_batches=3)) == []
    assert merges_due(batches, replace(RULES, lag_batches=2)) == [tuple(batches[:3])]


@given(kib=st.lists(st.integers(1, 3000), min_size=1, max_size=120))
@settings(max_examples=many(60))
def test_a_closed_run_is_left_with_a_file_or_two_a_tier(kib):
    log = run(*({"size_bytes": each * KIB} for each in kib), {"epoch": 1})
    moved = Counter()
    while due := merges_due(log, RULES):
        for each in due:
            place = log.index(each[0])
            log[place : place + len(each)] = [together(each)]
            moved.update(range(each[0].base_offset, each[-1].end_offset))

    assert max(Counter(tier_of(each) for each in log[:-1]).values()) <= 2 * FAN_IN // 8
    assert all(count <= 6 for count in moved.values())


def test_a_merge_that_moves_less_than_the_producer_state_waits_for_more():
    rules = replace(RULES, size_bytes_min=40 * 2 * KIB)

    assert merges_due(run(*[{}] * 39), rules) == []
    assert offsets(merges_due(run(*[{}] * 41), rules)) == [(0, 40)]


def test_files_that_fill_the_largest_size_become_one_without_waiting_for_more():
    eighth, quarter = {"size_bytes": 2**26 // 8}, {"size_bytes": 2**26 // 4}

    assert offsets(merges_due(run(*[eighth] * 9), RULES)) == [(0, 8)]
    assert merges_due(run(*[eighth] * 8), RULES) == []
    assert merges_due(run(*[quarter] * 9), RULES) == []


def of_files(base, count):
    """Return a batch of so many files, of a record each."""
    return replace(batch(base, count), segments=(segment(1, 2 * KIB),) * count)


@pytest.mark.parametrize("files_a_batch", [3, 4, 5, 8, 20])
def test_a_merge_names_no_more_files_than_a_commit_may_and_few_are_left(monkeypatch, files_a_batch):
    """Else the commit is put, and nobody can read the replica after it."""
    monkeypatch.setattr(merge_tiers, "FILES_A_CHANGE_MAX", 8)
    log = [of_files(place * files_a_batch, files_a_batch) for place in range(32)]

    while due := merges_due(log, RULES):
        for each in due:
            assert len(each) == 1 or sum(len(part.segments) for part in each) <= 8
            place = log.index(each[0])
            log[place : place + len(each)] = [together(each)]

    assert sum(len(part.segments) for part in log) <= files_a_batch + 8


def test_a_segment_covers_no_more_offsets_than_a_delta_counts():
    covered = OFFSETS_MAX // 10
    far = [
        replace(together([batch(base)]), end_offset=Offset(base + covered))
        for base in range(0, 32 * covered, covered)
    ]

    assert offsets(merges_due(far, RULES))[0] == (0, 10 * covered)
