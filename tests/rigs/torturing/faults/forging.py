"""One replica's bytes changed behind the cluster's back, as by a failing disk, or by a person
with write access who knows how the chain is computed.

Only what lies above the newest checkpoint is changed: of what lies below it nobody reads the
commits but `fsck`. Only what is committed is changed: a leader's own word is all that there is
about a batch above the high watermark.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_on_spark.base.ids import BrokerId, PartitionKey
from kafka_on_spark.log.batch import Batch, LogPart, Segment
from kafka_on_spark.log.replicas import ReplicaLog
from kafka_on_spark.log.segments import RECORD_SCHEMA, new_segment
from kafka_on_spark.log.state import ReplicaAddress, ReplicaState, address_of, batch_digests
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.store.delta.checkpoints import CHECKPOINT_INTERVAL
from kafka_on_spark.store.delta.delta_files import checkpoint_version, commit_path
from kafka_on_spark.store.roots import StorageOptions

ROOM: Final = CHECKPOINT_INTERVAL - 20
"""How far the newest checkpoint may be behind: somebody shall look before the next one comes."""

Actions = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Place:
    """A replica, as the image names it when it is hit."""

    topic: str
    key: PartitionKey
    broker_id: BrokerId
    partition: PartitionRegistration
    address: ReplicaAddress

    @property
    def folder(self) -> Path:
        topic = f"{self.topic}-{self.key.topic_id}"
        return Path(self.address.root) / topic / f"{self.key.partition}-{self.address.replica_uuid}"

    @property
    def is_leader(self) -> bool:
        return self.partition.leader == self.broker_id

    def is_in(self, image: MetadataImage) -> bool:
        """Return whether it is still the partition's, and not lost."""
        partition = image.partition(self.key)
        if partition is None or not partition.is_created(self.broker_id):
            return False
        return partition.uuid_of(self.broker_id) == self.address.replica_uuid

    def load(self) -> ReplicaState:
        return ReplicaLog(self.address, StorageOptions(None)).load()

    def has_cut(self, changed: Path) -> bool:
        """Return whether the log lacks by now what a changed commit added. A process whose order
        is older than the high watermark over it finds that the logs part above its own one: the
        follower is cut there and fetches again, and is not made anew."""
        if changed.suffix != ".json":
            return False
        actions = [json.loads(line) for line in changed.read_text().splitlines()]
        names = {file.file_name for part in self.load().batches for file in part.segments}
        return _add_of(actions)["path"] not in names


def places_on(image: MetadataImage, broker_id: int) -> Iterator[Place]:
    for key, partition in image.partitions():
        if broker_id in partition.replicas and partition.is_created(BrokerId(broker_id)):
            address = address_of(image, key, partition, BrokerId(broker_id))
            yield Place(image.name_of(key).topic, key, BrokerId(broker_id), partition, address)


def change_segment(place: Place) -> Path | None:
    """Change a byte of a leader's newest committed segment; return the file, if that could be done.

    Of a follower's bytes nobody asks before it leads, or is verified.
    """
    batches = _committed(place, place.load())
    if not place.is_leader or not batches:
        return None
    file = place.folder / batches[-1].segments[-1].file_name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    _put(file, bytes(content))
    return file


def change_commit(place: Place) -> Path | None:
    found = _newest_commit(place, place.load())
    if found is None:
        return None
    path, actions, _ = found
    values = _add_of(actions)["partitionValues"]
    digest = values["chain_digest"]
    values["chain_digest"] = ("1" if digest[0] == "0" else "0") + digest[1:]
    _put(path, _text(actions))
    return path


def forge(place: Place) -> Path | None:
    """Write other records in the place of the last batch, which is committed, so that the chain
    computes."""
    state = place.load()
    found = _newest_commit(place, state)
    if found is None or found[2] != len(state.batches) - 1:
        return None
    path, actions, number = found
    batch = state.batches[number]
    assert isinstance(batch, Batch), "one that an append made"
    before = state.batches[number - 1].chain_digest if number else state.chain_before
    segment, content = _forged(place, batch)
    other = replace(batch, segments=(segment,))
    [digest] = batch_digests(before, place.key.topic_id, place.key.partition, other)
    add = _add_of(actions)
    add["path"], add["size"] = segment.file_name, segment.size_bytes
    add["partitionValues"]["chain_digest"] = digest
    (place.folder / segment.file_name).write_bytes(content)
    _put(path, _text(actions))
    return path


FORGERIES: Final[dict[str, Callable[[Place], Path | None]]] = {
    "byte of a segment changed": change_segment,
    "byte of a commit changed": change_commit,
    "batches forged": forge,
}


def _committed(place: Place, state: ReplicaState) -> list[LogPart]:
    high_watermark = place.partition.high_watermark
    return [each for each in state.batches if each.end_offset <= high_watermark]


def _newest_commit(place: Place, state: ReplicaState) -> tuple[Path, Actions, int] | None:
    """Return the newest commit that adds one committed batch of one segment, above the newest
    checkpoint: its path, its actions, and which of the batches it is."""
    log = place.folder / "_delta_log"
    versions = [checkpoint_version(each.name) for each in log.iterdir()]
    checkpoint = max((each for each in versions if each is not None), default=-1)
    if state.version - checkpoint > ROOM:
        return None
    ends = {int(each.end_offset): at for at, each in enumerate(_committed(place, state))}
    for version in range(state.version, max(checkpoint, 0), -1):
        path = Path(commit_path(str(place.folder), version))
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        adds = [each["add"] for each in actions if "add" in each]
        number = ends.get(int(adds[0]["partitionValues"]["end_offset"])) if len(adds) == 1 else None
        batch = None if number is None else state.batches[number]
        if number is not None and isinstance(batch, Batch) and len(batch.segments) == 1:
            return path, actions, number
    return None


def _add_of(actions: Actions) -> dict[str, Any]:
    add: dict[str, Any] = next(each["add"] for each in actions if "add" in each)
    return add


def _forged(place: Place, batch: Batch) -> tuple[Segment, bytes]:
    """Return other records under a batch's identity: as many, of the same times."""
    [segment] = batch.segments
    rows = pq.read_table(place.folder / segment.file_name).select(RECORD_SCHEMA.names)
    values = pa.array([f"forged:{at}".encode() for at in range(rows.num_rows)], pa.binary())
    place_of_values = RECORD_SCHEMA.get_field_index("value")
    made, content = new_segment(
        rows.set_column(place_of_values, RECORD_SCHEMA.field("value"), values), batch.leader_epoch
    )
    name = f"{segment.epoch_in_name}-{segment.uuid}-{made.digest}.parquet"
    return replace(made, file_name=name), content.to_pybytes()


def _text(actions: Actions) -> bytes:
    return "".join(json.dumps(each) + "\n" for each in actions).encode()


def _put(file: Path, content: bytes) -> None:
    """Put other bytes in a file's place, in one step; its folder must be there."""
    temporary = file.with_name(f"_{uuid4().hex}.tmp")
    temporary.write_bytes(content)
    temporary.rename(file)
