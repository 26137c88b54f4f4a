"""Roots on S3: the self-test, the files, and the logs of replicas and metadata."""

import time

import pyarrow as pa
import pytest

from kafka_on_spark.errors import (
    ClusterNotFoundError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    InvalidRequestError,
    InvalidRootError,
)
from kafka_on_spark.ids import BrokerId, DirectoryId, LeaderEpoch, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import StagedBatch
from kafka_on_spark.metadata.records import ClusterRecord, ConfigRecord, Stamp
from kafka_on_spark.service.maintain.root_upkeep import VisitOrder, VisitResult
from kafka_on_spark.spark.run.keeping_tasks import visit_task
from kafka_on_spark.storage import temporaries
from kafka_on_spark.storage.identity import root_safety
from kafka_on_spark.storage.identity.root_clock import root_now_ms
from kafka_on_spark.storage.identity.root_identity import (
    encode_properties,
    prepare_root,
    probe_root,
    read_identity,
)
from kafka_on_spark.storage.metadata.metadata_creation import create_metadata_log
from kafka_on_spark.storage.metadata.metadata_log import DeltaMetadataLog
from kafka_on_spark.storage.replicas.replica_store import DeltaReplicaStore
from kafka_on_spark.storage.replicas.segment_store import FileSegmentStore
from kafka_on_spark.storage.replicas.segments import (
    RECORD_SCHEMA,
    begin_puts,
    ended,
    new_segment,
    read_segment,
)
from kafka_on_spark.storage.roots.roots import RootFiles, StorageOptions, filesystem
from tests.builders import BEGINNING, NOW_MS, address
from tests.storage.s3.faulty_s3 import BUCKET, CANARY, Kind, faulty_s3
from tests.storage.tables import create

STAMP = Stamp(time_ms=NOW_MS)


@pytest.fixture(scope="module")
def store():
    with faulty_s3() as store:
        yield store


@pytest.fixture(scope="module")
def options(store):
    return StorageOptions(store.options())


@pytest.fixture
def root(request):
    return f"s3://{BUCKET}/{abs(hash(request.node.name))}"


@pytest.fixture
def files(root, options):
    return RootFiles(root, options)


def prepared(root, options, broker_id=1):
    """Return the address of a replica on a root with an identity, without the races of a self-test."""
    directory = DirectoryId(f"{broker_id:032x}")
    content = encode_properties("a-cluster", f"broker.id={broker_id}", directory)
    RootFiles(root, options).write(f"{root}/meta.properties", content)
    return address(broker_id, root=root, directory_id=directory)


def record(value):
    return ConfigRecord(topic_id=None, config_name="x", config_value=value)


def lead(replica):
    state = replica.load()
    change = operations.adopt(state, leader_epoch=LeaderEpoch(0), truncate_to=None, floor=Offset(0))
    replica.commit(state, change)


def records(*values):
    rows = [{"timestamp": NOW_MS, "key": None, "value": value, "headers": None} for value in values]
    return pa.Table.from_pylist(rows, RECORD_SCHEMA)


def test_what_killed_processes_left_on_a_store_is_removed_when_it_is_a_day_old(
    root, options, files, monkeypatch
):
    directory = DirectoryId("e" * 32)
    files.write(f"{root}/meta.properties", encode_properties("c", "broker.id=1", directory))
    order = VisitOrder(broker_id=BrokerId(1), root=root, directory_id=directory)
    probe, table, rest = f"_probe-{'a' * 32}", f"_race-{'b' * 32}", f"_race-{'c' * 32}"
    others = ["_probe-mine", "_race-mine", f"orders-{'d' * 32}"]
    files.write(f"{root}/{probe}", b"probe")
    create(f"{root}/{table}", options)
    for name in (rest, *others):
        files.write(f"{root}/{name}/put-twice", b"first")

    assert visit_task(order, options) == VisitResult()
    assert files.names(root) == sorted([probe, table, *others, "meta.properties"])

    monkeypatch.setattr(temporaries, "AGE_SECONDS_MIN", -60.0)
    assert visit_task(order, options) == VisitResult()
    assert files.names(root) == sorted([*others, "meta.properties"])


