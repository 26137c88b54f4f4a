"""Roots on S3: the self-test, the files, and the logs of replicas and metadata."""

import time
from collections import deque

import pyarrow as pa
import pytest

from kafka_on_spark.base.errors import InvalidRootError
from kafka_on_spark.base.ids import BrokerEpoch, BrokerId, DirectoryId, Offset
from kafka_on_spark.controller.upkeep import RootOrder, clean_root_task
from kafka_on_spark.log.segments import RECORD_SCHEMA
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata import temporaries
from kafka_on_spark.metadata.cluster_roots import create_metadata_log
from kafka_on_spark.metadata.image import BrokerRegistration
from kafka_on_spark.metadata.records import BrokerState, ConfigRecord, Stamp
from kafka_on_spark.store import root_identity
from kafka_on_spark.store.new_roots import prepare_root
from kafka_on_spark.store.root_identity import (
    encode_properties,
    probe_root,
    read_identity,
    root_now_ms,
)
from kafka_on_spark.store.roots import RootFiles, StorageOptions
from tests.builders import BEGINNING, NOW_MS
from tests.store.s3.faulty_s3 import BUCKET, CANARY, faulty_s3
from tests.store.tables import create

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


def record(value):
    return ConfigRecord(topic_id=None, config_name="x", config_value=value)


def records(*values):
    rows = [{"timestamp": NOW_MS, "key": None, "value": value, "headers": None} for value in values]
    return pa.Table.from_pylist(rows, RECORD_SCHEMA)


def test_what_killed_processes_left_on_a_store_is_removed_when_it_is_a_day_old(
    root, options, files, monkeypatch
):
    directory = DirectoryId("e" * 32)
    files.write(f"{root}/meta.properties", encode_properties("c", "broker.id=1", directory))
    broker = BrokerRegistration(
        broker_id=BrokerId(1),
        broker_epoch=BrokerEpoch(0),
        root=root,
        rack=None,
        directory_id=directory,
        state=BrokerState.ACTIVE,
    )
    order = RootOrder(broker=broker)
    probe, table, rest = f"_probe-{'a' * 32}", f"_race-{'b' * 32}", f"_race-{'c' * 32}"
    others = ["_probe-mine", "_race-mine", f"orders-{'d' * 32}"]
    files.write(f"{root}/{probe}", b"probe")
    create(f"{root}/{table}", options)
    for name in (rest, *others):
        files.write(f"{root}/{name}/put-twice", b"first")

    assert clean_root_task(order, Worker(options)) is None
    assert files.names(root) == sorted([probe, table, *others, "meta.properties"])
    assert files.sizes(f"{root}/_race-mine") == {"put-twice": 5}

    monkeypatch.setattr(temporaries, "AGE_SECONDS_MIN", -60.0)
    assert clean_root_task(order, Worker(options)) is None
    assert files.names(root) == sorted([*others, "meta.properties"])


def test_store_with_atomic_puts_passes_and_keeps_its_identity(root, options, files, monkeypatch):
    monkeypatch.setattr(root_identity, "PROBED_SECONDS", 0.0)
    monkeypatch.setattr(root_identity, "_probes", deque())
    identity = prepare_root(root, "a-cluster", BrokerId(1), options)

    assert prepare_root(root, "a-cluster", BrokerId(1), options) == identity
    assert read_identity(root, options) == identity
    assert files.names(root) == ["meta.properties"]
    for _ in range(2):
        probe_root(root, identity.directory_id, options)
    assert abs(root_now_ms(root, identity.directory_id, options) / 1000 - time.time()) < 60
    assert len(files.names(root)) == 2, "this process has a probe there"


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

    with pytest.raises(InvalidRootError, match="racing writers"):
        prepare_root(root, "a-cluster", BrokerId(1), options)


@pytest.mark.parametrize("given", ["s3://no-such-bucket/root", "s3://no-such-bucket"])
def test_bucket_that_is_not_there_is_said_in_one_sentence(options, given):
    with pytest.raises(InvalidRootError) as refusal:
        prepare_root(given, "a-cluster", BrokerId(1), options)

    assert given in refusal.value.message
    assert "\n" not in refusal.value.message
    assert "\x1b" not in refusal.value.message


def at(place):
    """Return an offset, counted from the first decision."""
    return Offset(BEGINNING + place)


def test_secret_is_in_no_object(root, options, store):
    prepare_root(root, "a-cluster", BrokerId(1), options)
    create_metadata_log(f"{root}-metadata", options, "a-cluster").append(
        [record("x")], STAMP, expected_offset=at(0)
    )

    objects = store.objects(f"s3://{BUCKET}")

    assert len(objects) > 3
    assert not [path for path, content in objects.items() if CANARY.encode() in content]
