"""Leader epochs: where each begins and ends in a log, and which one a request may name.

Kafka keeps this in a checkpoint file; here it is computed from the batch headers. The fence counts
as the last epoch even before it has records: a leader that adopted epoch 7 and wrote nothing still
ends epoch 6 where its log ends (KIP-101, KIP-279; Source: LeaderEpochFileCache).

A request with a wrong epoch is refused for that before anything else, because its sender must
refresh first (KIP-320; Source: Partition.getLocalLog).
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from kafka_on_spark.base.errors import (
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, Offset, ensure
from kafka_on_spark.log.batch import LogPart
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.partition import PartitionRegistration


def check_leader_epoch(known: LeaderEpoch | None, asked: LeaderEpoch | None) -> None:
    """Check the leader epoch of a request against the one `known` here.

    A request without one is not checked: a plain consumer has none.

    Raises:
        FencedLeaderEpochError: The request's is older: its sender was deposed, or must refresh.
        UnknownLeaderEpochError: The request's is newer: this side must catch up.
    """
    if asked is None or asked == known:
        return
    if known is not None and asked < known:
        raise FencedLeaderEpochError(
            "a later leadership has been adopted", known=known, leader_epoch=asked
        )
    raise UnknownLeaderEpochError(
        "this leadership has not been adopted", known=known, leader_epoch=asked
    )


def check_request(
    partition: PartitionRegistration | None,
    broker_id: BrokerId,
    *,
    leader_epoch: LeaderEpoch | None,
    only_leader: bool,
    fetched_by: BrokerId | None = None,
) -> None:
    """Check a request about `partition` that names the replica on `broker_id`.

    `only_leader`: the replica must be the leader's. `fetched_by`: the follower that asks, which
    must be assigned.

    Raises:
        UnknownTopicOrPartitionError: There is no such partition, or no replica of it there.
        FencedLeaderEpochError, UnknownLeaderEpochError: As `check_leader_epoch`.
        NotLeaderOrFollowerError: The replica does not lead.
    """
    if partition is None or broker_id not in partition.replicas:
        raise UnknownTopicOrPartitionError(f"broker {broker_id} has no replica of the partition")
    check_leader_epoch(partition.leader_epoch, leader_epoch)
    if only_leader and partition.leader != broker_id:
        raise NotLeaderOrFollowerError(
            f"broker {broker_id} does not lead the partition", leader=partition.leader
        )
    if fetched_by is not None and fetched_by not in partition.replicas:
        _refuse_unassigned(fetched_by, leader_epoch)


def _refuse_unassigned(fetched_by: BrokerId, leader_epoch: LeaderEpoch | None) -> None:
    """Refuse a follower that is not assigned.

    A follower that knows the current epoch may know an assignment that this side does not, which
    then must catch up. Source: Partition.followerReplicaOrThrow (KAFKA-14097).
    """
    if leader_epoch is not None:
        raise UnknownLeaderEpochError(
            f"broker {fetched_by} is not assigned, as far as is known here",
            leader_epoch=leader_epoch,
        )
    raise NotLeaderOrFollowerError(f"broker {fetched_by} is not assigned to the partition")


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


def check_fetch(
    state: ReplicaState, fetch_offset: Offset, *, last_fetched_epoch: LeaderEpoch | None = None
) -> EpochEnd | None:
    """Check a fetch from `fetch_offset`; return where the logs diverge, or None if they do not.

    `last_fetched_epoch`: of the fetcher's last record; None: the fetcher names none, so only the
    range is checked. Logs that diverge are no error: the fetcher must cut, and may have a larger
    end than this log. Source: Partition.readRecords.

    Raises:
        OffsetOutOfRangeError: The offset is below the log start or above the log end, or the
            last fetched epoch is above all that this log knows.
    """
    if last_fetched_epoch is not None:
        end = end_offset_for(state, last_fetched_epoch)
        if end is None:
            raise OffsetOutOfRangeError(
                "the last fetched epoch is above the log's", last_fetched_epoch=last_fetched_epoch
            )
        is_kept = fetch_offset >= state.log_start_offset
        if is_kept and (end.leader_epoch < last_fetched_epoch or end.end_offset < fetch_offset):
            return end
    # The log end itself is in range, and empty.
    if not state.log_start_offset <= fetch_offset <= state.log_end_offset:
        side = "below the log start" if fetch_offset < state.log_start_offset else "above the end"
        raise OffsetOutOfRangeError(
            f"offset {fetch_offset} is {side} of the log",
            start=state.log_start_offset,
            end=state.log_end_offset,
        )
    return None
