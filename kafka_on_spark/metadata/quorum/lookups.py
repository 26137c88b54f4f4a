"""Where two logs part: Raft's look-ups by epoch, and the walk that a follower makes with them.

Unlike a partition's log (log/epochs.py), an epoch above all ends at the log end and is answered
with the newest epoch. Source: KafkaMetadataLog.endOffsetForEpoch, ReplicatedLog
.validateOffsetAndEpoch.
"""

from bisect import bisect_right

from kafka_on_spark.base.ids import Offset, QuorumEpoch
from kafka_on_spark.metadata.quorum.raft_log import OffsetAndEpoch, RaftBatch, RaftLog


def end_offset_for_epoch(log: RaftLog, epoch: QuorumEpoch) -> OffsetAndEpoch:
    """Return where `epoch`, or the largest epoch below it that `log` has, ends.

    An epoch that is older than all is answered with itself and the log's beginning.
    """
    newest = log.end.epoch
    if epoch >= newest:
        return log.end
    place = bisect_right(log.batches, epoch, key=lambda each: each.epoch)
    at = log.batches[place].base_offset if log.batches else log.end_offset
    return OffsetAndEpoch(at, log.batches[place - 1].epoch if place else epoch)


def validate_offset_and_epoch(
    log: RaftLog, offset: Offset, epoch: QuorumEpoch
) -> OffsetAndEpoch | None:
    """Return to where a follower whose log ends at `offset`, with a last batch of `epoch`, is to
    cut it first, by a leader's `log`; None: it may go on from there.
    """
    end = end_offset_for_epoch(log, epoch)
    is_valid = offset == 0 or (end.epoch == epoch and end.offset >= offset)
    return None if is_valid else end


def common_end(mine: RaftLog, leaders: RaftLog) -> Offset:
    """Return up to where `mine` is the beginning of the leader's log.

    The walk of KIP-279 by epochs, however many there are between, and from there down to the
    highest border at which both have the same write: a table that was set back may part inside an
    epoch.
    """
    asked = mine.end
    for _ in range(len(mine.batches) + 1):
        parted = validate_offset_and_epoch(leaders, asked.offset, asked.epoch)
        if parted is None:
            break
        known = end_offset_for_epoch(mine, parted.epoch)
        asked = OffsetAndEpoch(Offset(min(known.offset, parted.offset, asked.offset)), known.epoch)
    for each in reversed(mine.batches):
        if each.end_offset <= asked.offset and has_write(leaders, each):
            return each.end_offset
    return Offset(0)


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
    if not 0 < snapshot.offset <= log.end_offset:
        return False
    if not log.has_border(snapshot.offset) and log.run_at(snapshot.offset) is None:
        return False  # within a run, the borders are not known any more
    return log.epoch_before(snapshot.offset) == snapshot.epoch


def is_log_up_to_date(candidate: OffsetAndEpoch, voter: OffsetAndEpoch) -> bool:
    """Return whether a candidate's log is at least as good as a voter's: by the last epoch, then by
    the end (Raft §5.4.1)."""
    return (candidate.epoch, candidate.offset) >= (voter.epoch, voter.offset)


def find_write(log: RaftLog, write_id: str, from_offset: Offset) -> RaftBatch | None:
    """Return the batch of a write at or above `from_offset`, or None. Of a run only the last one
    is found."""
    place = bisect_right(log.batches, from_offset, key=lambda each: each.end_offset)
    return next((each for each in log.batches[place:] if each.write_id == write_id), None)
