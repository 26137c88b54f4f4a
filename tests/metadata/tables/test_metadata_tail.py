"""Following the metadata log by its newest commits: the same batches, flushed, and no listing."""

import json
import shutil
from pathlib import Path

import pytest

from kafka_on_spark.base.errors import (
    CorruptLogError,
    KafkaStorageError,
)
from kafka_on_spark.metadata.cluster_roots import DeltaMetadataLog, create_metadata_log
from kafka_on_spark.metadata.records import ProducerRecord, Stamp
from kafka_on_spark.store.delta import delta_log
from kafka_on_spark.store.delta.delta_files import commit_path
from kafka_on_spark.store.roots import StorageOptions
from tests.builders import BEGINNING

OPTIONS = StorageOptions()
FIRST_VERSION = 4
"""The commit of the first decision: after the table, its first batch, a vote and a no-op."""

BATCHES = 3
SEEN = BEGINNING + BATCHES


@pytest.fixture
def log(tmp_path):
    log = create_metadata_log(str(tmp_path), OPTIONS, "cluster")
    append(log, BEGINNING, BATCHES)
    return log


@pytest.fixture
def follower(log, tmp_path):
    """Another process's log, which has read what there is."""
    follower = DeltaMetadataLog(str(tmp_path), OPTIONS)
    assert len(follower.read(from_offset=BEGINNING)) == BATCHES
    return follower


@pytest.fixture
def opened(monkeypatch):
    """Note which tables are opened anew: followed, a table is read commit by commit."""
    noted = []
    open_table = delta_log.open_table

    def note(commits):
        noted.append(commits.uri)
        return open_table(commits)

    monkeypatch.setattr(delta_log, "open_table", note)
    return noted


def version_of(offset):
    """Return the commit of a batch of one record, without a merge before it."""
    return offset + FIRST_VERSION - BEGINNING


def append(log, end, count):
    for number in range(count):
        records = [ProducerRecord(producer_id=f"p{end}", producer_epoch=number)]
        end = log.append(records, Stamp(time_ms=7), expected_offset=end).end_offset
    return end


def _cut(path):
    path.write_bytes(path.read_bytes()[:40])


def _naming_a_file_elsewhere(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["path"] = f"../{line['add']['path']}"
    path.write_text("\n".join(map(json.dumps, lines)))


DAMAGES = [
    pytest.param(_cut, CorruptLogError, id="cut"),
    pytest.param(_naming_a_file_elsewhere, CorruptLogError, id="a file elsewhere"),
]


@pytest.mark.parametrize("damage, kind", DAMAGES)
def test_damage_is_told_after_a_second_look_at_the_whole_table(
    log, follower, opened, tmp_path, damage, kind
):
    append(log, SEEN, 1)
    damage(tmp_path / commit_path(log.uri, version_of(SEEN)))
    opened.clear()

    with pytest.raises(kind):
        follower.read(from_offset=SEEN)

    assert set(opened) == {follower.uri}


def test_commits_beneath_the_mount_of_a_disk_that_is_away_are_no_sequel(log, follower, tmp_path):
    append(log, SEEN, 1)
    other = tmp_path.with_name("away")
    tmp_path.rename(other)
    for path in other.glob("*/*.parquet"):
        put_below(other, tmp_path, path)
    put_below(other, tmp_path, Path(commit_path(str(other / Path(log.uri).name), version_of(SEEN))))

    with pytest.raises(KafkaStorageError, match="away"):
        follower.read(from_offset=SEEN)

    shutil.rmtree(tmp_path)
    other.rename(tmp_path)
    assert [each.base_offset for each in follower.read(from_offset=SEEN)] == [SEEN]


def put_below(disk, mount, path):
    there = mount / path.relative_to(disk)
    there.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, there)
