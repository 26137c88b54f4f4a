"""Where each leadership's records begin and end in one log.

Kafka keeps this in a checkpoint file; here the batch headers say it. The fence counts as the
last epoch even before it has records: a leader that adopted epoch 7 and wrote nothing still
ends epoch 6 where its log ends (KIP-101, KIP-279; Source: LeaderEpochFileCache.endOffsetFor).
"""

from bisect import bisect_right
from dataclasses import dataclass

from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log.state import ReplicaState


@dataclass(frozen=True, slots=True)
class EpochEntry:
    """A leadership's first offset in a log."""

    leader_epoch: LeaderEpoch
    start_offset: Offset


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """Answer to "where does this epoch end?": the epoch it is about, and its end offset.

    Attributes:
        leader_epoch: The largest epoch not above the one asked for.
        end_offset: Exclusive end of that epoch in the log.
    """

    leader_epoch: LeaderEpoch
    end_offset: Offset


def epoch_entries(state: ReplicaState) -> list[EpochEntry]:
    """Return the leaderships of `state`, oldest first; the first begins at the log start."""
    entries: list[EpochEntry] = []
    for batch in state.batches:
        if not entries or entries[-1].leader_epoch != batch.leader_epoch:
            start = max(batch.base_offset, state.log_start_offset)
            entries.append(EpochEntry(batch.leader_epoch, start))
    fence = state.leader_epoch
    if fence is not None and (not entries or entries[-1].leader_epoch < fence):
        entries.append(EpochEntry(fence, state.log_end_offset))
    return entries


def end_offset_for(state: ReplicaState, leader_epoch: LeaderEpoch) -> EpochEnd | None:
    """Return where `leader_epoch`, or the largest epoch below it, ends in this log.

    Asked for the latest epoch, the log end. Asked for one older than all, that epoch and the
    start of the first. Above all: None, undefined.
    """
    entries = epoch_entries(state)
    if not entries or leader_epoch > entries[-1].leader_epoch:
        return None
    if leader_epoch == entries[-1].leader_epoch:
        return EpochEnd(leader_epoch, state.log_end_offset)
    place = bisect_right(entries, leader_epoch, key=lambda entry: entry.leader_epoch)
    if place == 0:
        return EpochEnd(leader_epoch, entries[0].start_offset)
    return EpochEnd(entries[place - 1].leader_epoch, entries[place].start_offset)


def latest_epoch_with_records(state: ReplicaState) -> LeaderEpoch | None:
    """Return the epoch of the last record, or None for a log without any."""
    return state.batches[-1].leader_epoch if state.batches else None
