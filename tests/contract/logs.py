"""Logs of real files, for suites that merge and clean them: each side of a contract makes them."""

from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import StagedBatch
from tests.builders import NOW_MS

EPOCH = LeaderEpoch(0)


def append(disks, address, *counts, producer=None, now_ms=NOW_MS):
    """Append a batch of segments with so many records each; return the state after it."""
    log = disks.replicas.open(address)
    before = log.load()
    segments = tuple(
        disks.put(address, f"a{before.log_end_offset}x{place}", count)
        for place, count in enumerate(counts)
    )
    staged = StagedBatch(
        segments=segments, partition_count=1, producer=producer, is_log_append_time=False
    )
    change = operations.append(before, staged, leader_epoch=EPOCH, now_ms=now_ms)
    return log.commit(before, change)


def created(disks, address):
    """Create an empty log under `EPOCH`."""
    disks.replicas.create(address, leader_epoch=EPOCH)


def drop_below(disks, address, offset):
    """Drop what lies below an offset; return the names of the files that the table has removed."""
    log = disks.replicas.open(address)
    before = log.load()
    after = log.commit(before, operations.advance_log_start(before, Offset(offset)))
    return sorted(set(names_of(before)) - set(names_of(after)))


def names_of(state):
    return sorted(each.file_name for part in state.batches for each in part.segments)


def rewrite(disks, source, parts, *, target=None, start=None, end=None, epoch=EPOCH):
    """Write parts of a log as one merged segment."""
    return disks.segments.rewrite(
        source,
        target or source,
        parts,
        leader_epoch=LeaderEpoch(epoch),
        start_offset=Offset(parts[0].base_offset if start is None else start),
        end_offset=Offset(parts[-1].end_offset if end is None else end),
    )


def merge(disks, address):
    """Merge all that a log has; return the segment."""
    log = disks.replicas.open(address)
    state = log.load()
    merged = rewrite(disks, address, state.batches)
    change = operations.replace_neighbours(
        state,
        state.batches,
        merged,
        operation="merge",
        leader_epoch=EPOCH,
        stable_offset=state.log_end_offset,
    )
    log.commit(state, change)
    return merged
