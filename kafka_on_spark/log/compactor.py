"""Compacts one replica, a group a commit, as far as is decided.

`compaction` decides, and says which records stay. Each replica compacts by itself, under the
leadership of the order's image (see `_may_compact`), and keeps the same records as every other that
has finished the same decision (I27).

If the keys of a decision are more than fit into `log.cleaner.dedupe.buffer.size`, the replica goes
through its log in several rounds, each with a part of the new keys: what an earlier round has left
makes no difference to what a later one keeps.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.base.merge_tiers import FILES_A_CHANGE_MAX
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import Batch, Border, LogPart, MergedSegment
from kafka_on_spark.log.compaction import CompactionProgress, next_group, stays
from kafka_on_spark.log.hashing import key_hashes
from kafka_on_spark.log.merge_plan import RECORDS_MAX
from kafka_on_spark.log.merging import (
    BATCH_ROWS,
    COLUMNS,
    encode_merged,
    fitting_into_one,
    moved,
    put_merged,
    read_borders,
    typed,
)
from kafka_on_spark.log.replicas import ReplicaLog, committed
from kafka_on_spark.log.segments import segment_batches
from kafka_on_spark.log.state import LogChange, ReplicaAddress, ReplicaState, proves_complete
from kafka_on_spark.log.upkeep_work import (
    NOTHING_DONE,
    Allowance,
    UpkeepOrder,
    WorkDone,
)
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.partition import Compaction
from kafka_on_spark.store.deadlines import within
from kafka_on_spark.store.roots import StorageOptions

_KEYS: Final = ("offset_delta", "key")
_KEYS_AND_VALUES: Final = ("offset_delta", "key", "value")
NOT_THERE: Final = -1
Offsets = npt.NDArray[np.int64]


class KeyMap:
    """Last offsets by key. Records are added in any order, then it is asked."""

    def __init__(self) -> None:
        self._parts: list[tuple[Any, Any, Offsets]] = []
        self._high = np.zeros(0, np.uint64)
        self._low = np.zeros(0, np.uint64)
        self._offsets = np.zeros(0, np.int64)

    def __len__(self) -> int:
        self._sort()
        return len(self._offsets)

    def add(self, keys: pa.Array, offsets: Offsets) -> None:
        """Add records; those without a key are left out."""
        if len(keys) == 0:
            return
        high, low = key_hashes(keys)
        if keys.null_count:
            has_key = keys.is_valid().to_numpy(zero_copy_only=False)
            high, low, offsets = high[has_key], low[has_key], offsets[has_key]
        self._parts.append((high.copy(), low.copy(), offsets.astype(np.int64)))

    def last_offsets(self, keys: pa.Array) -> Offsets:
        """Return the last offset of each key; NOT_THERE where it has none, or is null."""
        self._sort()
        high, low = key_hashes(keys)
        found = np.full(len(keys), NOT_THERE, np.int64)
        places = np.searchsorted(self._high, high)
        left = np.arange(len(keys))
        while len(left):  # again only for keys whose first halves are those of another
            left = left[places[left] < len(self._high)]
            left = left[self._high[places[left]] == high[left]]
            is_same = self._low[places[left]] == low[left]
            hits = left[is_same]
            found[hits] = self._offsets[places[hits]]
            left = left[~is_same]
            places[left] += 1
        if keys.null_count:
            found[keys.is_null().to_numpy(zero_copy_only=False)] = NOT_THERE
        return found

    def _sort(self) -> None:
        if not self._parts:
            return
        self._parts.append((self._high, self._low, self._offsets))
        high = np.concatenate([part[0] for part in self._parts])
        low = np.concatenate([part[1] for part in self._parts])
        offsets = np.concatenate([part[2] for part in self._parts])
        self._parts = []
        order = np.lexsort((offsets, low, high))
        high, low = high[order], low[order]
        is_last = np.ones(len(high), np.bool_)
        is_last[:-1] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
        self._high, self._low = high[is_last], low[is_last]
        del high, low
        self._offsets = offsets[order[is_last]]


class Compactor:
    def __init__(self, options: StorageOptions) -> None:
        self._options = options

    def fitting(self, address: ReplicaAddress, parts: Sequence[LogPart]) -> int:
        """Return how many of `parts`, from the first on, one file may hold; one at least."""
        return within(address.root, partial(fitting_into_one, address, parts, self._options))

    def last_offsets(
        self,
        address: ReplicaAddress,
        parts: Iterable[LogPart],
        *,
        start_offset: Offset,
        end_offset: Offset,
    ) -> KeyMap:
        """Return the last offset of each key in ``[start_offset, end_offset)``."""
        keys = KeyMap()
        for part in parts:
            for _, records, offsets in self._read(address, part, _KEYS):
                wanted = (offsets >= start_offset) & (offsets < end_offset)
                column = records.column("key")
                if not wanted.all():
                    column, offsets = column.filter(pa.array(wanted)), offsets[wanted]
                keys.add(column, offsets)
        return keys

    def without_stale(
        self,
        address: ReplicaAddress,
        parts: Sequence[LogPart],
        last: KeyMap,
        *,
        compacted_below: Offset,
        tombstones_below: Offset,
        leader_epoch: LeaderEpoch,
    ) -> MergedSegment | None:
        """Write `parts` as one segment without the records that go; None: none goes."""
        kept = partial(
            _kept, last=last, compacted_below=compacted_below, tombstones_below=tombstones_below
        )
        if not any(self._loses(address, part, kept, tombstones_below) for part in parts):
            return None
        base_offset = parts[0].base_offset
        borders = self._borders(address, parts[-1], compacted_below)
        file = encode_merged(self._remaining(address, parts, kept), base_offset, borders)
        end = Border(parts[-1].end_offset, parts[-1].chain_digest)
        merged = file.header(parts, base_offset, end, leader_epoch)
        within(address.root, lambda: put_merged(address, merged, file, self._options))
        return merged

    def _loses(
        self, address: ReplicaAddress, part: LogPart, kept: Any, tombstones_below: Offset
    ) -> bool:
        columns = _KEYS_AND_VALUES if part.base_offset < tombstones_below else _KEYS
        batches = self._read(address, part, columns)
        return any(not kept(records, offsets).all() for _, records, offsets in batches)

    def _remaining(
        self, address: ReplicaAddress, parts: Sequence[LogPart], kept: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records that stay; their offset_delta counts from the first part's base."""
        for part in parts:
            for base_offset, records, offsets in self._read(address, part, COLUMNS):
                mask = kept(records, offsets)
                if mask.any():
                    stays = typed(records.filter(pa.array(mask)), part.common_timestamp_us)
                    yield moved(stays, base_offset - parts[0].base_offset)

    def _read(
        self, address: ReplicaAddress, part: LogPart, columns: Sequence[str]
    ) -> Iterator[tuple[Offset, pa.RecordBatch, npt.NDArray[np.int64]]]:
        """Yield a part's records, checked, with their file's base offset and their offsets."""
        for segment, base_offset, _ in part.ranges():
            for records in segment_batches(address, segment, self._options, columns, BATCH_ROWS):
                deltas = records.column("offset_delta").to_numpy(zero_copy_only=False)
                yield base_offset, records, base_offset + deltas.astype(np.int64)

    def _borders(
        self, address: ReplicaAddress, last: LogPart, compacted_below: Offset
    ) -> list[Border]:
        """Return the borders that remain: those from which on all records stay."""
        if last.end_offset <= compacted_below:
            return []
        if isinstance(last, Batch):
            ends = zip(last.ranges(), last.chain_digests, strict=True)
            found = [Border(end_offset, digest) for (_, _, end_offset), digest in ends]
        else:
            found = list(read_borders(address, last, self._options))
        return [each for each in found if each.offset >= compacted_below]


