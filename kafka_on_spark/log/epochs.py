"""Leader epochs of one log: where the records of each leadership begin and end.

Kafka keeps this in a checkpoint file; here it is computed from the batch headers. The fence counts
as the last epoch even before it has records: a leader that adopted epoch 7 and wrote nothing still
ends epoch 6 where its log ends (KIP-101, KIP-279; Source: LeaderEpochFileCache).
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from kafka_on_spark.base.errors import ensure
from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log.merged_segment import LogPart
from kafka_on_spark.log.state import ReplicaState


@dataclass(frozen=True, slots=True)
class EpochEntry:
    """A leadership's first offset in a log; neither is negative."""

    leader_epoch: LeaderEpoch
    start_offset: Offset

    def __post_init__(self) -> None:
        ensure(self.leader_epoch >= 0, self)
        ensure(self.start_offset >= 0, self)


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """Answer to "where does this epoch end?": the epoch it is about, and its end offset.

    Attributes:
        leader_epoch: The largest epoch not above the one asked for.
        end_offset: Exclusive end of that epoch in the log.
    """

    leader_epoch: LeaderEpoch
    end_offset: Offset


@dataclass(frozen=True, slots=True)
class EpochHistory:
    """The leaderships of one log, oldest first: epochs and start offsets both rise.

    The methods are those of Kafka's LeaderEpochFileCache.
    """

    entries: tuple[EpochEntry, ...] = ()

    @property
    def latest_epoch(self) -> LeaderEpoch | None:
        """The last leader epoch; None for a log that has none."""
        return self.entries[-1].leader_epoch if self.entries else None

    def entry_of(self, leader_epoch: LeaderEpoch) -> EpochEntry | None:
        """Return the entry of exactly this epoch, or None."""
        place = bisect_left(self.entries, leader_epoch, key=lambda entry: entry.leader_epoch)
        found = self.entries[place : place + 1]
        return found[0] if found and found[0].leader_epoch == leader_epoch else None

    def entry_below(self, leader_epoch: LeaderEpoch) -> EpochEntry | None:
        """Return the entry of the largest epoch below this one, or None."""
        place = bisect_left(self.entries, leader_epoch, key=lambda entry: entry.leader_epoch)
        return self.entries[place - 1] if place else None

    def entry_above(self, leader_epoch: LeaderEpoch) -> EpochEntry | None:
        """Return the entry of the smallest epoch above this one, or None."""
        place = bisect_right(self.entries, leader_epoch, key=lambda entry: entry.leader_epoch)
        return self.entries[place] if place < len(self.entries) else None

    def end_offset_for(
        self, leader_epoch: LeaderEpoch | None, log_end_offset: Offset
    ) -> EpochEnd | None:
        """Return where `leader_epoch`, or the largest epoch below it, ends.

        The latest epoch ends at the log end. An epoch older than all is returned itself, with the
        start of the first. An epoch above all, or none, has no end: None.
        """
        if leader_epoch is None:
            return None
        if leader_epoch == self.latest_epoch:
            return EpochEnd(leader_epoch, log_end_offset)
        above = self.entry_above(leader_epoch)
        if above is None:
            return None
        mine = self.entry_of(leader_epoch) or self.entry_below(leader_epoch)
        return EpochEnd(leader_epoch if mine is None else mine.leader_epoch, above.start_offset)


def epoch_history(state: ReplicaState) -> EpochHistory:
    """Return the leaderships of `state`; the first begins at the log start."""
    entries: list[EpochEntry] = []
    batches, place = state.batches, 0
    while place < len(batches):  # from one leadership to the next: a log has few
        first = batches[place]
        start = max(first.base_offset, state.log_start_offset)
        entries.append(EpochEntry(first.leader_epoch, start))
        place = bisect_right(batches, first.leader_epoch, place, key=_leader_epoch)
    fence = state.leader_epoch
    if fence is not None and (not entries or entries[-1].leader_epoch < fence):
        entries.append(EpochEntry(fence, state.log_end_offset))
    return EpochHistory(tuple(entries))


def _leader_epoch(batch: LogPart) -> LeaderEpoch:
    return batch.leader_epoch


def end_offset_for(state: ReplicaState, leader_epoch: LeaderEpoch | None) -> EpochEnd | None:
    """Return where `leader_epoch`, or the largest epoch below it, ends in this log."""
    return epoch_history(state).end_offset_for(leader_epoch, state.log_end_offset)


def latest_epoch_with_records(state: ReplicaState) -> LeaderEpoch | None:
    """Return the epoch of the last record, or None for a log without any."""
    return state.batches[-1].leader_epoch if state.batches else None
