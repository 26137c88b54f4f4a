"""Logs that end or are cut inside a merged segment: which borders are read, and what stays."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log.batch import Border
from kafka_on_spark.log.state import check_log
from kafka_on_spark.log.truncation import (
    fetch_start,
    follow,
    part_to_keep,
    shared_end,
    unread_borders,
)
from tests.builders import log, with_merged

BORDERS = "0:aabbc 1:ddeeff"  # ends of batches: 2 4 5, 7 9 11


def read(state, merged):
    """Return a log with the borders of one of its merged segments, as its file has them."""
    plain = log(BORDERS if state.log_end_offset > 5 else "0:aabbc")
    ends = [each for each in plain.batches if each.base_offset >= merged.base_offset]
    known = [
        Border(each.end_offset, each.chain_digest)
        for each in ends
        if each.end_offset <= merged.end_offset
    ]
    return state.with_borders(merged, tuple(known))


def compared(follower, leader, epoch):
    """Return both with all borders that were asked for, and how many that were."""
    count = 0
    while (unread := unread_borders(follower, leader, epoch)) is not None:
        count += 1
        if unread.is_leaders:
            leader = read(leader, unread.merged)
        else:
            follower = read(follower, unread.merged)
    return follower, leader, count


# fmt: off
INSIDE = [  # follower         leader's merged  takes from  reads
    pytest.param("0:aa",        (0, 5),         2,    1,  id="inside the first segment"),
    pytest.param("0:aabb",      (0, 5),         4,    1,  id="further inside"),
    pytest.param("0:aabbc",     (0, 5),         5,    0,  id="at its end"),
    pytest.param("0:aabbc 1:dd", (5, 11),       7,    1,  id="inside the second"),
    pytest.param("0:ax",        (0, 5),         None, 1,  id="of another log"),
]
# fmt: on


@pytest.mark.parametrize("fence", [1, 2])
@pytest.mark.parametrize("text, span, start, reads", INSIDE)
def test_a_follower_that_ends_inside_its_leaders_segment_goes_on_where_it_ends(
    text, span, start, reads, fence
):
    leader = with_merged(replace(log(BORDERS), leader_epoch=2), *span)
    follower = replace(log(text), leader_epoch=fence)

    mine, theirs, count = compared(follower, leader, 2)

    assert count == reads
    if fence == 2:
        assert fetch_start(mine, theirs) == start
    else:
        end = theirs.log_start_offset if start is None else start
        assert (shared_end(mine, theirs, 2) or 0) == end


def test_borders_that_compaction_dropped_vouch_for_nothing():
    leader = with_merged(replace(log(BORDERS), leader_epoch=2), 0, 5)
    [merged, *_] = leader.batches
    follower = log("0:aa", fence=2)
    leader = leader.with_borders(merged, ())

    assert unread_borders(follower, leader, 2) is None
    assert fetch_start(follower, leader) is None


def test_an_emptied_follower_takes_the_rest_of_a_segment_from_where_its_chain_is():
    leader = with_merged(replace(log(BORDERS), leader_epoch=2), 0, 5)
    follower = log("", base=3, fence=2, chain_before=log(BORDERS).chain_at(Offset(2)))

    mine, theirs, _ = compared(follower, leader, 2)

    assert fetch_start(mine, theirs) == 2


# fmt: off
CUT = [  # follower's merged  leader             cut at  kept of the segment
    pytest.param([(0, 5)],          "0:aab",          2,  (0, 2),  id="inside the only one"),
    pytest.param([(0, 5)],          "0:aabb 2:x",     4,  (0, 4),  id="further up"),
    pytest.param([(5, 11)],         "0:aabbc 1:dd",   7,  (5, 7),  id="inside the second"),
    pytest.param([(0, 5), (5, 11)], "0:aabb 2:x",     4,  (0, 4),  id="below a whole one"),
    pytest.param([(0, 5), (5, 11)], "0:aabbc 2:x",    5,  None,    id="between two"),
    pytest.param([(0, 5)],          "0:xxx",          0,  None,    id="nothing is shared"),
]
# fmt: on


@pytest.mark.parametrize("spans, theirs, cut, kept", CUT)
def test_a_cut_inside_a_merged_segment_keeps_what_lies_below_a_border(spans, theirs, cut, kept):
    mine = log(BORDERS)
    for span in spans:
        mine = with_merged(mine, *span, name=f"m{span[0]}")
    leader = replace(log(theirs), leader_epoch=3)

    mine, leader, _ = compared(mine, leader, 3)
    part = part_to_keep(mine, leader, LeaderEpoch(3), Offset(0))

    made = None
    if kept is None:
        assert part is None
    else:
        assert (part[0].base_offset, part[1]) == kept
        made = replace(
            part[0],
            end_offset=part[1],
            chain_digest=mine.chain_at(part[1]),
            segment=replace(
                part[0].segment, file_name="3-kept-d.parquet", record_count=kept[1] - kept[0]
            ),
            borders=None,
        )
    after = mine.apply(
        follow(mine, leader, leader_epoch=LeaderEpoch(3), floor=Offset(0), kept_part=made)
    )
    assert (after.log_end_offset, after.leader_epoch) == (cut, 3)
    check_log(after)


def test_a_cut_inside_a_merged_segment_that_was_not_rewritten_is_refused():
    mine, leader = with_merged(log(BORDERS), 0, 5), log("0:aab", fence=3)
    mine, leader, _ = compared(mine, leader, 3)

    with pytest.raises(CorruptLogError):
        follow(mine, leader, leader_epoch=LeaderEpoch(3), floor=Offset(0))
