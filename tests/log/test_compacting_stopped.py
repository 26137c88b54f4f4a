"""What stops the compaction of a replica, what it waits for, and who goes on from there."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import CommitOutcomeUnknownError, CorruptLogError
from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log import compactor, operations
from kafka_on_spark.log.compaction import CompactionProgress
from kafka_on_spark.log.state import LogChange
from tests.builders import address, merged
from tests.controller.rounds import EPOCH
from tests.fakes import Fault, folder
from tests.log.compacting import BATCHES, Compacting

# fmt: off
REFUSED = [
    pytest.param({"leader_epoch": LeaderEpoch(EPOCH + 1)},  id="its-leadership-has-not-begun"),
    pytest.param({"high_watermark": Offset(7)},             id="its-image-is-older-than-what-it-took-over"),
    pytest.param({"high_watermark_chain": "f" * 32},        id="its-log-is-another"),
]
# fmt: on


@pytest.mark.parametrize("fields", REFUSED)
def test_a_leader_that_is_refused_is_left_to_who_must_have_it_compacted(fields):
    """A round that took it for finished would never come back to it under this leadership."""
    cluster = Compacting(below=6)
    state = cluster.table().load()
    taken = CompactionProgress(compacted_below=Offset(11))
    cluster.table().commit(state, replace(_empty(state), compaction=taken))
    order = cluster.order(works=("compact",))
    chain = state.chain_at(fields.get("high_watermark", order.partition.high_watermark))
    of_old = replace(order.partition, **{"high_watermark_chain": chain, **fields})
    old = replace(order, partition=of_old)

    assert cluster.compact(order=old).is_left
    assert cluster.records() == list(range(BATCHES))

    cluster.compact_at_last(works=("compact",))
    assert cluster.progress().finished_below == 11
    assert not cluster.compact(order=order).is_left


def _empty(state):
    return LogChange(
        operation="compact",
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        leader_epoch=state.leader_epoch,
    )


def test_it_stops_where_a_newer_image_has_merged_above_its_high_watermark(monkeypatch):
    """Such a segment is not known to be stable to this task (found by simulation)."""
    monkeypatch.setattr(compactor, "GROUP_BYTES_MAX", 500)
    cluster = Compacting()
    table, order = cluster.table(), cluster.order()
    state = table.load()
    chain = state.chain_at(Offset(10))
    old = replace(order.partition, high_watermark=Offset(10), high_watermark_chain=chain)

    def merge_above():
        cluster.compactor.before_write = lambda: None
        made = merged(state, 9, 12)
        cluster.segments.put(address(1, key=cluster.keys[0]), made.segment)
        parts = state.batches_between(Offset(9), Offset(12))
        change = operations.replace_neighbours(
            state,
            parts,
            made,
            operation="merge",
            leader_epoch=EPOCH,
            stable_offset=Offset(12),
        )
        table.commit(state, change)

    cluster.compactor.before_write = merge_above

    assert cluster.compact(order=replace(order, partition=old)).is_left
    assert table.load().compaction == CompactionProgress()


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_BEFORE, Fault.CONFLICT])
@pytest.mark.parametrize("number", range(6))
def test_whichever_commit_fails_it_ends_with_the_same_records(monkeypatch, fault, number):
    monkeypatch.setattr(compactor, "GROUP_BYTES_MAX", 200)
    cluster = Compacting(tombstones=6)
    cluster.roots["memory://1"].faults.extend([None] * number + [fault])

    for _ in range(10):
        try:
            if not cluster.compact().is_left:
                break
        except CommitOutcomeUnknownError:
            continue

    assert cluster.records() == cluster.expected()
    assert cluster.progress().has_finished(cluster.decided)


def test_a_damaged_file_stops_it_before_anything_is_removed():
    cluster = Compacting()
    place = address(1, key=cluster.keys[0])
    name = cluster.table().load().batches[3].segments[0].file_name
    cluster.roots[place.root].files[folder(place)][name] = b"damage"

    with pytest.raises(CorruptLogError):
        cluster.compact()

    assert cluster.records() == list(range(BATCHES))
