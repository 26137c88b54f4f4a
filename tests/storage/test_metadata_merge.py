"""Small files of the metadata log are merged: rows, order and decisions stay as they were."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kafka_on_spark.errors import CommitConflictError
from kafka_on_spark.metadata.records import ClusterRecord, ProducerRecord, Stamp
from kafka_on_spark.storage import metadata_log, metadata_placement
from kafka_on_spark.storage.metadata_log import DeltaMetadataLog
from kafka_on_spark.storage.roots import StorageOptions


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.setattr(metadata_log, "MERGED_FILES_MIN", 8)
    return DeltaMetadataLog.create(str(tmp_path), StorageOptions(), "cluster")


def records(number):
    """One record, or three, of a decision."""
    count = 3 if number % 3 == 0 else 1
    return [
        ClusterRecord(cluster_id="cluster", cause=f"decision {number}"),
        *(ProducerRecord(producer_id=f"p{each}", producer_epoch=number) for each in range(count)),
    ]


def append(log, count, *, first=0, end=0):
    for number in range(first, first + count):
        # All at one moment: nothing but the files says where a decision ends.
        end = log.append(records(number), Stamp(time_ms=7), expected_offset=end).end_offset
        log.maintain()
    return end


def test_merged_log_reads_as_before(log, tmp_path):
    unmerged = DeltaMetadataLog.create(str(tmp_path / "other"), StorageOptions(), "cluster")
    end = 0
    for number in range(30):
        batch = unmerged.append(records(number), Stamp(time_ms=7), expected_offset=end)
        end = batch.end_offset
    append(log, 30)

    assert DeltaTable(log.uri).to_pyarrow_table().num_rows == end
    assert len(DeltaTable(log.uri).file_uris()) < 16
    assert log.read(from_offset=0) == unmerged.read(from_offset=0)


def test_reading_may_begin_inside_a_merged_file(log):
    append(log, 24)
    batches = log.read(from_offset=0)

    for place, batch in enumerate(batches):
        assert log.read(from_offset=batch.base_offset) == batches[place:]


def test_append_that_was_decided_before_a_merge_is_not_lost(log, tmp_path):
    other = DeltaMetadataLog(str(tmp_path), StorageOptions())
    end = append(log, 7)
    assert len(other.read(from_offset=0)) == 7

    append(log, 1, first=7, end=end)  # merges, a version without an offset
    end = log.read(from_offset=0)[-1].end_offset
    with pytest.raises(CommitConflictError):
        other.append(records(8), Stamp(time_ms=7), expected_offset=end - 1)
    batch = other.append(records(8), Stamp(time_ms=7), expected_offset=end)

    assert log.read(from_offset=end) == [batch]


def test_large_commits_stay_as_they_are(log, monkeypatch):
    monkeypatch.setattr(metadata_placement, "SMALL_FILE_RECORDS", 4)
    append(log, 40)

    files = pa.table(DeltaTable(log.uri).get_add_actions(flatten=True))
    assert 4 in files["num_records"].to_pylist()
    assert sum(files["num_records"].to_pylist()) == log.read(from_offset=0)[-1].end_offset
