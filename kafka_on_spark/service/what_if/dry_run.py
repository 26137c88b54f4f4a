"""A dry run: decisions take effect on an image and on tables in memory, and nowhere else.

The controller and rounds decide in steps, each step on what the one before led to. Here they do so
by the same functions, and nothing is committed: no class here has a way to the metadata log.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from kafka_on_spark.controller.partitions.reports import PartitionReport
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.controller.verdicts.conclusion import conclude
from kafka_on_spark.ids import NO_CHAIN, ControllerEpoch, LeaderEpoch, Offset
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Segment, segment_name
from kafka_on_spark.log.merged_segment import Border, LogPart, MergedSegment
from kafka_on_spark.log.state import LogChange, ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import ControllerRecord, MetadataBatch, Record, Stamp
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.ports.replicas import ReplicaLog, ReplicaStore

T = TypeVar("T")


class DryRunMetadata:
    """A MetadataDecider that begins with `image`, and whose decisions change its own image alone.

    A lease that a controller holds counts as resigned: the question is what a controller would do.

    Attributes:
        decided: The records that would be committed, without claims and resignations.
    """

    def __init__(self, image: MetadataImage, clock: Clock) -> None:
        if image.controller is not None:
            image = replace(image, controller=replace(image.controller, controller_id=None))
        self._image = image
        self._clock = clock
        self.decided: list[Record] = []

    @property
    def image(self) -> MetadataImage:
        """The image that the decisions so far have led to."""
        return self._image

    def catch_up(self) -> MetadataImage:
        """Return the image: no other process takes part in a dry run."""
        return self._image

    def has_next(self) -> bool:
        """Return that there is nothing to read."""
        return False

    def submit(
        self,
        decide: Callable[[MetadataImage], ControllerResult[T]],
        *,
        timeout_ms: int,
        controller: tuple[str, ControllerEpoch] | None = None,
    ) -> T:
        """Have what `decide` says of the image take effect on it; return its response."""
        return self._take_effect(decide(self._image))

    def conclude(self, reports: Sequence[PartitionReport], *, timeout_ms: int) -> int:
        """Have what `reports` lead to take effect on the image; return how many ISRs change."""
        return self._take_effect(conclude(self._image, reports))

    def _take_effect(self, result: ControllerResult[T]) -> T:
        if result.records:
            batch = MetadataBatch(
                base_offset=Offset(self._image.offset),
                stamp=Stamp(time_ms=self._clock.now_ms()),
                records=tuple(result.records),
            )
            self._image = self._image.replay(batch)
            self.decided.extend(
                each for each in result.records if not isinstance(each, ControllerRecord)
            )
        return result.response


class DryRunReplicas:
    """A ReplicaStore that reads tables as they are, and commits to them in memory.

    Two tasks that commit to one table, as one that fences its leader, come to the same.
    """

    def __init__(self, replicas: ReplicaStore) -> None:
        self.real = replicas
        self.states: dict[ReplicaAddress, ReplicaState] = {}

    def open(self, address: ReplicaAddress) -> ReplicaLog:
        """Return the log at `address`; nothing is read yet."""
        return _DryRunLog(self, address)

    def open_uncached(self, address: ReplicaAddress) -> ReplicaLog:
        """Return the log at `address`, uncached unless this dry run has changed it."""
        if address not in self.states:
            self.real.open_uncached(address)
        return _DryRunLog(self, address)

    def create(self, address: ReplicaAddress, *, leader_epoch: LeaderEpoch | None = None) -> None:
        """Have an empty log at `address`, as a new replica would be."""
        self.states[address] = ReplicaState(identity=address.identity, leader_epoch=leader_epoch)


class _DryRunLog:
    producers_number = 0
    """It writes no file, and cleans none."""

    def __init__(self, replicas: DryRunReplicas, address: ReplicaAddress) -> None:
        self._replicas = replicas
        self._address = address

    def load(self) -> ReplicaState:
        known = self._replicas.states.get(self._address)
        return self._replicas.real.open(self._address).load() if known is None else known

    def commit(self, state: ReplicaState, change: LogChange) -> ReplicaState:
        after = self._replicas.states[self._address] = state.apply(change)
        return after

    def maintain(self) -> None:
        """Nothing is due."""


class DryRunSegments:
    """A SegmentStore that copies nothing, and assumes that every source is undamaged."""

    def copy(
        self,
        source: ReplicaAddress,
        target: ReplicaAddress,
        segments: Sequence[Segment],
        names: Sequence[str] | None = None,
        *,
        is_staged: bool = False,
    ) -> None:
        """Do nothing: what is counted as copied is what the table would name."""

    def rewrite(
        self,
        source: ReplicaAddress,
        target: ReplicaAddress,
        parts: Sequence[LogPart],
        *,
        leader_epoch: LeaderEpoch,
        start_offset: Offset,
        end_offset: Offset,
    ) -> MergedSegment:
        """Return about what would be written: the file is given no content."""
        last = parts[-1]
        covered = end_offset - start_offset
        size_bytes = sum(part.size_bytes for part in parts)
        offsets = sum(part.end_offset - part.base_offset for part in parts)
        return MergedSegment(
            base_offset=start_offset,
            end_offset=end_offset,
            leader_epoch=last.leader_epoch,
            appended_at_ms=max(part.appended_at_ms for part in parts),
            segment=Segment(
                file_name=segment_name(leader_epoch, "dry_run", f"{start_offset}_{end_offset}"),
                size_bytes=size_bytes * covered // offsets,
                record_count=min(covered, sum(part.record_count for part in parts)),
                timestamp_min_us=min(e.timestamp_min_us for each in parts for e in each.segments),
                timestamp_max_us=max(e.timestamp_max_us for each in parts for e in each.segments),
            ),
            content_digest=0,
            chain_digest=last.chain_digest if end_offset == last.end_offset else NO_CHAIN,
            has_append_time=last.has_append_time,
        )

    def borders(self, address: ReplicaAddress, merged: MergedSegment) -> tuple[Border, ...]:
        """Return none: no file is read."""
        return ()

    def check(self, address: ReplicaAddress, segment: Segment) -> None:
        """Do nothing: every source is assumed to be undamaged."""
