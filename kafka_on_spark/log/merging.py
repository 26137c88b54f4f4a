"""Merging: neighbouring files of a replica become one, each merge a commit of its own.

Each replica merges by itself: whatever files it has, its log is the same. It does so only under the
leadership of the order's image, since before a replica has adopted that, its log below the high
watermark may be another than the leader's. And only with the chain digest that is registered at
that high watermark: where a disk went back, a log may be another under the same leadership, and
once it is merged past an older high watermark, only its epochs tell a reader of that one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_on_spark.base.errors import CommitConflictError, CorruptLogError
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import LogPart, MergedSegment, Segment
from kafka_on_spark.log.merge_plan import (
    MERGED_BYTES_MAX,
    MergeRules,
    merges_due,
)
from kafka_on_spark.log.replica_operations import proves_complete
from kafka_on_spark.log.replicas import ReplicaLog
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.log.upkeep_work import (
    NOTHING_DONE,
    Allowance,
    UpkeepOrder,
    WorkDone,
    suspect_in,
)
from kafka_on_spark.log.worker import Worker

ATTEMPTS_MAX: Final = 8
"""Tries of one merge's commit: an appender that keeps winning has more right to the table."""


def merge_replica(order: UpkeepOrder, worker: Worker, allowance: Allowance) -> WorkDone:
    """Merge what is due in one replica, as far as the allowance goes.

    A damaged file is reported, and ends the merge of its own neighbours only. Runs that can't be
    merged, or lost a race, are skipped: they may stay so, and must not hold up the rest.
    """
    replica = worker.replicas.open(order.address)
    state = replica.load()
    if not may_merge(order, state):
        return NOTHING_DONE
    merger = _Merger(order, worker, replica, state)
    if order.is_dry_run:
        due = merger.mergeable()
        return WorkDone(
            count=len(due),
            what=WHAT,
            size_bytes=sum(map(_size_of, due)),
        )
    while due := merger.due():
        before = merger.count, len(merger.left_out)
        for run in due:
            if _is_over(allowance, merger):
                return merger.done(is_left=True)
            # What can't be merged costs nothing: it would be all that a small allowance is spent
            # on.
            if merger.merge(run):
                allowance.charge(2 * _size_of(run))
        if before == (merger.count, len(merger.left_out)):
            break  # others were faster each time
    return merger.done(is_left=bool(merger.due()))


def _is_over(allowance: Allowance, merger: "_Merger") -> bool:
    """Return whether a visit ends. If it may rewrite anything, it ends with a merge, however long
    it took to find one: otherwise each visit could end with what all others have found."""
    return allowance.is_spent if merger.count else allowance.bytes_left == 0


def may_merge(order: UpkeepOrder, state: ReplicaState) -> bool:
    """Return whether a log is under the leadership of the order's image, and has all that is
    committed in it. If not, it is behind, or bad, or the image is old."""
    is_led = state.is_fenced_at(order.partition.leader_epoch)
    return is_led and proves_complete(state, order.partition)


def _size_of(run: Sequence[LogPart]) -> int:
    return sum(part.size_bytes for part in run)


WHAT: Final = "merges"


ENTRY_BYTES: Final = 64
"""What a producer takes in the file of the producer state, about."""


def rules_of(order: UpkeepOrder, state: ReplicaState) -> MergeRules:
    """Return what may be merged in a replica, by its topic's settings and the order's image."""
    settings, producers = order.settings, state.producers
    if order.registered is not None:
        producers = order.registered.without_expired(producers)
    return MergeRules(
        # Without transactions the last stable offset is the high watermark.
        stable_offset=order.partition.high_watermark,
        size_bytes_max=min(settings.integer("segment.bytes"), MERGED_BYTES_MAX),
        span_ms=settings.integer("segment.ms"),
        lag_batches=settings.integer("merge.min.lag.batches"),
        size_bytes_min=ENTRY_BYTES * len(producers),
    )


