"""Faults put into real tables by hand: commits that no code of ours would make, and edited files."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log.batch import Batch, ProducerStamp
from kafka_on_spark.log.segments import RECORD_SCHEMA, files_of, new_segment
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.cluster_roots import DeltaMetadataLog
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import HighWatermarkRecord, PartitionChangeRecord, Stamp
from kafka_on_spark.store.delta.delta_files import encode_commit
from kafka_on_spark.store.roots import StorageOptions
from tests import forging
from tests.fsck.lives import TOPIC, Life, key_of, replica

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def record_table(*values: bytes) -> pa.Table:
    rows = [{"timestamp": NOW, "key": b"key", "value": each, "headers": None} for each in values]
    return pa.Table.from_pylist(rows, schema=RECORD_SCHEMA)


@dataclass
class Plant:
    """One replica's table, to be broken."""

    life: Life
    broker_id: int
    topic: str = TOPIC

    @property
    def folder(self) -> Path:
        return self.life.disks.folder(self.broker_id, self.topic)

    @property
    def state(self) -> ReplicaState:
        return replica(self.life.disks.image, self.broker_id, self.topic).load()

    @property
    def version(self) -> int:
        log = self.folder / "_delta_log"
        return max(int(path.stem) for path in log.glob("*.json"))

    def batch(
        self,
        *values: bytes,
        base_offset: int | None = None,
        leader_epoch: int | None = None,
        producer: ProducerStamp | None = None,
    ) -> Batch:
        """Return a new batch, its segment written; by default the next of the log."""
        state = self.state
        epoch = state.leader_epoch if leader_epoch is None else leader_epoch
        segment, content = new_segment(record_table(*values), epoch)
        (self.folder / segment.file_name).write_bytes(content.to_pybytes())
        return Batch(
            base_offset=Offset(state.log_end_offset if base_offset is None else base_offset),
            record_count=len(values),
            leader_epoch=epoch,
            partition_count=1,
            producer=producer,
            appended_at_ms=1,
            segments=(segment,),
        )

    def commit(
        self,
        operation: str,
        *,
        adds: Iterable[Batch] = (),
        removes: Iterable[Batch] = (),
        edit: Callable[[dict], None] = lambda add: None,
        **counters: int,
    ) -> int:
        """Commit whatever is asked for, its `add` actions edited; return the version."""
        files = [file for batch in self.chained(adds) for file in files_of(batch)]
        gone = [file for batch in removes for file in files_of(batch)]
        values = {name.replace("_", "-"): value for name, value in counters.items()}
        version = self.version + 1
        path = self.commit_file(version)
        content = encode_commit(
            write_id="plant",
            operation=operation,
            now_ms=1,
            adds=files,
            removes=gone,
            counters=values,
        )
        path.write_bytes(content)
        forging.edit_actions(path, lambda action: edit(action["add"]) if "add" in action else None)
        return version

    def chained(self, batches: Iterable[Batch]) -> list[Batch]:
        """Return new batches with chain digests that compute, behind what the log has."""
        made: list[Batch] = []
        for batch in batches:
            if batch.chain_digests:
                made.append(batch)
                continue
            state = self.state
            made.append(replace(state, batches=(*state.batches, *made)).chained(batch))
        return made

    def append(self, *batches: Batch, operation: str = "append", **counters: int) -> int:
        """Commit batches with the log end that they lead to."""
        counters = {"log_end_offset": batches[-1].end_offset, **counters}
        return self.commit(operation, adds=batches, **counters)

    def commit_file(self, version: int) -> Path:
        return self.folder / "_delta_log" / f"{version:020d}.json"

    def edit_commit(self, version: int, edit: Callable[[dict], None]) -> None:
        forging.edit_actions(self.commit_file(version), edit)

    def roll_back(self) -> int:
        """Take the newest commit away, as an older copy of the disk would; return the version."""
        forging.roll_back(self.folder)
        return self.version


def registration(life: Life) -> PartitionRegistration:
    image = life.disks.image
    return image.partition(key_of(image))


def commit_records(life: Life, *records, stamp: Stamp | None = None) -> int:
    """Commit records to the metadata log without asking anybody; return the first one's offset."""
    log = DeltaMetadataLog(str(life.disks.metadata_root), StorageOptions(None))
    known = life.disks.saved.offset
    end = max((each.end_offset for each in log.read(from_offset=known)), default=known)
    log.append(records, stamp or Stamp(time_ms=1), expected_offset=end)
    return end


def changed(
    register: PartitionRegistration, life: Life, *, leader_epoch: int | None = None, **change
) -> PartitionChangeRecord:
    """Return a change of the topic's partition, saying the epochs that it leads to."""
    key = key_of(life.disks.image)
    said = register.epochs_after(PartitionChange(**change))
    return PartitionChangeRecord(
        topic_id=key.topic_id,
        partition=key.partition,
        change=PartitionChange(**change),
        topic=TOPIC,
        leader_epoch=said[0] if leader_epoch is None else leader_epoch,
        partition_epoch=said[1],
        cause="planted",
    )


def watermark(
    register: PartitionRegistration, life: Life, high_watermark: int | None, **fields
) -> HighWatermarkRecord:
    """Return a high watermark that is valid by its epochs."""
    key = key_of(life.disks.image)
    values = {
        "high_watermark": high_watermark,
        "high_watermark_epoch": register.high_watermark_epoch,
        "high_watermark_chain": register.high_watermark_chain,
        "log_end_offset": register.log_end_offset,
        "leader_epoch": register.leader_epoch,
        "partition_epoch": register.partition_epoch,
    }
    return HighWatermarkRecord(topic_id=key.topic_id, partition=key.partition, **(values | fields))


def found(report, invariant, plant=None, **where):
    """Return the first finding of an invariant at a place; fail if there is none."""
    for each in report.findings:
        place = each.place
        is_there = plant is None or (
            place.broker_id == plant.broker_id and place.partition == (plant.topic, 0)
        )
        is_at = all(getattr(place, name) == value for name, value in where.items())
        if each.invariant == invariant and is_there and is_at:
            return each
    raise AssertionError(
        f"no finding of {invariant} at {where} in\n" + "\n".join(map(str, report.findings))
    )


@dataclass
class Flaw:
    """What a check is to find: an invariant at a place, with these words, and `only` these ids at all,
    or none that is `absent`."""

    invariant: str
    plant: Plant | None = None
    words: str = ""
    only: set[str] | None = None
    absent: set[str] = field(default_factory=set)
    where: dict = field(default_factory=dict)

    def check(self, report):
        assert self.words in found(report, self.invariant, self.plant, **self.where).sentence
        assert self.only is None or report.invariants == self.only
        assert not self.absent & report.invariants


def flaw(invariant, plant=None, words="", *, only=None, absent=(), **where) -> Flaw:
    return Flaw(invariant, plant, words, only, set(absent), where)


class Planted(list):
    """Functions that plant a fault and return what is to be found, each a case by its name."""

    def __call__(self, plant):
        self.append(pytest.param(plant, id=plant.__name__.replace("_", " ")))
        return plant