def _kept(
    records: pa.RecordBatch,
    offsets: npt.NDArray[np.int64],
    *,
    last: KeyMap,
    compacted_below: Offset,
    tombstones_below: Offset,
) -> npt.NDArray[np.bool_]:
    if (offsets >= compacted_below).all():
        return np.ones(len(offsets), np.bool_)
    keys, is_tombstone = records.column("key"), np.zeros(len(offsets), np.bool_)
    if (offsets < tombstones_below).any():  # only then the values were read
        is_tombstone = records.column("value").is_null().to_numpy(zero_copy_only=False)
    return stays(
        offsets,
        has_key=keys.is_valid().to_numpy(zero_copy_only=False),
        last_offsets=last.last_offsets(keys),
        is_tombstone=is_tombstone,
        compacted_below=compacted_below,
        tombstones_below=tombstones_below,
    )


GROUP_BYTES_MAX: Final = 2**26
"""Bytes of a group, if segment.bytes allows more: a task has the file in memory that it writes."""

NOTHING_COMPACTED: Final = WorkDone(what="groups of segments compacted")

BYTES_A_KEY: Final = 64
"""What a record takes of log.cleaner.dedupe.buffer.size while its key is looked for."""


def compact_replica(order: UpkeepOrder, worker: Worker, allowance: Allowance) -> WorkDone:
    decided = order.partition.compaction
    if not decided.compacted_below:
        return NOTHING_DONE
    replica = worker.replicas.open(order.address)
    state = replica.load()
    if not _may_compact(state, order):
        # An order of compaction alone comes from a reader, which waits for it. It comes back until
        # the leadership has begun, its image is new enough, and the log is what it must be.
        waits = order.works is not None and not state.compaction.has_finished(decided)
        return replace(NOTHING_DONE, is_left=waits)
    if order.is_dry_run:
        return WorkDone(count=1, what="decisions of compaction to apply")
    compacting = _Compacting(order, worker, allowance, replica, state)
    is_left = True
    while is_left and not allowance.is_spent and compacting.run(decided):
        is_left = not compacting.state.compaction.has_finished(decided)
    return replace(compacting.work, is_left=is_left)


