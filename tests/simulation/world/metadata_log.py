"""The metadata root as one simulated process has it: the log of the cluster, and the sweep's hint.

Each call stands before the scheduler, then takes effect. It answers as `metadata/` does.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from kafka_on_spark.base.errors import InconsistentClusterError, KafkaStorageError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp, log_end_at
from tests.simulation.checks.invariants import time_is_bounded
from tests.simulation.world.commits import commit
from tests.simulation.world.scheduler import Node
from tests.simulation.world.world import FAILED, World


class SimulatedMetadataLog:
    """The metadata log of one process."""

    leader_uri = "/"

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self._node = node
        self._is_root_told = True  # until it tells no time once

    def read(self, *, from_offset: Offset, to_offset: Offset | None = None) -> list[MetadataBatch]:
        fault = self._world.scheduler.call("metadata read")
        disks = self._world.disks
        self._check_answers(fault)
        if from_offset > disks.image.offset:
            raise InconsistentClusterError("the metadata log went back")
        place = bisect_left(disks.batches, from_offset, key=lambda batch: batch.base_offset)
        batches = disks.batches[place:]
        return [each for each in batches if to_offset is None or each.end_offset <= to_offset]

    def has_successor(self, offset: Offset) -> bool:
        """There may be a commit: each poll reads, and meets the faults of a reading."""
        return True

    def append(
        self, records: Sequence[Record], stamp: Stamp, *, expected_offset: Offset
    ) -> MetadataBatch:
        assert records, "an empty batch would be a version without a decision"
        true_ms = self._world.true_ms
        own_ms = true_ms + self._node.skew_ms
        fault = self._world.scheduler.call("metadata append")
        self._check_answers(None)
        disks = self._world.disks
        is_told = self._is_root_told
        time_is_bounded(
            disks.image, "a commit", stamp.time_ms, true_ms, own_ms, is_root_told=is_told
        )
        batch = MetadataBatch(base_offset=expected_offset, stamp=stamp, records=tuple(records))

        def put() -> bool:
            return disks.append_metadata(records, stamp, expected_offset) is not None

        if fault == "refused":
            raise KafkaStorageError("the metadata root does not answer")
        commit(self._world, self._node, fault, put, lambda: not disks.is_metadata_away)
        return batch

    def _check_answers(self, fault: str | None) -> None:
        if self._world.disks.is_metadata_away or fault in FAILED:
            raise KafkaStorageError("the metadata root does not answer")

    def maintain(self, *, cleans: bool = True) -> None:
        """Nothing is due in memory."""

    def clean(self, now_ms: int) -> int:
        """Nothing is left over in memory."""
        return 0

    def offset_at(self, time_ms: int) -> Offset:
        self._check_answers(self._world.scheduler.call("metadata read"))
        disks = self._world.disks
        times = ((each.base_offset, each.stamp.time_ms) for each in disks.batches)
        return log_end_at(times, disks.image.offset, time_ms)

    def root_ms(self) -> int | None:
        """Return the true time, which no step of the simulation passes for: stores tell it with
        what they answer anyhow."""
        if self._world.disks.is_metadata_away:
            self._is_root_told = False
            return None
        return self._world.true_ms

    def check_writable(self) -> None:
        """A reader may write here."""

    def read_from_snapshot(self) -> tuple[MetadataBatch | None, list[MetadataBatch]]:
        snapshot = self.newest_snapshot()
        start = Offset(0) if snapshot is None else snapshot.end_offset
        return snapshot, self.read(from_offset=start)

    def newest_snapshot(self, *, to_offset: Offset | None = None) -> MetadataBatch | None:
        self._check_answers(self._world.scheduler.call("metadata read"))
        snapshots = [
            each
            for each in self._world.disks.snapshots
            if to_offset is None or each.end_offset <= to_offset
        ]
        return max(snapshots, key=lambda each: each.end_offset, default=None)

    def write_snapshot(self, records: Sequence[Record], stamp: Stamp, end_offset: Offset) -> None:
        self._check_answers(self._world.scheduler.call("metadata append"))
        base_offset = Offset(end_offset - len(records))
        batch = MetadataBatch(base_offset=base_offset, stamp=stamp, records=tuple(records))
        self._world.disks.snapshots.append(batch)


class SimulatedHintRoots:
    """HintRoots of the metadata root, which may be away, lose one, or keep the one before."""

    def __init__(self, world: World) -> None:
        self._world = world

    def contents(self, name: str) -> Iterator[bytes]:
        fault = self._world.scheduler.call("hint read")
        if self._world.disks.is_metadata_away or fault in FAILED:
            raise KafkaStorageError("the metadata root does not answer")
        if fault == "lost":
            self._world.disks.sweep_hint = None
        if self._world.disks.sweep_hint is not None:
            yield self._world.disks.sweep_hint

    def write(self, name: str, content: bytes) -> None:
        fault = self._world.scheduler.call("hint write")
        if self._world.disks.is_metadata_away or fault in FAILED:
            raise KafkaStorageError("the metadata root does not answer")
        if fault != "lost":
            self._world.disks.sweep_hint = content
