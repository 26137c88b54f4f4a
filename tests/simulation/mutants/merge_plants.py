"""Merges to plant that no correct protocol would commit; see `plants`."""

from typing import Any

from kafka_on_spark.ids import ChainDigest, LeaderEpoch, Offset
from kafka_on_spark.log.batch import Segment, segment_name
from kafka_on_spark.log.merged_segment import MergedSegment
from tests.simulation.checks import merging
from tests.simulation.world.disks import digest_of


def _merge(stage: Any, rows: list[tuple[int, int]], end: int, **fields: Any) -> None:
    """Commit one file with `rows` in the place of what 1 has below `end`."""
    state = stage.table(1).state
    named = fields.pop("named", segment_name(0, "merged", digest_of(rows, 0)))
    segment = Segment(
        file_name=named,
        size_bytes=100 * len(rows),
        record_count=len(rows),
        timestamp_min_us=0,
        timestamp_max_us=0,
    )
    given: dict[str, Any] = {
        "base_offset": Offset(0),
        "end_offset": Offset(end),
        "leader_epoch": LeaderEpoch(0),
        "chain_digest": state.chain_at(Offset(end)),
    }
    merged = MergedSegment(appended_at_ms=0, segment=segment, content_digest=0, **(given | fields))
    stage.commit(1, "merge", merged=merged)


def merged_with_a_record_less(stage):
    """One of two records is not in the file."""
    _merge(stage, [(0, 10)], 2)


def merged_with_another_digest(stage):
    """The chain digest at the end is another than that of what it replaces."""
    _merge(stage, [(0, 10), (1, 11)], 2, chain_digest=ChainDigest("ab" * 16))


def merged_of_two_leaderships(stage):
    """Records of two epochs are in one file."""
    stage.change(leader=1)
    for broker_id in (1, 2, 3):
        stage.adopt(broker_id, 1)
    stage.committed(12)
    rows = [(0, 10), (1, 11), (2, 12)]
    _merge(stage, rows, 3, named=segment_name(1, "merged", digest_of(rows, 0)))


def merged_above_the_high_watermark(stage):
    """A record that is not committed goes into the file."""
    stage.add(1, stage.batch(12, 2), "append")
    _merge(stage, [(0, 10), (1, 11), (2, 12)], 3)


def merged_under_another_fence(stage):
    """The file is named under a leadership that the table has not adopted."""
    rows = [(0, 10), (1, 11)]
    _merge(stage, rows, 2, named=segment_name(3, "merged", digest_of(rows, 0)))


def merged_into_a_path_of_before(stage):
    """The file has a path that the table has had."""
    _merge(stage, [(0, 10)], 2, named=stage.table(1).state.batches[0].segments[0].file_name)


MERGES_PLANTED = [
    (merging.SAME_RECORDS, merged_with_a_record_less),
    (merging.COVERAGE, merged_with_another_digest),
    (merging.ONE_EPOCH, merged_of_two_leaderships),
    (merging.COMMITTED, merged_above_the_high_watermark),
    ("I26 added under its fence", merged_under_another_fence),
    ("I26 added once", merged_into_a_path_of_before),
]