def test_store_with_atomic_puts_passes_and_keeps_its_identity(root, options, files):
    identity = prepare_root(root, "a-cluster", BrokerId(1), options)

    assert prepare_root(root, "a-cluster", BrokerId(1), options) == identity
    assert read_identity(root, options) == identity
    assert files.names(root) == ["meta.properties"]
    probe_root(root, identity.directory_id, options)
    assert abs(root_now_ms(root, identity.directory_id, options) / 1000 - time.time()) < 60
    assert files.names(root) == ["meta.properties"]


@pytest.mark.parametrize("lie", ["is_conditional", "is_atomic"])
def test_store_whose_conditional_puts_lie_is_refused(root, options, files, store, monkeypatch, lie):
    monkeypatch.setattr(store, lie, False)

    with pytest.raises(InvalidRootError, match="is not safe"):
        prepare_root(root, "a-cluster", BrokerId(1), options)

    assert read_identity(root, options) is None


def test_only_races_catch_a_store_that_checks_and_writes_in_two_steps(
    root, options, store, monkeypatch
):
    monkeypatch.setattr(store, "is_atomic", False)
    monkeypatch.setattr(root_safety, "_is_second_put_refused", lambda *_: True)

    with pytest.raises(InvalidRootError, match="racing writers"):
        prepare_root(root, "a-cluster", BrokerId(1), options)


@pytest.mark.parametrize("given", ["s3://no-such-bucket/root", "s3://no-such-bucket"])
def test_bucket_that_is_not_there_is_said_in_one_sentence(options, given):
    with pytest.raises(InvalidRootError) as refusal:
        prepare_root(given, "a-cluster", BrokerId(1), options)

    assert given in refusal.value.message
    assert "\n" not in refusal.value.message
    assert "\x1b" not in refusal.value.message


def test_store_that_takes_no_writes_is_refused(root, options, store):
    store.order(Kind.DENIED, suffix="", count=-1)
    try:
        with pytest.raises(InvalidRootError, match="can't be used"):
            prepare_root(root, "a-cluster", BrokerId(1), options)
    finally:
        store.recover()


def test_files_are_read_written_listed_and_deleted(root, files):
    path = f"{root}/folder/file"
    assert files.read(path, 100) is None
    assert files.size(path) is None
    assert files.names(f"{root}/folder") == []

    files.write(path, pa.py_buffer(b"bytes"))

    assert files.read(path, 100) == b"bytes"
    assert files.size(path) == 5
    assert files.names(f"{root}/folder") == ["file"]
    files.delete(path)
    assert files.read(path, 100) is None
    files.delete(path)


def test_file_is_written_only_if_it_is_absent(root, files):
    assert files.write_if_absent(f"{root}/file", b"first")
    assert not files.write_if_absent(f"{root}/file", b"second")
    assert files.read(f"{root}/file", 100) == b"first"


@pytest.mark.parametrize("kind", [Kind.ERROR_AFTER, Kind.DROP_AFTER, Kind.CONFLICT_AFTER])
def test_file_whose_answer_was_lost_was_written(root, files, store, kind):
    store.order(kind, suffix="/file")

    assert files.write_if_absent(f"{root}/file", b"first")

    assert store.struck.pop() is kind
    assert files.read(f"{root}/file", 100) == b"first"


