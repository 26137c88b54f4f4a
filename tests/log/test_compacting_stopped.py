"""What stops the compaction of a replica, what it waits for, and who goes on from there."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import CommitOutcomeUnknownError, CorruptLogError
from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log import compactor
from kafka_on_spark.log.compaction import CompactionProgress
from kafka_on_spark.log.state import LogChange
from tests.builders import address
from tests.controller.rounds import EPOCH
from tests.fakes import Fault, folder
from tests.log.compacting import BATCHES, Compacting

# fmt: off
REFUSED = [
    pytest.param({"leader_epoch": LeaderEpoch(EPOCH + 1)},  id="its-leadership-has-not-begun"),
    pytest.param({"high_watermark": Offset(7)},             id="its-image-is-old"),
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
    old = replace(order, partition=replace(order.partition, **fields))

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
