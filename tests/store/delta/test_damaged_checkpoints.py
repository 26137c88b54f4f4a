"""Checkpoints and hints that can't be read, or must not be: they are passed over, never believed."""

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.store import parquet_files
from kafka_on_spark.store.delta import checkpoints, delta_log
from kafka_on_spark.store.delta.delta_files import TableDamage
from kafka_on_spark.store.delta.table_history import table_steps
from kafka_on_spark.store.roots import RootFiles
from tests.store.damages import up_to_last, with_checkpoint, zero
from tests.store.tables import OPTIONS, commit_file, commit_times, names_in_log, opened


@pytest.fixture
def log(log, monkeypatch):
    """Return a table that has a checkpoint due each ten commits."""
    monkeypatch.setattr(delta_log, "CHECKPOINT_INTERVAL", 10)
    return up_to_last(log)


def steps_of(uri):
    return table_steps(RootFiles(uri, OPTIONS), uri, has_all_checkpoints=True)


def test_a_checkpoint_that_can_not_be_read_keeps_its_bytes_under_another_name(log, uri):
    path = with_checkpoint(log)
    zero(path)
    content = path.read_bytes()

    opened(uri)

    assert not path.exists()
    assert Path(f"{path}.unreadable").read_bytes() == content


def test_a_checkpoint_that_could_not_be_read_just_now_stays(log, uri, monkeypatch):
    def fail(files, path, bytes_max):
        if path.endswith(".parquet"):
            raise KafkaStorageError("a moment's failure")
        return read(files, path, bytes_max)

    with_checkpoint(log)
    before = names_in_log(uri)
    read = RootFiles.read
    with monkeypatch.context() as failing:
        failing.setattr(RootFiles, "read", fail)
        with pytest.raises(KafkaStorageError):
            opened(uri)

    assert names_in_log(uri) == before
    assert opened(uri).version == log.version


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


def claim_rows(path, monkeypatch):
    """Lower the limit, so that a checkpoint has more rows than allowed."""
    monkeypatch.setattr(parquet_files, "ROWS_MAX", pq.ParquetFile(path).metadata.num_rows - 1)


def claim_bytes(path, monkeypatch):
    monkeypatch.setattr(parquet_files, "UNCOMPRESSED_BYTES_MAX", 100)


@pytest.mark.parametrize("bomb", [claim_rows, claim_bytes])
def test_a_checkpoint_that_says_too_much_is_passed_over_before_its_pages_are_read(
    log, uri, monkeypatch, bomb
):
    path = with_checkpoint(log)
    bomb(path, monkeypatch)

    after = opened(uri)

    assert after.counters_of("count") == [log.version]
    assert not path.exists()
    assert Path(f"{path}.unreadable").exists()


@pytest.mark.parametrize("damage", [Path.mkdir, os.mkfifo])
def test_what_is_no_regular_file_in_a_checkpoints_place_is_passed_over(log, uri, damage):
    path = with_checkpoint(log)
    path.unlink()
    damage(path)

    assert opened(uri).counters_of("count") == [log.version]


@pytest.mark.parametrize("is_local", [True, False])
def test_a_checkpoint_that_is_larger_than_one_can_be_is_not_read(log, uri, monkeypatch, is_local):
    path = with_checkpoint(log)
    monkeypatch.setattr(checkpoints, "is_local", lambda url: is_local)
    monkeypatch.setattr(checkpoints, "CHECKPOINT_BYTES_MAX", 100)

    assert opened(uri).counters_of("count") == [log.version]
    assert path.exists() is not is_local


def test_a_checkpoint_of_a_store_whose_bytes_were_cut_off_on_the_way_stays(log, uri, monkeypatch):
    def cut_off(files, path, bytes_max):
        content = read(files, path, bytes_max)
        return content[:-9] if path.endswith(".parquet") else content

    with_checkpoint(log)
    before = names_in_log(uri)
    read = RootFiles.read
    with monkeypatch.context() as failing:
        failing.setattr(checkpoints, "is_local", lambda url: False)
        failing.setattr(RootFiles, "read", cut_off)
        assert opened(uri).counters_of("count") == [log.version]

    assert names_in_log(uri) == before
