"""Where two logs part: Raft's look-ups by epoch, and the walk that a follower makes with them.

Unlike a partition's log (log/epochs.py), an epoch above all ends at the log end and is answered
with the newest epoch. Source: KafkaMetadataLog.endOffsetForEpoch, ReplicatedLog
.validateOffsetAndEpoch.
"""

from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum

from kafka_on_spark.ids import Offset, QuorumEpoch
from kafka_on_spark.raft.log.raft_log import OffsetAndEpoch, RaftBatch, RaftLog


class Validity(Enum):
    """What a leader's log says of where a follower's ends."""

    VALID = "valid"
    DIVERGING = "diverging"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class ValidOffset:
    """The answer to "may I go on from here?".

    Attributes:
        validity: VALID: go on; DIVERGING: cut to `at` first; SNAPSHOT: take the one that ends
            at `at`.
        at: The place meant.
    """

    validity: Validity
    at: OffsetAndEpoch


def end_offset_for_epoch(log: RaftLog, epoch: QuorumEpoch) -> OffsetAndEpoch:
    """Return where `epoch`, or the largest epoch below it that `log` has, ends.

    An epoch that is older than all is answered with itself and the log start, or with the
    snapshot's where the log starts at one.
    """
    newest = log.end.epoch
    if epoch >= newest:
        return log.end
    place = bisect_right(log.batches, epoch, key=_epoch)
    at = log.batches[place].base_offset if log.batches else log.end_offset
    if place:
        return OffsetAndEpoch(at, log.batches[place - 1].epoch)
    return log.start if _has_snapshot(log) else OffsetAndEpoch(at, epoch)


def validate_offset_and_epoch(log: RaftLog, offset: Offset, epoch: QuorumEpoch) -> ValidOffset:
    """Return whether a follower whose log ends at `offset`, with a last batch of `epoch`, may go on
    from there in a leader's `log`.
    """
    if log.start.offset == 0 and offset == 0:
        return ValidOffset(Validity.VALID, OffsetAndEpoch(offset, QuorumEpoch(0)))
    if _has_snapshot(log) and _needs_snapshot(log, offset, epoch):
        return ValidOffset(Validity.SNAPSHOT, log.start)
    end = end_offset_for_epoch(log, epoch)
    if end.epoch != epoch or end.offset < offset:
        return ValidOffset(Validity.DIVERGING, end)
    return ValidOffset(Validity.VALID, OffsetAndEpoch(offset, epoch))


def common_end(mine: RaftLog, leaders: RaftLog) -> Offset | None:
    """Return up to where `mine` is the beginning of the leader's log; None: nothing tells, since
    `mine` ends below the leader's log start, or starts above its end.

    The walk of KIP-279 by epochs, however many there are between, and from there down to the
    highest border at which both have the same write: a table that was set back may part inside an
    epoch.
    """
    asked = mine.end
    for _ in range(len(mine.batches) + 1):
        answer = validate_offset_and_epoch(leaders, asked.offset, asked.epoch)
        if answer.validity is not Validity.DIVERGING:
            break
        known = end_offset_for_epoch(mine, answer.at.epoch)
        asked = OffsetAndEpoch(
            Offset(min(known.offset, answer.at.offset, asked.offset)), known.epoch
        )
    return _same_border(mine, leaders, asked.offset)


def _same_border(mine: RaftLog, leaders: RaftLog, end: Offset) -> Offset | None:
    """Return the highest border up to `end` at which both logs have the same write."""
    for each in reversed(mine.batches):
        if each.end_offset > end:
            continue
        if has_write(leaders, each):
            return each.end_offset
        # What the leader's snapshot ends with is committed, so it is one write wherever it is.
        if (each.end_offset, each.epoch) == leaders.start:
            return each.end_offset
    if mine.start == leaders.start or leaders.has_border(mine.start.offset):
        return mine.start.offset
    return None


def has_write(log: RaftLog, batch: RaftBatch) -> bool:
    """Return whether a log has a batch of another one, at the same place.

    Where the batch ends within a run, its epoch tells, as Raft's log matching has it: one leader
    wrote all of an epoch. What the write was is not known any more.
    """
    found = log.batch_before(batch.end_offset)
    if found is not None:
        return (found.epoch, found.write_id) == (batch.epoch, batch.write_id)
    run = log.run_at(Offset(batch.end_offset - 1))
    return run is not None and run.epoch == batch.epoch


def is_snapshot_of(log: RaftLog, snapshot: OffsetAndEpoch) -> bool:
    """Return whether a snapshot is of `log`: it ends where a batch of that does, and the record
    before that end is of the snapshot's epoch.

    A snapshot is a file beside a log. Others may lie there: of a generation of the cluster that was
    given up, whose end another log has passed since. An epoch belongs to one generation, and what
    was committed in an epoch up to an offset is one history.
    """
    if not log.start.offset <= snapshot.offset <= log.end_offset or snapshot.offset == 0:
        return False
    if not log.has_border(snapshot.offset) and log.run_at(snapshot.offset) is None:
        return False  # within a run, the borders are not known any more
    return log.epoch_before(snapshot.offset) == snapshot.epoch


def _has_snapshot(log: RaftLog) -> bool:
    return log.start.offset > 0


def _needs_snapshot(log: RaftLog, offset: Offset, epoch: QuorumEpoch) -> bool:
    if offset < log.start.offset or epoch < log.start.epoch:
        return True
    return offset == log.start.offset and epoch != log.start.epoch


def _epoch(batch: RaftBatch) -> QuorumEpoch:
    return batch.epoch


def is_log_up_to_date(candidate: OffsetAndEpoch, voter: OffsetAndEpoch) -> bool:
    """Return whether a candidate's log is at least as good as a voter's: by the last epoch, then by
    the end (Raft §5.4.1)."""
    return (candidate.epoch, candidate.offset) >= (voter.epoch, voter.offset)


def find_write(log: RaftLog, write_id: str, from_offset: Offset) -> RaftBatch | None:
    """Return the batch of a write at or above `from_offset`, or None. Of a run only the last one
    is found."""
    place = bisect_right(log.batches, from_offset, key=lambda each: each.end_offset)
    return next((each for each in log.batches[place:] if each.write_id == write_id), None)
