"""The oldest records of the metadata log go, if a setting says so; who asks for them is told."""

import os

import pytest

from kafka_on_spark.errors import HistoryExpiredError
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.records import ClusterRecord, ExpiredRecord, Stamp
from kafka_on_spark.service.quorum.following import follow
from kafka_on_spark.storage.metadata.metadata_creation import create_metadata_log
from kafka_on_spark.storage.metadata.metadata_files import decode_rows
from kafka_on_spark.storage.metadata.metadata_log import DeltaMetadataLog
from kafka_on_spark.storage.metadata.metadata_merge import files_to_expire
from kafka_on_spark.storage.metadata.metadata_placement import log_files as log_files_of
from kafka_on_spark.storage.roots.root_lists import BETWEEN
from kafka_on_spark.storage.roots.roots import StorageOptions
from tests.builders import BEGINNING
from tests.storage.metadata.test_metadata_merge import log_files

OPTIONS = StorageOptions()
FAR = 10**15
"""A time at which every record is old."""

END = BEGINNING + 120


def append(log, count, end=BEGINNING):
    """Append commits of three records each."""
    for _ in range(count):
        records = [ClusterRecord(cluster_id="cluster", cause=f"{end + each}") for each in range(3)]
        end = log.append(records, Stamp(time_ms=7), expected_offset=end).end_offset
    return end


def write_snapshots(log, *ends):
    for end in ends:
        log.write_snapshot([ClusterRecord(cluster_id="cluster")], Stamp(time_ms=7), Offset(end))


@pytest.fixture
def log(tmp_path):
    log = create_metadata_log(str(tmp_path), OPTIONS, "cluster")
    assert append(log, 40) == END
    return log


def gone(voter):
    """Return how many records of a voter's log are gone; every row is there."""
    kinds = [
        row["record_type"]
        for file in log_files_of(voter._delta.active_files())
        for rows in decode_rows(voter._files.read(f"{voter.uri}/{file.path}", 1 << 20), file.path)
        for row in rows
    ]
    assert len(kinds) == voter.load().log.end_offset
    return kinds.count(ExpiredRecord.__name__)


@pytest.mark.parametrize(
    "start, end, before_ms, expired",
    [
        pytest.param(0, 20, 1, slice(2), id="those that end before the snapshots"),
        pytest.param(0, 29, 1, slice(2), id="not one that goes beyond them"),
        pytest.param(0, 90, 0, slice(0), id="none that is not old"),
        pytest.param(10, 90, 1, slice(1, 9), id="none that is gone already"),
        pytest.param(15, 90, 1, slice(1, 9), id="one that is gone in part"),
    ],
)
def test_oldest_files_expire(start, end, before_ms, expired):
    files = log_files(*[10] * 9)

    assert files_to_expire(files, start, end, before_ms) == files[expired]


READS = [
    pytest.param(lambda log: log.read(from_offset=Offset(0)), id="read"),
    pytest.param(lambda log: log.read(from_offset=Offset(0), to_offset=Offset(5)), id="a part"),
    pytest.param(lambda log: list(log.batches_from(Offset(8))), id="batches"),
]


@pytest.mark.parametrize("read", READS)
def test_reader_of_what_is_gone_is_told_from_where_on_it_is_kept(log, read):
    later = log.read(from_offset=Offset(32))
    write_snapshots(log, 32, 62, 92)
    assert log.voter_log.expire(FAR)
    assert not log.voter_log.expire(FAR)

    with pytest.raises(HistoryExpiredError, match=r"before offset 32 .*metadata\.max\.retention"):
        read(log)
    assert log.read(from_offset=Offset(32)) == later
    assert gone(log.voter_log) == 32


def test_moments_of_what_is_gone_are_still_known(log):
    before = log.offset_at(7)
    write_snapshots(log, 32, 62, 92)
    log.voter_log.expire(FAR)

    assert log.offset_at(7) == before


def test_merges_go_on_over_what_is_gone(log, monkeypatch):
    monkeypatch.setattr("kafka_on_spark.storage.metadata.metadata_merge.MERGED_FILES_MIN", 4)
    later = log.read(from_offset=Offset(62))
    write_snapshots(log, 32, 62, 92)
    log.voter_log.expire(FAR)
    assert log.voter_log.merge()
    assert gone(log.voter_log) == 32
    assert log.read(from_offset=Offset(62)) == later

    append(log, 2, END)
    write_snapshots(log, END - 3, END, END + 3)
    assert log.voter_log.expire(FAR)

    assert gone(log.voter_log) == END - 3


def damage(tmp_path, end):
    [path] = (tmp_path / "snapshots").glob(f"{end:020d}-*")
    path.write_bytes(b"damaged")


@pytest.mark.parametrize("ends, damaged", [((32, 62), ()), ((32, 62, 92), (32,))])
def test_nothing_goes_that_a_process_may_need_to_start(log, tmp_path, ends, damaged):
    write_snapshots(log, *ends)
    for end in damaged:
        damage(tmp_path, end)

    assert not log.voter_log.expire(FAR)
    assert gone(log.voter_log) == 0


def test_process_starts_with_any_of_the_newest_three_snapshots(log, tmp_path):
    write_snapshots(log, 32, 62, 92)
    log.voter_log.expire(FAR)
    for end in (62, 92):
        damage(tmp_path, end)

    again = DeltaMetadataLog(str(tmp_path), OPTIONS)

    start = again.newest_snapshot().end_offset
    assert again.read(from_offset=start)[-1].end_offset == END


def test_voter_that_was_away_gets_a_snapshot_with_the_places_of_what_is_gone(tmp_path):
    """It may be left alone then, and opened."""
    roots = [str(tmp_path / f"{number}") for number in range(3)]
    log = create_metadata_log(BETWEEN.join(roots), OPTIONS, "cluster")
    os.rename(roots[2], tmp_path / "away")
    append(log, 40)
    write_snapshots(log, 32, 62, 92)
    log.expire(FAR)
    os.rename(tmp_path / "away", roots[2])

    again = DeltaMetadataLog(BETWEEN.join(roots), OPTIONS)
    again.read(from_offset=Offset(92))
    follow(again.tables, again.tables.load(again.leader), again.tables.voters.keys[2])

    voters = [DeltaMetadataLog(each, OPTIONS).voter_log for each in roots]
    assert voters[2].load().log.end_offset == voters[0].load().log.end_offset
    assert gone(voters[0]) == 32
    assert gone(voters[2]) == 31  # it had the first one
    with pytest.raises(HistoryExpiredError):
        voters[2].read(from_offset=Offset(0), to_offset=Offset(5))
    assert [each.offset for each in voters[2].snapshots()] == [92]
