"""Opening a replica that has seen 10,000 commits."""

import time
from uuid import uuid4

from jobs.benchmarks.bench import Bench, say
from jobs.benchmarks.report import Budget, Row, row
from kafka_on_spark.base.ids import (
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    Offset,
    PartitionKey,
    ReplicaUuid,
    TopicId,
)
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import Segment, StagedBatch, segment_name
from kafka_on_spark.log.replicas import ReplicaLog
from kafka_on_spark.log.state import LogChange, ReplicaAddress, ReplicaState
from kafka_on_spark.store.new_roots import prepare_root
from kafka_on_spark.store.roots import StorageOptions

COMMITS = 10_000
RETAINED = 10
OPENS = 20
EPOCH = LeaderEpoch(0)
OPTIONS = StorageOptions()


def opening(bench: Bench) -> list[Row]:
    """Measure an open with few active segments, and one with 10,000 of them.

    Commits are not flushed here and name no files, to make many of them soon.
    """
    address = _new_replica(bench)
    log = ReplicaLog(address, OPTIONS)
    state = _commit(log, log.load(), None, segments=0)
    while state.version < COMMITS:
        is_full = len(state.batches) >= 2 * RETAINED
        start = state.batches[RETAINED].base_offset if is_full else None
        state = _commit(log, state, start, segments=1)
        if state.version % 1000 == 0:
            say(f"  {state.version} commits")
    few = row(
        f"open a replica after {state.version:,} commits, {len(state.batches)} active segments",
        _opens(address),
        "ms",
        budget=Budget(bound=30, on="value"),
    )
    while sum(len(batch.segments) for batch in state.batches) < COMMITS:
        state = _commit(log, state, None, segments=100)
    log.maintain()
    many = row(f"the same, {COMMITS:,} active segments", _opens(address), "ms")
    return [few, many]


def _new_replica(bench: Bench) -> ReplicaAddress:
    root = bench.folder / "opening"
    root.mkdir()
    identity = prepare_root(str(root), uuid4().hex, BrokerId(1), OPTIONS)
    address = ReplicaAddress(
        root=str(root),
        topic="opened",
        key=PartitionKey(TopicId(uuid4().hex), 0),
        broker_id=BrokerId(1),
        directory_id=DirectoryId(identity.directory_id),
        replica_uuid=ReplicaUuid(uuid4().hex),
        is_flushed=False,
    )
    ReplicaLog.create(address, OPTIONS)
    return address


def _commit(
    log: ReplicaLog, state: ReplicaState, log_start: Offset | None, *, segments: int
) -> ReplicaState:
    """Commit a leadership (no segments), a new log start, or a batch; and checkpoints."""
    change: object
    if segments == 0:
        change = operations.adopt(
            state, leader_epoch=EPOCH, truncate_to=None, floor=state.log_start_offset
        )
    elif log_start is not None:
        change = operations.advance_log_start(state, log_start)
    else:
        staged = StagedBatch(
            segments=tuple(_segment() for _ in range(segments)), partition_count=1, producer=None
        )
        change = operations.append(state, staged, leader_epoch=EPOCH, now_ms=0)
    assert isinstance(change, LogChange)
    after = log.commit(state, change)
    log.maintain()
    return after


def _segment() -> Segment:
    return Segment(
        file_name=segment_name(EPOCH, uuid4().hex, uuid4().hex),
        size_bytes=1000,
        record_count=1,
        timestamp_min_us=0,
        timestamp_max_us=0,
    )


def _opens(address: ReplicaAddress) -> list[float]:
    times = []
    for _ in range(OPENS):
        start = time.perf_counter()
        ReplicaLog(address, OPTIONS).load()
        times.append(1000 * (time.perf_counter() - start))
    return times[1:]
