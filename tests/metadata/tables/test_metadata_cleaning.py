"""What a metadata root is cleaned of, and what stays: every row, and enough snapshots."""

import os
import time
from types import SimpleNamespace

import pytest

from kafka_on_spark.base import merge_tiers
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.metadata.cluster_roots import DeltaMetadataLog, create_metadata_log
from kafka_on_spark.metadata.metadata_files import encode_file, log_files, merge_files
from kafka_on_spark.metadata.quorum import voter_log
from kafka_on_spark.metadata.quorum.voter_table import OffsetAndEpoch
from kafka_on_spark.metadata.records import ClusterRecord, Stamp
from kafka_on_spark.store.delta import delta_log
from kafka_on_spark.store.roots import RootFiles, StorageOptions
from tests.builders import BEGINNING

FAR = 10**15
"""A time at which every delay is over."""


def now_ms():
    return time.time_ns() // 10**6


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.setattr(merge_tiers, "FAN_IN", 8)
    monkeypatch.setattr(voter_log, "MERGE_INTERVAL", 4)
    log = create_metadata_log(str(tmp_path), StorageOptions(), "cluster")
    end = BEGINNING
    for number in range(30):
        record = ClusterRecord(cluster_id="cluster", cause=f"decision {number}")
        end = log.append([record], Stamp(time_ms=7), expected_offset=end).end_offset
        log.maintain()
    return log


def files_of(log):
    return {name for name in os.listdir(log.uri) if name.endswith(".parquet")}


def active_of(log):
    return {file.path for file in log.voter_log._delta.active_files()}


def test_files_that_a_merge_replaced_go_and_every_row_stays(log, tmp_path):
    before = log.read(from_offset=0)
    assert len(files_of(log)) > len(active_of(log))

    count = log.clean(FAR)

    assert count > 0
    assert files_of(log) == active_of(log)
    assert DeltaMetadataLog(str(tmp_path), StorageOptions()).read(from_offset=0) == before
    assert log.clean(FAR) == 0


@pytest.mark.parametrize("deleted_max", [5, 1000])
def test_who_writes_a_checkpoint_cleans_the_root_of_so_many_files(log, monkeypatch, deleted_max):
    monkeypatch.setattr(voter_log, "time", SimpleNamespace(time_ns=lambda: FAR * 10**6))
    monkeypatch.setattr(voter_log, "DELETED_MAX", deleted_max)
    monkeypatch.setattr(delta_log, "CHECKPOINT_INTERVAL", 10)
    monkeypatch.setattr(voter_log, "MERGE_INTERVAL", 10**6)
    replaced = len(files_of(log) - active_of(log))
    assert replaced > 5

    log.maintain()

    assert len(files_of(log) - active_of(log)) == max(replaced - deleted_max, 0)


def test_replaced_files_stay_for_readers_that_planned_before(log):
    before = files_of(log)

    assert log.clean(now_ms()) == 0
    assert files_of(log) == before


def leave(log, base_offset, *counts, name="a"):
    """Leave a file that no commit names, of batches with so many records each; return its name."""
    pieces = []
    for count in counts:
        record = ClusterRecord(cluster_id="cluster", cause="never committed")
        pieces.append((encode_file([record] * count, Stamp(time_ms=7), base_offset), ""))
        base_offset += count
    first = base_offset - sum(counts)
    content = pieces[0][0] if len(pieces) == 1 else merge_files(pieces)[0]
    path = f"{first:020}-{name * 32}.parquet"
    with open(f"{log.uri}/{path}", "wb") as file:
        file.write(content)
    return path


def append_one(log):
    end = log.read(from_offset=0)[-1].end_offset
    log.append([ClusterRecord(cluster_id="cluster")], Stamp(time_ms=7), expected_offset=end)


