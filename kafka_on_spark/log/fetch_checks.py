"""Checks of a fetch, and what follows a refusal: out of range, diverging epoch, fenced.

A fetch names an offset and the epoch of the last record that the fetcher has; both together say
whether the logs are the same so far (KIP-595, KIP-320). Whether the request's leader epoch is valid
is decided in `leadership`.
"""

from collections.abc import Sequence
from enum import Enum

from kafka_on_spark.base.errors import (
    FencedLeaderEpochError,
    OffsetOutOfRangeError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log.epochs import EpochEnd, end_offset_for
from kafka_on_spark.log.merged_segment import LogPart
from kafka_on_spark.log.progress import has_missed_tombstones
from kafka_on_spark.log.state import FILES_A_CHANGE_MAX, ReplicaState


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


def check_tombstones(follower: ReplicaState, leader: ReplicaState) -> None:
    """Check that a follower has seen every tombstone that its leader has removed (I27).

    Raises:
        ReplicaLostError: It may hold what one of them has deleted. It is made again.
    """
    end, seen = follower.log_end_offset, leader.compaction
    is_first = not follower.batches
    if has_missed_tombstones(follower.compaction, end, seen, is_first=is_first):
        raise ReplicaLostError(
            "the replica is behind tombstones that its leader has removed",
            end=end,
            tombstones_below=seen.tombstones_below,
        )


class FetchAction(Enum):
    """What to do with a partition whose fetch was refused; other partitions are not affected."""

    RETRY = "retry after a back-off"
    RESET = "find where the leader's log begins and ends, and go on from there"
    WAIT_FOR_METADATA = "wait until the metadata names a newer leadership"


def after_refusal(
    error_code: int, *, asked_epoch: LeaderEpoch, current_epoch: LeaderEpoch
) -> FetchAction:
    """Return what to do after a fetch planned under `asked_epoch` was refused.

    If the newest known epoch is fenced, another try can't help; if an older one is fenced, the
    newer one is tried. All other errors may pass, even a corrupt source: its replica is found bad,
    and another one leads. Source: AbstractFetcherThread.processFetchRequest.
    """
    if error_code == OffsetOutOfRangeError.code:
        return FetchAction.RESET
    if error_code == FencedLeaderEpochError.code and asked_epoch == current_epoch:
        return FetchAction.WAIT_FOR_METADATA
    return FetchAction.RETRY


def becomes_a_copy(follower: ReplicaState, taken: Sequence[LogPart], leader: ReplicaState) -> bool:
    """Return whether a follower that takes the last parts of its leader's log, `taken`, has the
    same files then, and no other, and is not compacted further than its leader says to be.

    Several fetches may have brought them, and what its leader did meanwhile shows in the files.
    They are compared only where it matters, for a log may have thousands.
    """
    own, seen = follower.compaction, leader.compaction
    behind = leader.batches[: -len(taken)]
    return (
        own != seen
        and own.finished_below <= seen.finished_below
        and own.tombstones_below <= seen.tombstones_below
        and own.compacted_below <= seen.compacted_below
        and taken[-1] is leader.batches[-1]
        and len(behind) == len(follower.batches)
        and all(map(_are_same_files, follower.batches, behind))
    )


def _are_same_files(one: LogPart, other: LogPart) -> bool:
    """Return whether two parts of logs are alike but for the epochs in their files' names."""
    epoch = one.segments[0].epoch_in_name
    return one.named_under(epoch) == other.named_under(epoch)


def first_batches(batches: Sequence[LogPart], bytes_max: int) -> list[LogPart]:
    """Return whole batches from the first on, at most `bytes_max` in all, and no more files than
    one commit names, but one at least.

    Source: replica.fetch.max.bytes (KIP-74).
    """
    taken: list[LogPart] = []
    size, file_count = 0, 0
    for batch in batches:
        size += batch.size_bytes
        file_count += len(batch.segments)
        if taken and (size > bytes_max or file_count > FILES_A_CHANGE_MAX):
            break
        taken.append(batch)
    return taken
