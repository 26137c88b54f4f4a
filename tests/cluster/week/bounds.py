"""What a cluster's roots may hold: the bytes that retained records need, and little more.

Files are looked at as they lie on the disks; the tables say which of them they name.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafka_on_spark import Cluster
from kafka_on_spark.base.merge_tiers import FAN_IN, tier_of
from kafka_on_spark.log.batch import epoch_in_name
from kafka_on_spark.log.merging import encode_merged, typed
from kafka_on_spark.log.producer_state import producers_file_name
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.segments import SEGMENT_SCHEMA
from kafka_on_spark.log.state import ReplicaAddress, ReplicaState, address_of
from kafka_on_spark.metadata.quorum.voter_log import DELETE_DELAY_MS, SNAPSHOTS_KEPT
from kafka_on_spark.store.delta.delta_files import checkpoints_in, commits_in
from kafka_on_spark.store.delta.delta_log import CHECKPOINT_INTERVAL
from kafka_on_spark.store.delta.log_cleaning import COMMITS_KEPT
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.week.simulated_time import DAY_MS, HOUR_MS, SimulatedTime

OPTIONS = StorageOptions()
SHARE_MAX = 1.2
"""Bytes of data on the roots by those that the retained records need, at most."""

VISIT_MS = 2 * HOUR_MS
"""Roots are visited once an hour: what is due may lie there for so long, and the delay of files."""

CHECKPOINTS_MAX = COMMITS_KEPT // CHECKPOINT_INTERVAL + 2
"""One for each hundred commits that stay, the one that they begin with, and one that two processes
wrote at once."""

_TEMPORARY = re.compile(r"_[0-9a-f]{32}\.tmp|_probe-[0-9a-f]{32}|.*#[0-9]+|_race-[0-9a-f]{32}")


@dataclass
class Held:
    """What the roots hold, and what is wrong with that.

    Attributes:
        data_bytes: Of all files in the folders of replicas, the logs of their tables apart.
        needed_bytes: What the retained records take, written at once, on all replicas.
        files: Files of data.
        commits: Commit files, of replicas' tables.
        flaws: What is more than it may be, in sentences.
    """

    data_bytes: int = 0
    needed_bytes: int = 0
    files: int = 0
    commits: int = 0
    flaws: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        share = self.data_bytes / max(self.needed_bytes, 1)
        return (
            f"{self.data_bytes} bytes of data, {share:.3f} of what is needed, in {self.files}"
            f" files, {self.commits} commits"
        )


@dataclass(frozen=True)
class _Bounds:
    cluster: Cluster
    clock: SimulatedTime
    held: Held

    def age_ms(self, path: Path) -> float:
        return self.clock.now_ms() - path.stat().st_mtime_ns / 1_000_000

    def flaw(self, text: str) -> None:
        self.held.flaws.append(text)


def look(cluster: Cluster, clock: SimulatedTime, metadata_root: Path) -> Held:
    bounds = _Bounds(cluster, clock, Held())
    image = cluster.image
    for topic in image.topics.values():
        records = cluster.read(topic.name)
        for address in _addresses(cluster, topic.name):
            needed = _written_at_once(records, address)
            bounds.held.needed_bytes += needed
            _look_at_replica(bounds, address, needed)
    _look_at_roots(bounds)
    _look_at_metadata(bounds, metadata_root)
    held = bounds.held
    if held.data_bytes > SHARE_MAX * held.needed_bytes:
        bounds.flaw(f"the roots hold {held}")
    report = cluster.fsck()
    held.flaws += [f"fsck: {each}" for each in report.findings]
    return held


def _addresses(cluster: Cluster, topic: str) -> Iterator[ReplicaAddress]:
    image = cluster.image
    registered = image.topic(topic)
    for key, partition in image.partitions():
        if key.topic_id == registered.topic_id:
            for broker_id in partition.replicas:
                if partition.is_created(broker_id):
                    yield address_of(image, key, partition, broker_id)


def _written_at_once(records: pa.Table, address: ReplicaAddress) -> int:
    """Return the bytes of one file with the records of a partition."""
    mine = records.filter(pa.compute.equal(records.column("partition"), address.key.partition))
    if mine.num_rows == 0:
        return 0
    offsets = mine.column("offset")
    first = offsets[0].as_py()
    deltas = pa.compute.subtract(offsets, first).cast(pa.int32())
    columns = {"offset_delta": deltas}
    columns |= {
        name: mine.column(name) for name in SEGMENT_SCHEMA.names if name in mine.schema.names
    }
    table = pa.table([columns[name] for name in SEGMENT_SCHEMA.names], names=SEGMENT_SCHEMA.names)
    batches = [typed(each) for each in table.combine_chunks().to_batches()]
    return int(encode_merged(batches, first).data.size)


def _look_at_replica(bounds: _Bounds, address: ReplicaAddress, needed: int) -> None:
    replica = ReplicaStore(OPTIONS).open(address)
    state = replica.load()
    folder = Path(address.folder)
    where = f"{address.topic}-{address.key.partition} on broker {address.broker_id}"
    named = {each.file_name for part in state.batches for each in part.segments}
    if replica.producers_number:
        named.add(producers_file_name(replica.producers_number))
    there = {path for path in folder.iterdir() if path.name != "_delta_log"}
    for path in sorted(there):
        bounds.held.files += 1
        bounds.held.data_bytes += path.stat().st_size
        if path.name not in named and epoch_in_name(path.name) != state.leader_epoch:
            _judge_unnamed(bounds, where, path)
    missing = named - {path.name for path in there}
    if missing:
        bounds.flaw(f"{where} names files that are gone: {sorted(missing)}")
    _look_at_tiers(bounds, where, state)
    _look_at_log(bounds, where, folder / "_delta_log")


def _judge_unnamed(bounds: _Bounds, where: str, path: Path) -> None:
    age_ms = bounds.age_ms(path)
    is_temporary = _TEMPORARY.fullmatch(path.name) is not None
    if age_ms > (DAY_MS if is_temporary else 0) + VISIT_MS:
        bounds.flaw(f"{where} has {path.name} for {age_ms / HOUR_MS:.1f} hours")


def _look_at_tiers(bounds: _Bounds, where: str, state: ReplicaState) -> None:
    """Check that no more files stand side by side than merging leaves; the newest it leaves alone.

    What one file can't hold begins another: another leadership, another span of time.
    """
    settings = bounds.cluster.image.settings(state.identity.topic_id)
    merged = state.batches[: max(0, len(state.batches) - settings.integer("merge.min.lag.batches"))]
    span_ms = settings.integer("segment.ms")
    kinds = len({(part.leader_epoch, part.appended_at_ms // span_ms) for part in merged})
    for tier, count in sorted(Counter(map(tier_of, merged)).items()):
        if count > FAN_IN - 1 + kinds:
            bounds.flaw(f"{where} has {count} files of size class {tier}, of {kinds} kinds")


def _look_at_log(bounds: _Bounds, where: str, log: Path) -> None:
    names = os.listdir(log)
    commits, checkpoints = commits_in(names), checkpoints_in(names)
    bounds.held.commits += len(commits)
    if len(commits) > COMMITS_KEPT + 2 * CHECKPOINT_INTERVAL:
        bounds.flaw(f"{where} keeps {len(commits)} commits")
    if len(checkpoints) > CHECKPOINTS_MAX:
        bounds.flaw(f"{where} keeps {len(checkpoints)} checkpoints")
    _look_for_old(bounds, where, log)


def _look_for_old(bounds: _Bounds, where: str, folder: Path) -> None:
    for path in folder.glob("*"):
        if _TEMPORARY.fullmatch(path.name) and bounds.age_ms(path) > DAY_MS + VISIT_MS:
            bounds.flaw(f"{where}: {path.name} is {bounds.age_ms(path) / HOUR_MS:.1f} hours old")


def _look_at_roots(bounds: _Bounds) -> None:
    for broker in bounds.cluster.image.brokers.values():
        _look_for_old(bounds, f"root {broker.broker_id}", Path(broker.root))


def _look_at_metadata(bounds: _Bounds, root: Path) -> None:
    table = Path(bounds.cluster.metadata_table)
    _look_at_replaced(bounds, root, table)
    for folder in (root, table, table / "_delta_log", root / "snapshots"):
        _look_for_old(bounds, "the metadata root", folder)
    _look_at_log(bounds, "the metadata log", table / "_delta_log")
    for folder in ("views", f"{table.name}/_handed_in"):
        for path in (root / folder).glob("*"):
            told = path / "_delta_log" / f"{0:020}.json" if folder == "views" else path
            if bounds.age_ms(told) > DAY_MS + VISIT_MS:
                bounds.flaw(f"{folder} has {path.name}")
    ends = {int(path.name.split("-")[0]) for path in (root / "snapshots").glob("*.parquet")}
    # The newest, and one for each doubling of the distance to the newest.
    if len(ends) > SNAPSHOTS_KEPT + max(ends, default=0).bit_length():
        bounds.flaw(f"snapshots at {sorted(ends)} are kept")


def _look_at_replaced(bounds: _Bounds, root: Path, table: Path) -> None:
    """Check that what merges replaced is gone since the last checkpoint, but for what is newer than
    the delay: each merge replaces as many files as there were commits."""
    delta = bounds.cluster._metadata.log.voter_log._delta
    named, removed_at_ms = {file.path for file in delta.active_files()}, delta.tombstones()
    now_ms = bounds.clock.now_ms()
    left = [
        path.name
        for path in table.glob("*.parquet")
        if path.name not in named and now_ms - removed_at_ms.get(path.name, 0) > DELETE_DELAY_MS
    ]
    if len(left) > CHECKPOINT_INTERVAL + 2 * FAN_IN:
        bounds.flaw(f"the metadata log does not name {len(left)} files")


def told(flaws: list[Any]) -> str:
    return "\n".join(map(str, flaws))
