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


def merged_with_another_digest(stage):
    """The chain digest at the end is another than that of what it replaces."""
    _merge(stage, [(0, 10), (1, 11)], 2, chain_digest=ChainDigest("ab" * 16))


MERGES_PLANTED = [
    (merging.COVERAGE, merged_with_another_digest),
]