def test_replica_is_created_appended_to_copied_and_read(root, options):
    leader, follower = prepared(f"{root}/1", options), prepared(f"{root}/2", options, 2)
    replicas = DeltaReplicaStore(options)
    replicas.create(leader)
    replicas.create(leader)
    replica = replicas.open(leader)
    lead(replica)
    segment, content = new_segment(records(b"a", b"b"), LeaderEpoch(0))
    assert ended([begin_puts([leader], segment, content, options)]) == [{1: None}]

    staged = StagedBatch(segments=(segment,), partition_count=1, producer=None)
    before = replica.load()
    change = operations.append(before, staged, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS)
    replica.commit(before, change)
    replica.maintain()

    state = DeltaReplicaStore(options).open(leader).load()
    assert (state.log_end_offset, state.leader_epoch, len(state.batches)) == (2, 0, 1)
    FileSegmentStore(options).copy(leader, follower, [segment])
    for each in (leader, follower):
        assert read_segment(each, segment, options).column("value").to_pylist() == [b"a", b"b"]


def at(place):
    """Return an offset, counted from the first decision."""
    return Offset(BEGINNING + place)


def test_metadata_log_is_created_appended_to_and_read(root, options):
    log = create_metadata_log(root, options, "a-cluster")
    for place in range(12):
        log.append([record(str(place))], STAMP, expected_offset=at(place))
        log.maintain()
    with pytest.raises(InvalidRequestError):
        create_metadata_log(root, options, "a-cluster")

    other = DeltaMetadataLog(root, options)
    other.check()
    with pytest.raises(CommitConflictError):
        other.append([record("late")], STAMP, expected_offset=at(3))

    read = other.read(from_offset=at(0))
    assert [each.records[0].config_value for each in read] == [str(place) for place in range(12)]
    other.append([record("next")], STAMP, expected_offset=at(12))
    assert len(log.read(from_offset=at(12))) == 1


def test_snapshot_is_written_once_and_found(root, options):
    log = create_metadata_log(root, options, "a-cluster")
    log.append([record(str(each)) for each in range(9)], STAMP, expected_offset=at(0))
    assert log.newest_snapshot() is None
    cluster = ClusterRecord(cluster_id="a-cluster")

    log.write_snapshot([cluster, record("old")], STAMP, at(5))
    log.write_snapshot([cluster, record("new")], STAMP, at(9))
    log.write_snapshot([cluster, record("again")], STAMP, at(9))

    found = log.newest_snapshot()
    assert found.records == (cluster, record("new"))
    assert found.end_offset == at(9)


def test_secret_is_in_no_object(root, options, store):
    prepare_root(root, "a-cluster", BrokerId(1), options)
    create_metadata_log(f"{root}-metadata", options, "a-cluster").append(
        [record("x")], STAMP, expected_offset=at(0)
    )

    objects = store.objects(f"s3://{BUCKET}")

    assert len(objects) > 3
    assert not [path for path, content in objects.items() if CANARY.encode() in content]


def test_a_process_with_a_log_open_notices_that_it_was_deleted_and_created_again(root, options):
    old = create_metadata_log(root, options, "old")
    old.append([record("old")], STAMP, expected_offset=at(0))
    filesystem(root, options).rm(root, recursive=True)
    new = create_metadata_log(root, options, "new")
    new.append([record("new")], STAMP, expected_offset=at(0))

    with pytest.raises(ClusterNotFoundError, match="open it again"):
        old.read(from_offset=at(1))
    with pytest.raises(ClusterNotFoundError):
        old.write_snapshot([ClusterRecord(cluster_id="old")], STAMP, at(1))

    assert [each.records for each in new.read(from_offset=at(0))] == [(record("new"),)]


def test_a_commit_to_a_deleted_log_is_not_in_the_one_created_in_its_place(root, options):
    old = create_metadata_log(root, options, "old")
    old.append([record("old")], STAMP, expected_offset=at(0))
    filesystem(root, options).rm(root, recursive=True)
    new = create_metadata_log(root, options, "new")

    with pytest.raises((CommitOutcomeUnknownError, CommitConflictError)):
        old.append([record("late")], STAMP, expected_offset=at(1))

    assert new.read(from_offset=at(0)) == []