def _may_compact(state: ReplicaState, order: UpkeepOrder) -> bool:
    """Return whether a replica may apply the decision of the order's image, and has not.

    It must prove by its chain that its log is the one that was decided on: under one fence there
    may be two, if a leader's disk has lost commits. So no segment reaches above the high watermark.
    """
    partition = order.partition
    return (
        state.leader_epoch == partition.leader_epoch
        and not state.compaction.has_finished(partition.compaction)
        # A target that a fetch took over may be of a newer image than this.
        and state.compaction.compacted_below <= partition.high_watermark
        and proves_complete(state, partition)
    )


@dataclass(slots=True)
class _Compacting:
    """Compacts one replica.

    Each commit is decided on counters that this task has seen or written, and on a log in which no
    segment reaches above the order's high watermark. If another task, a merge or a fetch has
    changed that, it stops: the next order goes on from what is there.

    Attributes:
        work: Of groups that were rewritten. It has advanced once a commit says that the log is
            compacted further, perhaps of groups in which nothing goes.
    """

    order: UpkeepOrder
    worker: Worker
    allowance: Allowance
    replica: ReplicaLog
    state: ReplicaState
    work: WorkDone = NOTHING_COMPACTED

    def run(self, decided: Compaction) -> bool:
        """Go through the log once; return False if the allowance was spent, or others were faster.

        The round ends at the target, or as far towards it as the keys fit into memory. One group at
        least is read: the keys were read for it.
        """
        order, address, compactor = self.order, self.order.address, self.worker.compactor
        progress = self.state.compaction.begun(decided)
        progress = progress.in_round(self._fitting(progress))
        start, end = progress.finished_below, progress.round_below
        new = self.state.batches_between(start, end)
        self.allowance.charge(sum(part.size_bytes for part in new))
        last = compactor.last_offsets(address, new, start_offset=start, end_offset=end)
        is_begun = False
        while True:
            group = next_group(
                self.state.batches,
                progress,
                bytes_max=min(order.settings.integer("segment.bytes"), GROUP_BYTES_MAX),
                records_max=RECORDS_MAX,
                files_max=FILES_A_CHANGE_MAX,
            )
            if group is None:
                return self._commit(None, None, progress.round_finished())
            if is_begun and self.allowance.is_spent:
                self._commit(None, None, progress)
                return False
            is_begun = True
            parts = self.state.batches[group.start : group.stop]
            # How large they are once uncompressed, headers don't tell.
            parts = parts[: compactor.fitting(address, parts)]
            progress = progress.advanced(parts[-1].end_offset)
            merged = self._rewritten(parts, last, progress)
            # Without a file to commit, the counters follow with the next commit.
            if merged is not None and not self._commit(parts, merged, progress):
                return False

    def _fitting(self, progress: CompactionProgress) -> Offset:
        """Return how far a round can go whose keys fit into memory; one record at least."""
        left = self.order.settings.integer("log.cleaner.dedupe.buffer.size") // BYTES_A_KEY
        start = progress.finished_below
        for part in self.state.batches_between(start, progress.compacted_below):
            if part.record_count > left:
                # The records of a part are at most as many as its offsets.
                return Offset(max(part.base_offset, start) + max(left, 1))
            left -= part.record_count
        return progress.compacted_below

    def _rewritten(
        self, parts: Sequence[LogPart], last: KeyMap, progress: CompactionProgress
    ) -> MergedSegment | None:
        """Write a group of segments without what goes; None: nothing goes."""
        self.allowance.charge(2 * sum(part.size_bytes for part in parts))
        return self.worker.compactor.without_stale(
            self.order.address,
            parts,
            last,
            compacted_below=progress.round_below,
            tombstones_below=progress.tombstones_below,
            leader_epoch=self.order.partition.leader_epoch,
        )

    def _commit(
        self,
        parts: Sequence[LogPart] | None,
        merged: MergedSegment | None,
        progress: CompactionProgress,
    ) -> bool:
        """Commit a group, or counters alone, if all of it still stands; return whether it does."""
        seen, partition = self.state.compaction, self.order.partition

        def decide(state: ReplicaState) -> LogChange | None:
            if state.compaction != seen or not proves_complete(state, partition):
                return None  # others compact, or merged above this image's high watermark
            epoch = partition.leader_epoch
            if parts is None or merged is None:
                return operations.set_compaction(state, progress, leader_epoch=epoch)
            return operations.replace_neighbours(
                state,
                parts,
                merged,
                operation="compact",
                leader_epoch=epoch,
                stable_offset=partition.high_watermark,
                registered=self.order.registered,
                compaction=progress,
            )

        self.state, change = committed(self.replica, decide, self.state)
        if change is None:
            return False
        self.work = replace(self.work, has_advanced=True)
        if parts is not None and merged is not None:
            size_bytes = sum(part.size_bytes for part in parts)
            self.work = self.work.with_piece(size_bytes, merged.size_bytes)
        return True
