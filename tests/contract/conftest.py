"""The two sides of each contract: the fake, and the real adapter on a local root."""

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch
from kafka_on_spark.log.file_deleter import ReplicaFolders
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.segments import (
    RECORD_SCHEMA,
    SegmentStore,
    begin_puts,
    ended,
    new_segment,
)
from kafka_on_spark.metadata.cluster_roots import DeltaMetadataLog, create_metadata_log
from kafka_on_spark.metadata.records import LeaderChangeRecord, Stamp, VotersRecord
from kafka_on_spark.store.deadlines import SystemClock
from kafka_on_spark.store.delta import delta_log
from kafka_on_spark.store.new_roots import prepare_root
from kafka_on_spark.store.root_urls import cluster_url
from kafka_on_spark.store.roots import RootFiles, StorageOptions
from tests import builders, fakes, forging
from tests.cluster.folders import quick_folder
from tests.store.s3.faulty_s3 import BUCKET, faulty_s3

OPTIONS = StorageOptions()


@dataclass
class Disks:
    """Brokers' roots on one side of a contract, and the stores on them."""

    addresses: dict[int, Any]
    replicas: Any
    segments: Any
    reopened: Any  # a store with an empty cache
    put: Any  # (address, name, count) → Segment
    damage: Any  # (address, segment): other bytes of the same size
    content: Any  # (address, name) → bytes or None
    write: Any  # (address, name, content): a file of other bytes
    lose_commit: Any  # (address): the newest commit of the replica's table is gone
    failing: Any  # (address) → a context in which nothing on its root can be read
    folders: Any = None
    roots: Any = None
    store: Any = None  # the server, on S3


def memory_disks():
    urls = {number: f"memory://{number}" for number in (1, 2)}
    roots = fakes.MemoryRoots({url: builders.disk(number) for number, url in urls.items()})
    segments = fakes.MemorySegmentStore(roots)

    def put(address, name, count):
        segment = builders.segment(name, count)
        segments.put(address, segment)
        return segment

    def damage(address, segment):
        files = roots[address.root].files[fakes.folder(address)]
        files[segment.file_name] = b"x" * segment.size_bytes

    @contextmanager
    def failing(address):
        roots[address.root].is_offline = True
        yield
        roots[address.root].is_offline = False

    return Disks(
        addresses={number: builders.address(number) for number in urls},
        replicas=fakes.MemoryReplicaStore(roots),
        segments=segments,
        reopened=lambda: fakes.MemoryReplicaStore(roots),
        put=put,
        damage=damage,
        content=lambda address, name: (
            roots[address.root].files.get(fakes.folder(address), {}).get(name)
        ),
        write=lambda address, name, content: (
            roots[address.root].files.setdefault(fakes.folder(address), {}).update({name: content})
        ),
        lose_commit=lambda address: roots[address.root].roll_back(1),
        failing=failing,
        folders=fakes.MemoryReplicaFolders(roots),
        roots=roots,
    )


@pytest.fixture(scope="session")
def prepared_roots(tmp_path_factory):
    """Two brokers' roots, prepared once: the race for their safety takes a second."""
    roots = {}
    for number in (1, 2):
        root = str(tmp_path_factory.mktemp("roots") / str(number))
        roots[number] = (root, prepare_root(root, "a-cluster", BrokerId(number), OPTIONS))
    return roots


def newest_commit(address):
    return forging.commit_files(Path(address.folder))[-1]


def real_disks(prepared, topic, options=OPTIONS, store=None):
    """Every test has a topic of its own, so that tests can share the roots."""
    addresses = {
        number: builders.address(number, root=root, topic=topic, directory_id=found.directory_id)
        for number, (root, found) in prepared.items()
    }

    def put(address, name, count):
        records = pa.Table.from_pylist(
            [
                {"timestamp": place, "key": None, "value": name.encode(), "headers": None}
                for place in range(count)
            ],
            schema=RECORD_SCHEMA,
        )
        segment, content = new_segment(records, LeaderEpoch(0))
        writes = begin_puts([address], segment, content, options)
        assert ended([writes]) == [{address.broker_id: None}]
        return segment

    def path(address, name):
        return f"{address.folder}/{name}"

    def damage(address, segment):
        files = RootFiles(address.root, options)
        files.write(path(address, segment.file_name), b"x" * segment.size_bytes)

    return Disks(
        addresses=addresses,
        replicas=ReplicaStore(options),
        segments=SegmentStore(options),
        reopened=lambda: ReplicaStore(options),
        put=put,
        damage=damage,
        content=lambda address, name: RootFiles(address.root, options).read(
            path(address, name), 2**20
        ),
        write=lambda address, name, content: RootFiles(address.root, options).write(
            path(address, name), content
        ),
        lose_commit=lambda address: newest_commit(address).unlink(),
        failing=lambda _: patch.object(delta_log.CommitFiles, "stamps", _fails),
        folders=ReplicaFolders(options),
        store=store,
    )


def _fails(*_):
    raise KafkaStorageError("the root does not answer")


@pytest.fixture(params=["memory", "delta"])
def disks(request, prepared_roots):
    if request.param == "memory":
        return memory_disks()
    return real_disks(prepared_roots, f"t{abs(hash(request.node.name))}")


@pytest.fixture(scope="session")
def stored_roots():
    """Two brokers' roots on a store, its server, and how they are reached."""
    with faulty_s3() as store:
        options = StorageOptions(store.options())
        roots = {}
        for number in (1, 2):
            root = f"s3://{BUCKET}/broker-{number}"
            found = prepare_root(root, "a-cluster", BrokerId(number), options)
            roots[number] = (root, found)
        yield roots, options, store


@pytest.fixture(params=["memory", "disk", pytest.param("S3", marks=pytest.mark.long)])
def every_disks(request):
    """Disks of each kind, in a long run a store's, too: by default tests/store/s3 asks its client."""
    if request.param == "memory":
        yield memory_disks()
        return
    topic = f"t{abs(hash(request.node.name))}"
    if request.param == "disk":
        yield real_disks(request.getfixturevalue("prepared_roots"), topic)
        return
    roots, options, store = request.getfixturevalue("stored_roots")
    yield real_disks(roots, topic, options, store)
    store.recover()


@pytest.fixture
def delta_disks(request, prepared_roots):
    return real_disks(prepared_roots, f"t{abs(hash(request.node.name))}")


@pytest.fixture(params=["memory", "delta", "three voters"])
def metadata_logs(request):
    """Yield a function that opens the same metadata log, each time again.

    Where a flush costs nothing: on a disk that is busy it takes longer than a voter is waited for.
    """
    with quick_folder() as folder:
        yield opening_of(request.param, folder)


def opening_of(kind, folder):
    """Return a function that opens a new metadata log of a kind, each time again."""
    if kind == "memory":
        only = fakes.MemoryMetadataLog("a-cluster")
        for record in (
            VotersRecord(voters=("1:d:/meta",), cluster_id="a-cluster"),
            LeaderChangeRecord(leader=1, directory_id="d"),
        ):
            only.append((record,), Stamp(time_ms=0), expected_offset=only.end_offset)
        return lambda: only
    names = ["metadata"] if kind == "delta" else ["m1", "m2", "m3"]
    root = cluster_url([folder / name for name in names])
    with patch.object(SystemClock, "now_ms", lambda clock: 0):
        create_metadata_log(root, OPTIONS, "a-cluster")
    return lambda: DeltaMetadataLog(root, OPTIONS)
