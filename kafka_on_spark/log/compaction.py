"""Compaction of one replica, a group of segments a commit, as far as the register has decided.

Each replica compacts by itself, and keeps the same records as every other that has finished the
same decision (I27). It does so only under the leadership of the order's image, since before a
replica has adopted that, its log below the high watermark may be another than the leader's.

If the keys of a decision are more than fit into `log.cleaner.dedupe.buffer.size`, the replica goes
through its log in several rounds, each with a part of the new keys: what an earlier round has left
makes no difference to what a later one keeps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_on_spark.base.errors import CommitConflictError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log import replacing
from kafka_on_spark.log.groups import next_group
from kafka_on_spark.log.merge_plan import RECORDS_MAX
from kafka_on_spark.log.merged_segment import LogPart, MergedSegment
from kafka_on_spark.log.progress import CompactionProgress
from kafka_on_spark.log.replica_operations import proves_complete
from kafka_on_spark.log.replicas import LastOffsets, ReplicaLog
from kafka_on_spark.log.state import FILES_A_CHANGE_MAX, LogChange, ReplicaState
from kafka_on_spark.log.upkeep_work import (
    NOTHING_DONE,
    Allowance,
    UpkeepOrder,
    UpkeepPorts,
    WorkDone,
)
from kafka_on_spark.metadata.partition import Compaction

WHAT: Final = "groups of segments compacted"

GROUP_BYTES_MAX: Final = 2**26
"""Bytes of a group, if segment.bytes allows more: a task has the file in memory that it writes."""

BYTES_A_KEY: Final = 64
"""What a record takes of log.cleaner.dedupe.buffer.size while its key is looked for."""

ATTEMPTS_MAX: Final = 8
"""Tries of one commit: an appender that keeps winning has more right to the table."""


def compact_replica(order: UpkeepOrder, ports: UpkeepPorts, allowance: Allowance) -> WorkDone:
    """Compact one replica, as far as the register has decided and the allowance goes."""
    decided = order.partition.compaction
    if not decided.compacted_below:
        return NOTHING_DONE
    replica = ports.replicas.open(order.address)
    state = replica.load()
    if not _may_compact(state, order):
        # An order of compaction alone comes from a reader, which waits for it. It comes back until
        # the leadership has begun, its image is new enough, and the log is what it must be.
        waits = order.works is not None and not state.compaction.has_finished(decided)
        return replace(NOTHING_DONE, is_left=waits)
    if order.is_dry_run:
        return WorkDone(count=1, what="decisions of compaction to apply")
    cleaner = _Cleaner(order, ports, allowance, replica, state)
    is_left = True
    while is_left and not allowance.is_spent and cleaner.run(decided):
        is_left = not cleaner.state.compaction.has_finished(decided)
    return WorkDone(
        count=cleaner.count,
        what=WHAT,
        size_bytes=cleaner.size_bytes,
        written_bytes=cleaner.written_bytes,
        has_advanced=cleaner.has_advanced,
        is_left=is_left,
    )


def _may_compact(state: ReplicaState, order: UpkeepOrder) -> bool:
    """Return whether a replica may apply the decision of the order's image, and has not.

    It must prove by its chain that its log is the one that was decided on: under one fence there
    may be two, if a leader's disk has lost commits. So no segment reaches above the high watermark.
    """
    partition = order.partition
    return (
        state.is_fenced_at(partition.leader_epoch)
        and not state.compaction.has_finished(partition.compaction)
        # A target that a fetch took over may be of a newer image than this.
        and state.compaction.compacted_below <= partition.high_watermark
        and proves_complete(state, partition)
    )


@dataclass(slots=True)
class _Cleaner:
    """Compacts one replica.

    Each commit is decided on counters that this task has seen or written, and on a log in which no
    segment reaches above the order's high watermark. If another task, a merge or a fetch has
    changed that, it stops: the next order goes on from what is there.

    Attributes:
        state: The replica's log after the last commit.
        count: Groups that were rewritten.
        size_bytes: Bytes of the files that they took.
        written_bytes: Bytes of the files that were put in their place.
        has_advanced: A commit says that the log is compacted further, perhaps of groups in which
            nothing goes.
    """

    order: UpkeepOrder
    ports: UpkeepPorts
    allowance: Allowance
    replica: ReplicaLog
    state: ReplicaState
    count: int = field(default=0)
    size_bytes: int = field(default=0)
    written_bytes: int = field(default=0)
    has_advanced: bool = field(default=False)

    def run(self, decided: Compaction) -> bool:
        """Go through the log once; return False if the allowance was spent, or others were faster.

        The round ends at the target, or as far towards it as the keys fit into memory. One group at
        least is looked at: the keys were read for it.
        """
        progress = self.state.compaction.begun(decided)
        progress = progress.in_round(self._fitting(progress))
        last = self._last_offsets(progress)
        is_begun = False
        while (group := self._next_group(progress)) is not None:
            if is_begun and self.allowance.is_spent:
                self._commit(None, None, progress)
                return False
            is_begun = True
            parts = self._fitting_into_one(self.state.batches[group.start : group.stop])
            progress = progress.advanced(parts[-1].end_offset)
            merged = self._rewritten(parts, last, progress)
            # Without a file to commit, the counters follow with the next commit.
            if merged is not None and not self._commit(parts, merged, progress):
                return False
        return self._commit(None, None, progress.round_finished())

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

    def _last_offsets(self, progress: CompactionProgress) -> LastOffsets:
        parts = self.state.batches_between(progress.finished_below, progress.round_below)
        self.allowance.charge(sum(part.size_bytes for part in parts))
        return self.ports.compactor.last_offsets(
            self.order.address,
            parts,
            start_offset=progress.finished_below,
            end_offset=progress.round_below,
        )

    def _next_group(self, progress: CompactionProgress) -> range | None:
        bytes_max = min(self.order.settings.integer("segment.bytes"), GROUP_BYTES_MAX)
        return next_group(
            self.state.batches,
            progress,
            bytes_max=bytes_max,
            records_max=RECORDS_MAX,
            files_max=FILES_A_CHANGE_MAX,
        )

    def _fitting_into_one(self, parts: tuple[LogPart, ...]) -> tuple[LogPart, ...]:
        """Return as many of a group, from the first on, as a reader takes in one file: how large
        they are once uncompressed, headers don't tell."""
        return parts[: self.ports.compactor.fitting(self.order.address, parts)]

    def _rewritten(
        self, parts: Sequence[LogPart], last: LastOffsets, progress: CompactionProgress
    ) -> MergedSegment | None:
        """Write a group of segments without what goes; None: nothing goes."""
        self.allowance.charge(2 * sum(part.size_bytes for part in parts))
        return self.ports.compactor.without_stale(
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
        """Commit a group, or counters alone; after a conflict again, if all of it still stands."""
        seen = self.state.compaction
        for _ in range(ATTEMPTS_MAX):
            if self.state.compaction != seen:
                return False
            change = self._change(parts, merged, progress)
            if change is None:
                return merged is None  # there is nothing to change, or the inputs are gone
            try:
                self.state = self.replica.commit(self.state, change)
            except CommitConflictError:
                self.state = self.replica.load()
                if not proves_complete(self.state, self.order.partition):
                    return False  # it was merged above this image's high watermark
                continue
            self.has_advanced = True
            if parts is not None:
                self.count += 1
                self.size_bytes += sum(part.size_bytes for part in parts)
                self.written_bytes += 0 if merged is None else merged.size_bytes
            return True
        return False

    def _change(
        self,
        parts: Sequence[LogPart] | None,
        merged: MergedSegment | None,
        progress: CompactionProgress,
    ) -> LogChange | None:
        epoch = self.order.partition.leader_epoch
        if parts is None or merged is None:
            return replacing.set_compaction(self.state, progress, leader_epoch=epoch)
        change = replacing.replace_neighbours(
            self.state,
            parts,
            merged,
            operation="compact",
            leader_epoch=epoch,
            stable_offset=self.order.partition.high_watermark,
            registered=self.order.registered,
        )
        return None if change is None else replace(change, compaction=progress)