@pytest.mark.parametrize("count", [1, 5])
def test_an_append_s_file_goes_once_the_log_has_gone_past_its_place(log, count):
    """Its process died before the commit, or lost the race for it."""
    log.clean(FAR)
    name = leave(log, BEGINNING + 30, count)
    assert log.clean(FAR) == 0
    assert name in files_of(log)

    append_one(log)

    assert log.clean(FAR) == 1
    assert name not in files_of(log)


def test_a_merge_s_file_stays_while_what_it_was_merged_from_stands(log):
    """The merge may come back after any time, and commit it."""
    for _ in range(2):
        append_one(log)
    standing = log_files(log.voter_log._delta.active_files())
    assert [each.record_count for each in standing[-2:]] == [1, 1]
    under_way = leave(log, standing[-2].base_offset, 1, 1)
    done = leave(log, standing[0].base_offset, 1, 1, name="b")
    assert standing[0].record_count > 2

    log.clean(FAR)

    assert under_way in files_of(log)
    assert done not in files_of(log)


def test_a_file_without_a_name_in_the_table_that_can_not_be_read_stays(log):
    """Nobody can tell what it is."""
    name = f"{7:020}-{'a' * 32}.parquet"
    with open(f"{log.uri}/{name}", "wb") as file:
        file.write(b"staged")

    log.clean(FAR)

    assert name in files_of(log)


def test_what_a_damaged_file_was_merged_from_stays(log, caplog):
    before = files_of(log)
    for name in active_of(log):
        with open(f"{log.uri}/{name}", "r+b") as file:
            file.truncate(20)

    assert log.clean(FAR) == 0
    assert files_of(log) == before
    assert "was merged from stays" in caplog.text


def test_the_newest_snapshots_stay_and_older_ones_thin_out(log, tmp_path):
    record = ClusterRecord(cluster_id="cluster")
    for end in range(1, 31):
        log.write_snapshot([record], Stamp(time_ms=7), end)

    log.clean(now_ms())

    left = sorted(int(name.split("-")[0]) for name in os.listdir(tmp_path / "snapshots"))
    assert left == [1, 15, 23, 27, 28, 29, 30]
    assert log.newest_snapshot(to_offset=22).end_offset == 15


@pytest.mark.parametrize("end, epoch", [(10_000, 1), (25, 2)])
def test_a_snapshot_of_another_log_stays_and_decides_nothing(log, tmp_path, end, epoch):
    record = ClusterRecord(cluster_id="cluster")
    for each in (10, 20, 28, 29, 30):
        log.write_snapshot([record], Stamp(time_ms=7), each)
    other = OffsetAndEpoch(end, epoch)
    log.voter_log.write_snapshot([record], Stamp(time_ms=7), other)

    log.clean(now_ms())

    assert len(os.listdir(tmp_path / "snapshots")) == 6
    assert log.newest_snapshot(to_offset=27).end_offset == 20


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda log: log.read(from_offset=Offset(0)), id="read"),
        pytest.param(lambda log: list(log.batches_from(Offset(0))), id="batches-from"),
        pytest.param(lambda log: log.offset_at(0), id="offset-at"),
    ],
)
def test_a_reader_that_misses_a_file_reads_the_table_again(log, tmp_path, monkeypatch, read):
    expected = read(log)
    really, begun, missed = RootFiles.read, [], []
    merged = {f"{log.uri}/{each}" for each in active_of(log)}

    def late(files, path, bytes_max):
        if path in merged and not begun:
            begun.append(path)
            while log.voter_log.merge():
                pass
            log.clean(FAR)
        content = really(files, path, bytes_max)
        if path in merged and content is None:
            missed.append(path)
        return content

    other = DeltaMetadataLog(str(tmp_path), StorageOptions())
    other.voter_log.load()
    monkeypatch.setattr(merge_tiers, "FAN_IN", 2)
    monkeypatch.setattr(merge_tiers, "tier_of", lambda part: 0)
    monkeypatch.setattr(RootFiles, "read", late)

    assert read(other) == expected
    assert missed


# How much a voter holds
