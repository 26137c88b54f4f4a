"""What a cluster's roots may hold: the bytes that retained records need, and little more.

Files are looked at as they lie on the disks. That each file that a table names is there, `fsck` says.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from kafka_on_spark import Cluster
from kafka_on_spark.log.batch import epoch_in_name
from kafka_on_spark.log.merging import encode_merged, typed
from kafka_on_spark.log.producer_state import producers_file_name
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.segments import SEGMENT_SCHEMA
from kafka_on_spark.log.state import ReplicaAddress, address_of
from kafka_on_spark.metadata.quorum.voter_log import SNAPSHOTS_KEPT
from kafka_on_spark.store.delta.delta_files import commits_in
from kafka_on_spark.store.delta.delta_log import CHECKPOINT_INTERVAL
from kafka_on_spark.store.delta.log_cleaning import COMMITS_KEPT
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.week.simulated_time import DAY_MS, HOUR_MS, SimulatedTime

SHARE_MAX = 1.2
"""Bytes of data on the roots by those that the retained records need, at most."""

VISIT_MS = 2 * HOUR_MS
"""Roots are visited once an hour: what is due may lie there for so long, and the delay of files."""

_TEMPORARY = re.compile(r"_[0-9a-f]{32}\.tmp|_probe-[0-9a-f]{32}|.*#[0-9]+|_race-[0-9a-f]{32}")


@dataclass
class Held:
    """What the roots hold, and what is wrong with that.

    Attributes:
        data_bytes: Of all files in the folders of replicas, the logs of their tables apart.
        needed_bytes: What the retained records take, written at once, on all replicas.
        flaws: What is more than it may be, in sentences.
    """

    data_bytes: int = 0
    needed_bytes: int = 0
    flaws: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        share = self.data_bytes / max(self.needed_bytes, 1)
        return f"{self.data_bytes} bytes of data, {share:.3f} of what is needed"


def look(cluster: Cluster, clock: SimulatedTime, metadata_root: Path) -> Held:
    held, image = Held(), cluster.image
    records = {topic_id: cluster.read(each.name) for topic_id, each in image.topics.items()}
    for key, partition in image.partitions():
        needed = _written_at_once(records[key.topic_id], key.partition)
        for broker_id in filter(partition.is_created, partition.replicas):
            held.needed_bytes += needed
            _look_at_replica(held, clock, address_of(image, key, partition, broker_id))
    for root in (metadata_root, *(Path(each.root) for each in image.brokers.values())):
        _look_at_root(held, clock, root)
    snapshots = len(list((metadata_root / "snapshots").glob("*.parquet")))
    # The newest, and one for each doubling of the distance to the newest.
    if snapshots > SNAPSHOTS_KEPT + int(image.offset).bit_length():
        held.flaws.append(f"{snapshots} snapshots are kept")
    if held.data_bytes > SHARE_MAX * held.needed_bytes:
        held.flaws.append(f"the roots hold {held}")
    held.flaws += [f"fsck: {each}" for each in cluster.fsck().findings]
    return held


def _look_at_root(held: Held, clock: SimulatedTime, root: Path) -> None:
    for path in root.rglob("*"):
        if _TEMPORARY.fullmatch(path.name) and _age_ms(clock, path) > DAY_MS + VISIT_MS:
            held.flaws.append(f"{path} is {_age_ms(clock, path) / HOUR_MS:.1f} hours old")
    for log in root.rglob("_delta_log"):
        commits = len(commits_in(os.listdir(log)))
        if commits > COMMITS_KEPT + 2 * CHECKPOINT_INTERVAL:
            held.flaws.append(f"{log} keeps {commits} commits")


def _age_ms(clock: SimulatedTime, path: Path) -> float:
    return clock.now_ms() - path.stat().st_mtime_ns / 1_000_000


def _written_at_once(records: pa.Table, partition: int) -> int:
    """Return the bytes of one file with the records of a partition."""
    mine = records.filter(pa.compute.equal(records.column("partition"), partition))
    if mine.num_rows == 0:
        return 0
    first = mine.column("offset")[0].as_py()
    deltas = pa.compute.subtract(mine.column("offset"), first).cast(pa.int32())
    columns = {name: mine.column(name) for name in mine.schema.names} | {"offset_delta": deltas}
    table = pa.table({name: columns[name] for name in SEGMENT_SCHEMA.names})
    batches = [typed(each) for each in table.combine_chunks().to_batches()]
    return int(encode_merged(batches, first).data.size)


def _look_at_replica(held: Held, clock: SimulatedTime, address: ReplicaAddress) -> None:
    """Count a replica's files, and find those that its table does not name and that are due."""
    replica = ReplicaStore(StorageOptions()).open(address)
    state = replica.load()
    named = {each.file_name for part in state.batches for each in part.segments}
    named.add(producers_file_name(replica.producers_number))
    for path in sorted(Path(address.folder).iterdir()):
        if path.name == "_delta_log":
            continue
        held.data_bytes += path.stat().st_size
        is_staged = epoch_in_name(path.name) == state.leader_epoch
        if path.name in named or is_staged or _TEMPORARY.fullmatch(path.name):
            continue
        if _age_ms(clock, path) > VISIT_MS:
            hours = _age_ms(clock, path) / HOUR_MS
            held.flaws.append(f"{path} is named by nothing, and {hours:.1f} hours old")
