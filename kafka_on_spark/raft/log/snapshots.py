"""What snapshots allow: which are of a log, when a log starts anew, at one, and what may be deleted
before one.

Source: KafkaMetadataLog (KIP-630).
"""

from collections.abc import Collection

from kafka_on_spark.errors import OffsetOutOfRangeError, ensure
from kafka_on_spark.ids import Offset
from kafka_on_spark.raft.log.lookups import Validity, validate_offset_and_epoch
from kafka_on_spark.raft.log.raft_log import OffsetAndEpoch, RaftLog


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


def replaces_log(log: RaftLog, snapshot: OffsetAndEpoch) -> bool:
    """Return whether a snapshot is ahead of all of `log`: the log then starts anew, at it.

    Source: KafkaMetadataLog.truncateToLatestSnapshot.
    """
    return (snapshot.epoch, snapshot.offset) > (log.end.epoch, log.end.offset)


def check_snapshot(log: RaftLog, high_watermark: Offset, snapshot: OffsetAndEpoch) -> bool:
    """Check that a snapshot may be made that ends at `snapshot`; return False if it is below the
    log start and so nobody needs it.

    Raises:
        ImpossibleValueError: It would hold what is not committed, ends within a batch, or its epoch
            is not the one that the log has there.
    """
    if snapshot.offset < log.start.offset:
        return False
    ensure(snapshot.offset <= high_watermark, (snapshot, high_watermark))
    found = validate_offset_and_epoch(log, snapshot.offset, snapshot.epoch)
    ensure(found.validity is Validity.VALID, (snapshot, found))
    ensure(log.has_border(snapshot.offset), snapshot)
    return True


def may_start_at(
    log: RaftLog,
    high_watermark: Offset,
    snapshots: Collection[OffsetAndEpoch],
    start: OffsetAndEpoch,
) -> bool:
    """Return whether the log start may be raised to a snapshot: one that is there, above the start.

    Raises:
        OffsetOutOfRangeError: What is not committed would be deleted.
    """
    if start not in snapshots or start.offset <= log.start.offset:
        return False
    if start.offset > high_watermark:
        raise OffsetOutOfRangeError(
            f"the log start can't be raised to {start.offset}: only {high_watermark} is committed"
        )
    return True
