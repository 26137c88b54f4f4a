"""Rules of what keeps a log small that no seed of the simulation misses: each with what follows where it
is left out."""

from contextlib import nullcontext
from unittest.mock import patch

import pytest

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log import fetch, operations
from kafka_on_spark.log.compaction import CompactionProgress
from kafka_on_spark.log.state import check_log
from tests.builders import partition
from tests.log.two_replicas import FOLLOWER, LEADER, Two


def nothing(*arguments, **named):
    return None


def left_out(name, is_left_out):
    return patch.object(fetch, name, nothing) if is_left_out else nullcontext()


@pytest.mark.parametrize("is_left_out", [False, True])
def test_a_follower_that_may_have_missed_tombstones_is_made_again(is_left_out):
    two = Two("0:abcde", "0:a")
    log = two.replicas.open(LEADER)
    state = log.load()
    done = CompactionProgress(compacted_below=Offset(5), tombstones_below=Offset(3))
    change = operations.set_compaction(state, done, leader_epoch=5)
    log.commit(state, change)

    with left_out("check_tombstones", is_left_out):
        report = two.fetch(partition("1 2", isr="1", epoch=5))

    assert report.followers[0].is_bad is not is_left_out
    # I27: without the rule it has all records, and keeps what a tombstone deleted that it never saw.
    assert two.replicas.open(FOLLOWER).load().log_end_offset == (5 if is_left_out else 1)


@pytest.mark.parametrize("is_left_out", [False, True])
def test_a_cut_inside_a_merged_segment_leaves_what_both_share_written_anew(is_left_out):
    two = Two("0:aab", "0:aabbc", fence=3)
    log = two.replicas.open(FOLLOWER)
    state = log.load()
    merged = two.segments.rewrite(
        FOLLOWER,
        FOLLOWER,
        state.batches,
        leader_epoch=3,
        start_offset=Offset(0),
        end_offset=Offset(5),
    )
    change = operations.replace_neighbours(
        state, state.batches, merged, operation="merge", leader_epoch=3, stable_offset=Offset(5)
    )
    log.commit(state, change)

    with left_out("part_to_keep", is_left_out):
        report = two.fetch(partition("1 2", isr="1", epoch=4))

    after = log.load()
    check_log(after)
    is_cut = (after.log_end_offset, after.chain_digest) == (
        3,
        two.replicas.open(LEADER).load().chain_digest,
    )
    assert (is_cut, report.followers[0].is_matched) == (not is_left_out,) * 2
