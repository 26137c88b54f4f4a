"""What must hold of the model of a compacted log after each step."""

from tests.kept import kept_records
from tests.log.cut_reader import BrokenError, table_of
from tests.log.model import Log, Replica


def check(log: Log) -> None:
    """Check all replicas, after a step.

    Raises:
        BrokenError: An invariant does not hold.
    """
    registration = log.partition
    if registration.compaction.compacted_below > registration.high_watermark:
        raise BrokenError("C is above the last stable offset")
    for number, replica in log.replicas.items():
        _check_finished(number, replica)
        _check_target(log, number, replica)
        if number in registration.isr:
            _check_member(log, number, replica)


def _check_target(log: Log, number: int, replica: Replica) -> None:
    is_led = number == log.partition.leader and replica.epoch == log.partition.leader_epoch
    if is_led and replica.progress.compacted_below > replica.end:
        raise BrokenError(f"a leader's target is above its log: {number}")


def _check_member(log: Log, number: int, replica: Replica) -> None:
    registration = log.partition
    if not registration.compaction.may_count(replica.progress.finished_below):
        if registration.unclean_generation == 0:
            raise BrokenError(f"unreadable: {number} is in the ISR")
        return
    if replica.epoch != registration.leader_epoch:
        return
    mark = registration.high_watermark
    mine, true = table_of(replica.records, mark), table_of(replica.whole, mark)
    mine.pop(None, None)
    true.pop(None, None)
    if any(true.get(key) != offset for key, offset in mine.items()):
        raise BrokenError(f"resurrected on {number}: {mine}, not {true}")
    if mine != true:
        raise BrokenError(f"missing on {number}: {mine}, not {true}")


def _check_finished(number: int, replica: Replica) -> None:
    progress = replica.progress
    if not progress.is_finished or replica.end < progress.compacted_below:
        return
    expected = kept_records(
        replica.whole,
        compacted_below=progress.compacted_below,
        tombstones_below=progress.tombstones_below,
    )
    if replica.records != expected:
        raise BrokenError(f"content on {number}: {replica.records}, not {expected}")
