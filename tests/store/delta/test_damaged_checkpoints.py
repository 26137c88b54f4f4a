"""Checkpoints and hints that can't be read, or must not be: they are passed over, never believed."""

import os

import pyarrow.parquet as pq
import pytest

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.store import parquet_files
from kafka_on_spark.store.delta import checkpoints, delta_log
from kafka_on_spark.store.delta.delta_files import TableDamage
from kafka_on_spark.store.delta.table_history import table_steps
from kafka_on_spark.store.roots import RootFiles
from tests.store.damages import up_to_last, with_checkpoint, zero
from tests.store.tables import OPTIONS, commit_file, commit_times, opened


@pytest.fixture
def log(log, monkeypatch):
    """Return a table that has a checkpoint due each ten commits."""
    monkeypatch.setattr(delta_log, "CHECKPOINT_INTERVAL", 10)
    return up_to_last(log)


def steps_of(uri):
    return table_steps(RootFiles(uri, OPTIONS), uri, has_all_checkpoints=True)


@pytest.mark.damaged("can't be read")
def test_a_table_without_a_checkpoint_and_a_first_commit_that_can_be_read_is_corrupt(log, uri):
    zero(commit_file(uri, 0))

    with pytest.raises(CorruptLogError, match="neither a checkpoint nor the first commit"):
        log.tombstones()


def test_a_checkpoint_that_was_cleaned_since_it_was_listed_is_not_warned_of(log, uri, caplog):
    def gone(path, bytes_max):
        return None

    assert checkpoints.newest_checkpoint(gone, uri, [10]) is None
    assert not caplog.records


# fmt: off
STRANGE = [
    "zzz.checkpoint.parquet", "._00000000000000000010.checkpoint.parquet", "00.checkpoint.parquet",
    "0000000000000000001\u0661.checkpoint.parquet", "copy of 00000000000000000003.json",
    "99999999999999999999.json", "99999999999999999999.checkpoint.parquet",
    "._00000000000000000005.json", "00000000000000000005.json.bak", "00000000000000000005.crc",
]
# fmt: on


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_a_name_that_is_none_of_a_logs_is_passed_over(log, uri, name, content):
    commit_times(log, 7)
    log.checkpoint_if_due()
    strange = commit_file(uri, 0).with_name(name)
    strange.write_bytes(content)

    after = opened(uri)
    commit_times(after, 10)
    after.checkpoint_if_due()

    assert after.counters() == {"count": after.version}
    assert not [each for each in steps_of(uri) if isinstance(each, TableDamage)]
    assert opened(uri).counters_of("count") == [after.version]
    strange.unlink(missing_ok=True)  # Spark, which opens what is left, takes some for versions


def too_many_rows(path, monkeypatch):
    monkeypatch.setattr(parquet_files, "ROWS_MAX", pq.ParquetFile(path).metadata.num_rows - 1)


def too_many_bytes(path, monkeypatch):
    monkeypatch.setattr(parquet_files, "UNCOMPRESSED_BYTES_MAX", 100)


def too_large(path, monkeypatch):
    monkeypatch.setattr(checkpoints, "CHECKPOINT_BYTES_MAX", 100)


def folder(path, monkeypatch):
    path.unlink()
    path.mkdir()


def pipe(path, monkeypatch):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("harm", [too_many_rows, too_many_bytes, too_large, folder, pipe])
def test_what_can_not_be_read_safely_in_a_checkpoints_place_is_passed_over(
    log, uri, monkeypatch, harm
):
    harm(with_checkpoint(log), monkeypatch)

    assert opened(uri).counters_of("count") == [log.version]
