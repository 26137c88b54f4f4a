"""A replica's log changed by hand: records that nobody appended, in a log that looks like one."""

from dataclasses import replace
from typing import Final

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log.batch import Batch, Segment, segment_name
from kafka_on_spark.log.state import ReplicaState

FORGED: Final = 10**9
"""Values from here on were appended by nobody."""

WAYS: Final = ("claims", "computes", "longer")
"""The digests stay as they were; they are made to compute again; and a batch more is there."""


def forged_log(
    state: ReplicaState, way: str, value: int, high_watermark: int
) -> tuple[ReplicaState, Segment] | None:
    """Return a log with one committed batch changed, and the file that it names then; None: it
    has none."""
    committed = [each for each in state.batches if each.end_offset <= high_watermark]
    if not committed or state.leader_epoch is None:
        return None
    place = len(committed) // 2
    old = state.batches[place]
    changed = replace(old, segments=(_file(value, old), *old.segments[1:]))
    if way == "claims":
        batches = (*state.batches[:place], changed, *state.batches[place + 1 :])
        return replace(state, batches=batches), changed.segments[0]
    log = replace(state, batches=state.batches[:place])
    for batch in (changed, *state.batches[place + 1 :]):
        log = _and(log, batch)
    if way == "longer":
        more = replace(
            changed,
            base_offset=state.log_end_offset,
            leader_epoch=state.leader_epoch,
            producer=None,
            segments=(replace(changed.segments[0], file_name=_name(value, changed, "m")),),
            record_count=changed.segments[0].record_count,
        )
        log = _and(log, more)
    return log, log.batches[-1 if way == "longer" else place].segments[0]


def _and(log: ReplicaState, batch: Batch) -> ReplicaState:
    longer = replace(log, batches=(*log.batches, log.chained(batch)))
    return replace(longer, log_end_offset=Offset(max(log.log_end_offset, batch.end_offset)))


def _file(value: int, batch: Batch) -> Segment:
    return replace(batch.segments[0], file_name=_name(value, batch, "f"))


def _name(value: int, batch: Batch, kind: str) -> str:
    old = batch.segments[0]
    digest = "_".join([str(value)] * old.record_count)
    return segment_name(batch.leader_epoch, f"{kind}{value}", digest)