@dataclass(slots=True)
class _Merger:
    """Merges one replica's runs of neighbours, one after the other.

    Attributes:
        size_bytes: Bytes of the files that the merges took.
        written_bytes: Bytes of the files that they put in their place.
        damage: What is wrong with files that could not be read.
        too_large: Files that are too large to be merged.
    """

    order: UpkeepOrder
    worker: Worker
    replica: ReplicaLog
    state: ReplicaState
    count: int = 0
    size_bytes: int = 0
    written_bytes: int = 0
    damage: dict[Segment, CorruptLogError] = field(default_factory=dict)
    too_large: set[Segment] = field(default_factory=set)

    @property
    def left_out(self) -> frozenset[Segment]:
        """The files that no merge takes."""
        return frozenset(self.too_large.union(self.damage))

    def done(self, *, is_left: bool) -> WorkDone:
        done = WorkDone(
            count=self.count,
            what=WHAT,
            size_bytes=self.size_bytes,
            written_bytes=self.written_bytes,
            is_left=is_left,
        )
        segment, error = next(iter(self.damage.items()), (None, None))
        return done if error is None else done.failed(error, segment)

    def due(self) -> list[tuple[LogPart, ...]]:
        """Return the merges that are due next."""
        rules = replace(rules_of(self.order, self.state), left_out=self.left_out)
        return merges_due(self.state.batches, rules)

    def mergeable(self) -> list[tuple[LogPart, ...]]:
        """Return the merges that are due next, once the sizes of all their files are known."""
        while True:
            due = self.due()
            if not [run for run in due if self._finds_large(run)]:
                return due

    def _finds_large(self, run: Sequence[LogPart]) -> bool:
        """Return whether a run has files that are too large to be merged, which are left out from
        now on."""
        found = self.worker.segments.too_large_to_merge(self.order.address, run)
        self.too_large |= found
        return bool(found)

    def merge(self, run: Sequence[LogPart]) -> bool:
        """Write one file of a run of neighbours and commit it in their place.

        It may hold the first of them only. What was written for nothing is an orphan, which the
        cleaner takes. Return False if nothing was written, since one of their files can't be read,
        or is too large: no other run rests on it.
        """
        if self._finds_large(run):
            return False
        address, epoch = self.order.address, self.order.partition.leader_epoch
        try:
            merged = self.worker.segments.rewrite(
                address,
                address,
                run,
                leader_epoch=epoch,
                start_offset=run[0].base_offset,
                end_offset=run[-1].end_offset,
            )
        except CorruptLogError as error:
            self.state = self.replica.load()
            suspect = suspect_in(self.state, error)
            if suspect is not None:
                self.damage[suspect] = error
            elif "segment" not in error.context:
                raise
            return False  # or another process has merged it, and its inputs are cleaned
        taken = [part for part in run if part.end_offset <= merged.end_offset]
        if sum(len(part.segments) for part in taken) > 1:
            self._commit(taken, merged)
        else:  # no two fit: the same would be written again and again
            self.too_large.update(run[0].segments)
        return True

    def _commit(self, inputs: Sequence[LogPart], merged: MergedSegment) -> None:
        """Commit a merge; after a conflict again, if fence and inputs still stand."""
        epoch = self.order.partition.leader_epoch
        for _ in range(ATTEMPTS_MAX):
            if not self.state.is_fenced_at(epoch):
                return
            change = operations.merge(
                self.state,
                inputs,
                merged,
                leader_epoch=epoch,
                stable_offset=self.order.partition.high_watermark,
                registered=self.order.registered,
            )
            if change is None:
                return
            try:
                self.state = self.replica.commit(self.state, change)
            except CommitConflictError:
                self.state = self.replica.load()
                continue
            self.count += 1
            self.size_bytes += _size_of(inputs)
            self.written_bytes += merged.size_bytes
            return
