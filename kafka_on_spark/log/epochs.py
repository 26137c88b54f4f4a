"""Where each leadership's records begin and end in one log.

Kafka keeps this in a checkpoint file; here the batch headers say it. The fence counts as the
last epoch even before it has records: a leader that adopted epoch 7 and wrote nothing still
ends epoch 6 where its log ends (KIP-101, KIP-279; Source: LeaderEpochFileCache.endOffsetFor).
"""

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


@dataclass(frozen=True, slots=True)
class EpochHistory:
    """The leaderships of one log, epochs and start offsets rising. Never changed, only replaced.

    Source: LeaderEpochFileCache.
    """

    entries: tuple[EpochEntry, ...] = ()

    @property
    def latest(self) -> EpochEntry | None:
        """The newest leadership, or None."""
        return self.entries[-1] if self.entries else None

    def assign(self, leader_epoch: LeaderEpoch, start_offset: Offset) -> "EpochHistory":
        """Return the history in which `leader_epoch` begins at `start_offset`.

        An epoch's start is written once, unless it moves down. What it contradicts, an epoch or
        a start not below the new ones, is dropped: the newest statement holds.

        Raises:
            ValueError: Epoch or offset is negative.
        """
        if leader_epoch < 0 or start_offset < 0:
            raise ValueError(f"an epoch begins at 0 or later: {leader_epoch} at {start_offset}")
        known = self.entry(leader_epoch)
        if known is not None and known == self.latest and known.start_offset <= start_offset:
            return self
        kept = self.entries
        while kept and (
            kept[-1].leader_epoch >= leader_epoch or kept[-1].start_offset >= start_offset
        ):
            kept = kept[:-1]
        return EpochHistory((*kept, EpochEntry(leader_epoch, start_offset)))

    def cut_from(self, offset: Offset) -> "EpochHistory":
        """Return the history of the log cut to end at `offset`; nothing happens below 0."""
        if offset < 0:
            return self
        return EpochHistory(tuple(each for each in self.entries if each.start_offset < offset))

    def drop_below(self, offset: Offset) -> "EpochHistory":
        """Return the history of the log that starts at `offset`: the epoch there starts there."""
        passed = [each for each in self.entries if each.start_offset <= offset]
        if not passed:
            return self
        first = EpochEntry(passed[-1].leader_epoch, offset)
        return EpochHistory((first, *self.entries[len(passed) :]))

    def end_offset_for(self, leader_epoch: LeaderEpoch, log_end_offset: Offset) -> EpochEnd | None:
        """Return where `leader_epoch`, or the largest epoch below it, ends in this log.

        Asked for the latest epoch, the log end. Asked for one older than all, that epoch and
        the start of the first. Above all: None, undefined.
        """
        latest = self.latest
        if latest is None or leader_epoch < 0 or leader_epoch > latest.leader_epoch:
            return None
        if leader_epoch == latest.leader_epoch:
            return EpochEnd(leader_epoch, log_end_offset)
        above = self.next_after(leader_epoch)
        assert above is not None, "the latest epoch is above"
        below = self.entry(leader_epoch) or self.previous_to(leader_epoch)
        named = leader_epoch if below is None else below.leader_epoch
        return EpochEnd(named, above.start_offset)

    def entry(self, leader_epoch: LeaderEpoch) -> EpochEntry | None:
        """Return the entry of exactly `leader_epoch`, or None."""
        return next((each for each in self.entries if each.leader_epoch == leader_epoch), None)

    def previous_to(self, leader_epoch: LeaderEpoch) -> EpochEntry | None:
        """Return the newest entry below `leader_epoch`, or None."""
        older = (each for each in reversed(self.entries) if each.leader_epoch < leader_epoch)
        return next(older, None)

    def next_after(self, leader_epoch: LeaderEpoch) -> EpochEntry | None:
        """Return the oldest entry above `leader_epoch`, or None."""
        return next((each for each in self.entries if each.leader_epoch > leader_epoch), None)

    def epoch_at(self, offset: Offset) -> LeaderEpoch | None:
        """Return the epoch that `offset` falls in, or None below the first; no end is known."""
        older = (each for each in reversed(self.entries) if each.start_offset <= offset)
        found = next(older, None)
        return None if found is None else found.leader_epoch


def epochs_of(state: ReplicaState) -> EpochHistory:
    """Return the leaderships of a replica's log; the first begins at the log start.

    The fence counts as the last, beginning at the log end while it has no records.
    """
    history = record_epochs(state)
    fence, latest = state.leader_epoch, history.latest
    if fence is None or (latest is not None and latest.leader_epoch >= fence):
        return history
    return history.assign(fence, state.log_end_offset)


def record_epochs(state: ReplicaState) -> EpochHistory:
    """Return the leaderships that a log has records of."""
    history = EpochHistory()
    for batch in state.batches:
        history = history.assign(batch.leader_epoch, max(batch.base_offset, state.log_start_offset))
    return history


def end_offset_for(state: ReplicaState, leader_epoch: LeaderEpoch) -> EpochEnd | None:
    """Return where `leader_epoch` ends in a replica's log; see `EpochHistory.end_offset_for`."""
    return epochs_of(state).end_offset_for(leader_epoch, state.log_end_offset)


def latest_epoch_with_records(state: ReplicaState) -> LeaderEpoch | None:
    """Return the epoch of the last record, or None for a log without any."""
    return state.batches[-1].leader_epoch if state.batches else None
