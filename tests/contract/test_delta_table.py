"""A replica is a plain Delta table: any Delta reader reads it, at every version."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import StagedBatch
from kafka_on_spark.log.replicas import TABLE_SCHEMA, commit_decided
from kafka_on_spark.log.segments import RECORD_SCHEMA, begin_puts, ended, new_segment
from kafka_on_spark.store.roots import StorageOptions
from tests import forging
from tests.builders import NOW_MS, stamp

OPTIONS = StorageOptions()


@pytest.fixture
def replica(delta_disks):
    delta_disks.replicas.create(delta_disks.addresses[1])
    return delta_disks.replicas.open(delta_disks.addresses[1])


@pytest.fixture
def uri(delta_disks):
    return delta_disks.addresses[1].folder


def lead(replica, epoch, cut=None):
    return commit_decided(
        replica,
        lambda state: operations.adopt(state, leader_epoch=epoch, truncate_to=cut, floor=Offset(0)),
    )


def write(replica, address, *segments, epoch=0, producer=None):
    made = []
    for values in segments:
        rows = [
            {
                "timestamp": NOW_MS * 1000 + place,
                "key": b"k",
                "value": value,
                "headers": [{"key": "h", "value": b"v"}],
            }
            for place, value in enumerate(values)
        ]
        segment, content = new_segment(
            pa.Table.from_pylist(rows, RECORD_SCHEMA), LeaderEpoch(epoch)
        )
        writes = begin_puts([address], segment, content, OPTIONS)
        assert ended([writes]) == [{address.broker_id: None}]
        made.append(segment)
    staged = StagedBatch(segments=tuple(made), partition_count=3, producer=producer)
    return commit_decided(
        replica,
        lambda state: operations.append(
            state, staged, leader_epoch=LeaderEpoch(epoch), now_ms=NOW_MS
        ),
    )


def records(uri, version=None):
    """Read offsets and values as any Delta reader would."""
    table = DeltaTable(uri, version=version).to_pyarrow_table()
    return sorted(
        (base + delta, value)
        for base, delta, value in zip(
            *(table.column(name).to_pylist() for name in ("base_offset", "offset_delta", "value")),
            strict=True,
        )
    )


def test_any_delta_reader_sees_offsets_and_header(replica, uri, delta_disks):
    lead(replica, 0)
    write(
        replica,
        delta_disks.addresses[1],
        [b"a", b"b"],
        [b"c"],
        producer=stamp(4, epoch=2, digest=-5),
    )
    write(replica, delta_disks.addresses[1], [b"d"])

    table = DeltaTable(uri)
    rows = table.to_pyarrow_table().sort_by(
        [("base_offset", "ascending"), ("offset_delta", "ascending")]
    )

    assert records(uri) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)
    assert set(rows.column_names) == set(TABLE_SCHEMA.names)
    assert rows.select(["batch_base_offset", "batch_record_count", "partition_count"]).to_pylist()[
        2
    ] == {
        "batch_base_offset": 0,
        "batch_record_count": 3,
        "partition_count": 3,
    }
    assert rows.column("sequence").to_pylist() == [4, 4, 4, None]
    assert rows.column("payload_digest").to_pylist() == [-5, -5, -5, None]
    assert rows.column("headers").to_pylist()[0] == [{"key": "h", "value": b"v"}]
    assert rows.column("timestamp").cast(pa.int64()).to_pylist()[1] == NOW_MS * 1000 + 1


def test_configuration_says_which_replica_it_is(replica, uri, delta_disks):
    configuration = DeltaTable(uri).metadata().configuration

    identity = delta_disks.addresses[1].identity
    assert {name: text for name, text in configuration.items() if name.startswith("kos.")} == {
        "kos.topic.id": identity.topic_id,
        "kos.partition": str(identity.partition),
        "kos.broker.id": "1",
        "kos.directory.id": identity.directory_id,
        "kos.replica.uuid": identity.replica_uuid,
        "kos.format.version": "2",
    }


def test_each_commit_says_its_operation_and_the_newest_has_all_counters_of_the_log(
    replica, uri, delta_disks
):
    """So a process that opens the table from a checkpoint needs no older commit."""
    lead(replica, 0)
    write(replica, delta_disks.addresses[1], [b"a"])

    commits = [
        [json.loads(line) for line in commit.read_text().splitlines()]
        for commit in forging.commit_files(Path(uri))
    ]

    infos = [each["commitInfo"] for actions in commits for each in actions if "commitInfo" in each]
    assert [info["op"] for info in infos] == ["create", "adopt", "append"]
    assert len({info["writeId"] for info in infos}) == 3
    assert {each["txn"]["appId"] for each in commits[-1] if "txn" in each} == {
        *("log-start-offset", "log-end-offset", "leader-epoch"),
        *("chain-high", "chain-low", "producer-state", "producer-digest"),
    }


@pytest.mark.parametrize("folder", ["../", "below/"])
def test_commit_that_names_a_file_outside_of_the_replicas_folder_is_corrupt(
    replica, uri, delta_disks, folder
):
    lead(replica, 0)
    write(replica, delta_disks.addresses[1], [b"a"])
    newest = Path(uri) / "_delta_log" / f"{2:020d}.json"
    newest.write_text(newest.read_text().replace('"path":"', f'"path":"{folder}'))

    with pytest.raises(CorruptLogError):
        delta_disks.reopened().open(delta_disks.addresses[1]).load()
