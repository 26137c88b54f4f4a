"""What a log answers to a fetch, and what a follower does about an error: Kafka's ladders, pure.

The order of the checks is part of the rule: epoch before role, range before divergence.
Source: Partition.localLogWithEpochOrThrow, Partition.readRecords, AbstractFetcherThread.
"""

from enum import Enum

from kafka_on_spark.errors import (
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log.epochs import EpochEnd, EpochHistory


def check_leader_epoch(current: LeaderEpoch, named: LeaderEpoch | None) -> None:
    """Check the leadership that a request names against the one in force; None names none.

    Raises:
        FencedLeaderEpochError: It names an older one: the caller must refresh.
        UnknownLeaderEpochError: It names a newer one: this side must refresh.
    """
    if named is None or named == current:
        return
    if named < current:
        raise FencedLeaderEpochError("a later leadership is in force", epoch=current, named=named)
    raise UnknownLeaderEpochError("that leadership is not known here", epoch=current, named=named)


def check_request(
    current: LeaderEpoch, named: LeaderEpoch | None, *, is_leader: bool, needs_leader: bool
) -> None:
    """Check a request for a partition's log: first the epoch it names, then who is asked.

    Raises:
        FencedLeaderEpochError, UnknownLeaderEpochError: As `check_leader_epoch`.
        NotLeaderOrFollowerError: Only the leader may answer, and this is not it.
    """
    check_leader_epoch(current, named)
    if needs_leader and not is_leader:
        raise NotLeaderOrFollowerError("this replica does not lead the partition", epoch=current)


def check_fetch(
    history: EpochHistory,
    *,
    log_start_offset: Offset,
    log_end_offset: Offset,
    fetch_offset: Offset,
    last_fetched_epoch: LeaderEpoch | None,
) -> EpochEnd | None:
    """Decide whether a fetcher that ends at `fetch_offset` shares this log so far.

    Returns where its last epoch ends here if it does not (KIP-595), else None.

    Raises:
        OffsetOutOfRangeError: Its epoch is above all here, or the offset is below the log start
            or above the log end; the error's `is_above` tells which.
    """
    diverging = None
    if last_fetched_epoch is not None:
        end = history.end_offset_for(last_fetched_epoch, log_end_offset)
        if end is None:
            raise _out_of_range(fetch_offset, log_start_offset, log_end_offset)
        if end.leader_epoch < last_fetched_epoch or end.end_offset < fetch_offset:
            diverging = end
    if fetch_offset < log_start_offset or (diverging is None and fetch_offset > log_end_offset):
        raise _out_of_range(fetch_offset, log_start_offset, log_end_offset)
    return diverging


def _out_of_range(offset: Offset, start: Offset, end: Offset) -> OffsetOutOfRangeError:
    return OffsetOutOfRangeError(
        f"offset {offset} is not in the log, which goes from {start} to {end}",
        is_above=offset >= start,
    )


class FetchAction(Enum):
    """What a follower does about an error."""

    FAIL = "wait until the metadata changes: this leadership is over"
    RETRY_WITH_BACKOFF = "ask again later"
    OFFSET_RESET = "look where the leader's log begins, and start there if that is above our end"


def action_after(error_name: str, *, requested: LeaderEpoch, current: LeaderEpoch) -> FetchAction:
    """Decide what follows an error of a fetch that was planned under epoch `requested`.

    `current` is the epoch that the follower knows when the answer comes. Source:
    AbstractFetcherThread.processFetchRequest, onPartitionFenced.
    """
    if error_name == "OFFSET_OUT_OF_RANGE":
        return FetchAction.OFFSET_RESET
    if error_name == "FENCED_LEADER_EPOCH" and requested == current:
        return FetchAction.FAIL
    return FetchAction.RETRY_WITH_BACKOFF
