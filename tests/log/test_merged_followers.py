"""Followers of a leader that has merged: what they take, and where the log of another is cut."""

from dataclasses import replace

from kafka_on_spark.log import operations
from tests.builders import NOW_MS, address, staged
from tests.controller.rounds import EPOCH
from tests.log.merging import Merging, fetch_out_of_sync, made_anew


def test_a_follower_that_ends_inside_its_leaders_segment_takes_the_rest():
    cluster = Merging()
    made_anew(cluster, 3, 20)
    cluster.merge(1)

    report = fetch_out_of_sync(cluster, 3)

    assert (report.is_matched, report.log_end_offset) == (True, 42)
    assert cluster.spans(3)[19:21] == [(19, 20), (20, 32)]
    assert cluster.table(3).load().chain_digest == cluster.table(1).load().chain_digest
    # Its own, from which it can merge on.
    assert cluster.table(3).load().batches[20].segment.epoch_in_name == EPOCH


def test_a_replica_made_anew_takes_its_leaders_segments_whole():
    cluster = Merging()
    made_anew(cluster, 3)
    cluster.merge(1)

    assert fetch_out_of_sync(cluster, 3).is_matched
    assert cluster.spans(3) == cluster.spans(1)
    assert cluster.table(3).load().batches[0].content_digest == (
        cluster.table(1).load().batches[0].content_digest
    )


def test_a_follower_of_another_log_is_found_by_the_borders_of_its_leaders_segment():
    """Ends and epochs are alike: only the digests inside the segment tell."""
    cluster = Merging()
    made_anew(cluster, 3, 20)
    log = cluster.table(3)
    state = log.load()
    other = replace(staged("other", epoch=EPOCH))
    cluster.segments.put(address(3, key=cluster.keys[0]), other.segments[0])
    log.commit(state, operations.append(state, other, leader_epoch=EPOCH, now_ms=NOW_MS))
    cluster.merge(1)

    report = fetch_out_of_sync(cluster, 3)

    assert (report.is_matched, report.is_bad) == (False, True)
