"""How dirty a log is, which segments are rewritten together, and how far a replica has come."""

from dataclasses import dataclass

import pytest

from kafka_on_spark.base.merge_tiers import OFFSETS_MAX
from kafka_on_spark.log.compaction import NO_PROGRESS, CompactionProgress, dirt_of, next_group
from kafka_on_spark.metadata.partition import Compaction


@dataclass(frozen=True, slots=True)
class Extent:
    """A LogPart, by its sizes."""

    base_offset: int
    end_offset: int
    size_bytes: int
    record_count: int
    leader_epoch: int
    has_append_time: bool = False
    segments: tuple[None, ...] = (None,)
    appended_at_ms: int = 0
    oldest_ms: int = 0


FIVE = [
    Extent(at, at + 10, 100, 10, 0, appended_at_ms=1000 + at, oldest_ms=1000 + at)
    for at in range(0, 50, 10)
]


def extents(text: str) -> list[Extent]:
    """Read "0:5 0:5 1:3" as batches of ten offsets and two files: leader epoch and bytes."""
    pairs = [word.split(":") for word in text.split()]
    return [
        Extent(
            at * 10,
            at * 10 + 10,
            int(size.rstrip("a")),
            10,
            int(epoch),
            size.endswith("a"),
            (None,) * 2,
        )
        for at, (epoch, size) in enumerate(pairs)
    ]


TO_20 = CompactionProgress(compacted_below=20, round_below=20)

# fmt: off
GROUPS = [  # segments           C   done   places
    pytest.param("0:5 0:5 0:5",   30,  0,   [0, 1],    id="up-to-the-bytes"),
    pytest.param("0:5 0:5 0:5",   30, 20,   [2],       id="goes-on-where-it-was"),
    pytest.param("0:99 0:5",      20,  0,   [0],       id="one-that-is-larger-goes-alone"),
    pytest.param("0:2 1:2 1:2",   30,  0,   [0],       id="of-one-leadership"),
    pytest.param("0:2 0:2a",      20,  0,   [0],       id="of-one-kind-of-time"),
    pytest.param("0:2 0:2 0:2",   15,  0,   [0, 1],    id="with-the-one-that-the-target-is-in"),
    pytest.param("0:2 0:2",       20, 20,   None,      id="all-done"),
    pytest.param("0:2 0:2",       15, 15,   None,      id="all-done-inside-a-segment"),
    pytest.param("",               0,  0,   None,      id="empty"),
]
# fmt: on


@pytest.mark.parametrize("text, target, done, places", GROUPS)
def test_groups(text, target, done, places):
    progress = CompactionProgress(compacted_below=target, round_below=target, compacted_to=done)

    found = next_group(extents(text), progress, bytes_max=10, records_max=20, files_max=4)

    assert (None if found is None else list(found)) == places


def test_a_group_covers_no_more_offsets_than_a_segment_can_count():
    ends = ((0, 10), (10, OFFSETS_MAX + 1))
    long = [Extent(base, end, 1, 9, 0) for base, end in ends]

    assert list(next_group(long, TO_20, bytes_max=9, records_max=99, files_max=9)) == [0]


@pytest.mark.parametrize("records_max, places", [(1, [0]), (19, [0]), (20, [0, 1])])
def test_a_group_has_no_more_records_than_a_reader_can_hold_or_is_one_segment(records_max, places):
    small = extents("0:1 0:1")

    found = next_group(small, TO_20, bytes_max=9, records_max=records_max, files_max=9)

    assert list(found) == places


@pytest.mark.parametrize("files_max, places", [(1, [0]), (3, [0]), (4, [0, 1])])
def test_a_group_has_no_more_files_than_one_commit_names_or_is_one_batch(files_max, places):
    found = next_group(extents("0:1 0:1"), TO_20, bytes_max=9, records_max=99, files_max=files_max)

    assert list(found) == places


def test_a_target_may_take_several_rounds_and_counts_from_the_first_on():
    first = NO_PROGRESS.begun(Compaction(compacted_below=10)).in_round(6)
    second = first.advanced(6).round_finished().in_round(12)

    assert (first.compacted_below, first.round_below) == (10, 6)
    assert (second.finished_below, second.round_below, second.compacted_to) == (6, 10, 0)
    assert not second.is_finished
    assert second.round_finished().is_finished


def test_a_first_fetch_takes_both_targets_of_the_leader_a_later_one_what_was_replaced():
    leader = CompactionProgress(compacted_below=20, tombstones_below=10, finished_below=20)
    follower = CompactionProgress(compacted_below=5, finished_below=5)

    first = NO_PROGRESS.after_fetch(leader, is_first=True)
    later = follower.after_fetch(leader, is_first=False)

    assert (first.compacted_below, first.tombstones_below, first.finished_below) == (20, 10, 0)
    assert (later.compacted_below, later.tombstones_below, later.finished_below) == (20, 0, 5)
    assert not later.is_finished
    assert later.after_fetch(leader, is_first=False) is later


# fmt: off
DIRT = [  # start, C, stable, before             below  clean dirty oldest
    pytest.param(0,   0, 50, 9999,               50,    0,   500, 1000, id="all-of-it"),
    pytest.param(0,  20, 50, 9999,               50,  200,   300, 1020, id="after-what-is-compacted"),
    pytest.param(0,   0, 35, 9999,               30,    0,   300, 1000, id="whole-batches-below-the-stable-end"),
    pytest.param(0,   0, 50, 1020,               20,    0,   200, 1000, id="nothing-that-is-too-new"),
    pytest.param(0,   0, 50, 1000,                0,    0,     0, None, id="everything-is-too-new"),
    pytest.param(0,  50, 50, 9999,               50,  500,     0, None, id="everything-is-compacted"),
    pytest.param(30, 10, 50, 9999,               50,  300,   200, 1030, id="retention-has-passed-it"),
]
# fmt: on


@pytest.mark.parametrize("start, compacted, stable, before, below, clean, dirty, oldest", DIRT)
def test_dirt(start, compacted, stable, before, below, clean, dirty, oldest):
    found = dirt_of(
        FIVE,
        log_start_offset=start,
        compacted_below=compacted,
        stable_below=stable,
        appended_before_ms=before,
    )

    assert (found.cleanable_below, found.clean_bytes, found.dirty_bytes) == (below, clean, dirty)
    assert found.oldest_dirty_ms == oldest
    assert found.ratio == dirty / max(clean + dirty, 1)
