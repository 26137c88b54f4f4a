"""Small files of the metadata log are merged: rows, order and decisions stay as they were."""

from itertools import accumulate

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kafka_on_spark.base import merge_tiers
from kafka_on_spark.base.errors import CommitConflictError
from kafka_on_spark.metadata.cluster_roots import DeltaMetadataLog, create_metadata_log
from kafka_on_spark.metadata.metadata_files import LogFile
from kafka_on_spark.metadata.quorum import voter_log
from kafka_on_spark.metadata.quorum.voter_log import files_to_merge
from kafka_on_spark.metadata.quorum.voter_table import RaftBatch
from kafka_on_spark.metadata.records import ClusterRecord, ProducerRecord, Stamp
from kafka_on_spark.store.roots import StorageOptions
from tests.builders import BEGINNING


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.setattr(merge_tiers, "FAN_IN", 8)
    monkeypatch.setattr(voter_log, "MERGE_INTERVAL", 4)
    return create_metadata_log(str(tmp_path), StorageOptions(), "cluster")


def records(number):
    count = 3 if number % 3 == 0 else 1
    return [
        ClusterRecord(cluster_id="cluster", cause=f"decision {number}"),
        *(ProducerRecord(producer_id=f"p{each}", producer_epoch=number) for each in range(count)),
    ]


def append(log, count, *, first=0, end=BEGINNING):
    for number in range(first, first + count):
        # All at one moment: nothing but the files says where a decision ends.
        end = log.append(records(number), Stamp(time_ms=7), expected_offset=end).end_offset
        log.maintain()
    return end


def test_merged_log_reads_as_before(log, tmp_path):
    unmerged = create_metadata_log(str(tmp_path / "other"), StorageOptions(), "cluster")
    end = BEGINNING
    for number in range(30):
        batch = unmerged.append(records(number), Stamp(time_ms=7), expected_offset=end)
        end = batch.end_offset
    append(log, 30)

    assert DeltaTable(log.uri).to_pyarrow_table().num_rows == end
    assert len(DeltaTable(log.uri).file_uris()) < 16
    assert log.read(from_offset=BEGINNING) == unmerged.read(from_offset=BEGINNING)


def test_append_that_was_decided_before_a_merge_is_not_lost(log, tmp_path):
    other = DeltaMetadataLog(str(tmp_path), StorageOptions())
    end = append(log, 7)
    assert len(other.read(from_offset=BEGINNING)) == 7

    append(log, 1, first=7, end=end)  # merges, a version without an offset
    end = log.read(from_offset=BEGINNING)[-1].end_offset
    with pytest.raises(CommitConflictError):
        other.append(records(8), Stamp(time_ms=7), expected_offset=end - 1)
    batch = other.append(records(8), Stamp(time_ms=7), expected_offset=end)

    assert log.read(from_offset=end) == [batch]


def producers(count):
    return [ProducerRecord(producer_id=f"p{each}", producer_epoch=0) for each in range(count)]


def sizes(log):
    return pa.table(DeltaTable(log.uri).get_add_actions(flatten=True))["num_records"].to_pylist()


def test_merge_that_loses_against_an_append_is_put_again(log, tmp_path, monkeypatch):
    end = append(log, 8)
    other = DeltaMetadataLog(str(tmp_path), StorageOptions())
    other.read(from_offset=BEGINNING)
    write_merged = voter_log.write_merged

    def write_beside_an_append(files, uri, merged):
        other.append(records(99), Stamp(time_ms=7), expected_offset=end + 4)
        return write_merged(files, uri, merged)

    monkeypatch.setattr(voter_log, "write_merged", write_beside_an_append)
    batch = log.append(producers(4), Stamp(time_ms=7), expected_offset=end)
    log.maintain()

    assert len(sizes(log)) == 5  # eight files became one
    assert log.read(from_offset=batch.base_offset)[0] == batch
    assert log.read(from_offset=BEGINNING)[-1].records == tuple(records(99))


def test_files_that_another_process_merged_are_not_merged_again(log, tmp_path, monkeypatch):
    end = append(log, 8)
    other = DeltaMetadataLog(str(tmp_path), StorageOptions())
    write_merged = voter_log.write_merged

    def write_after_another(files, uri, merged):
        monkeypatch.setattr(voter_log, "write_merged", write_merged)
        other.voter_log.merge()
        return write_merged(files, uri, merged)

    monkeypatch.setattr(voter_log, "write_merged", write_after_another)
    log.append(producers(4), Stamp(time_ms=7), expected_offset=end)
    log.maintain()

    assert len(sizes(log)) == 4
    assert [each.base_offset for each in log.read(from_offset=end)] == [end]


def file(base_offset, size, size_bytes=1):
    path = f"{base_offset:020d}-{0:032x}.parquet"
    header = RaftBatch(base_offset, base_offset + size, 1, path)
    return LogFile(base_offset, size, path, size_bytes, time_ms=0, batches=(header,))


def log_files(*counts):
    """Files of so many records each, side by side."""
    ends = list(accumulate(counts, initial=0))
    return [file(*each) for each in zip(ends, counts, strict=False)]


# fmt: off
MERGED = [
    pytest.param([1] * 20 + [2_100_000] + [1] * 32, slice(21, 53), id="those beside a full file"),
    pytest.param([1_100_000] * 4,                   slice(3),      id="no more records than a file may hold"),
    pytest.param([1_100_000] * 3,                   slice(0),      id="not fewer of them"),
]
# fmt: on


@pytest.mark.parametrize("counts, merged", MERGED)
def test_files_become_one_that_a_process_can_hold(counts, merged):
    files = log_files(*counts)

    assert files_to_merge(files) == tuple(files[merged])
