"""The oldest records of the metadata log go, if a setting says so; who asks for them is told."""

import os

import pytest

from kafka_on_spark.base.errors import HistoryExpiredError, InvalidRequestError, KafkaStorageError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.metadata.cluster_roots import DeltaMetadataLog, create_metadata_log
from kafka_on_spark.metadata.metadata_files import decode_rows
from kafka_on_spark.metadata.metadata_files import log_files as log_files_of
from kafka_on_spark.metadata.quorum import voter_log, voter_tables
from kafka_on_spark.metadata.quorum.forcing import standing
from kafka_on_spark.metadata.quorum.quorum_log import newest_snapshot
from kafka_on_spark.metadata.quorum.voter_log import VoterLog, files_to_expire
from kafka_on_spark.metadata.quorum.voter_tables import VoterTables, follow
from kafka_on_spark.metadata.records import ClusterRecord, ExpiredRecord, Stamp
from kafka_on_spark.store.root_urls import BETWEEN
from kafka_on_spark.store.roots import StorageOptions
from tests.builders import BEGINNING
from tests.metadata.tables.test_metadata_merge import log_files

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


def damage(tmp_path, end):
    [path] = (tmp_path / "snapshots").glob(f"{end:020d}-*")
    path.write_bytes(b"damaged")


def starts_with_any_of_three(log, tmp_path):
    """Return whether a process starts with the oldest of the newest three snapshots alone."""
    write_snapshots(log, 32, 62, 92)
    log.voter_log.expire(FAR)
    for end in (62, 92):
        damage(tmp_path, end)
    return is_opened(str(tmp_path))


def starts_though_one_was_damaged(log, tmp_path):
    """Return whether a process starts with a damaged snapshot, the others being lost later on."""
    write_snapshots(log, 32, 62, 92)
    damage(tmp_path, 32)
    log.voter_log.expire(FAR)
    for end in (62, 92):
        damage(tmp_path, end)
    return is_opened(str(tmp_path))


def starts_with_two(log, tmp_path):
    """Return whether a process starts where two snapshots were there, and both are damaged."""
    write_snapshots(log, 32, 62)
    log.voter_log.expire(FAR)
    for end in (32, 62):
        damage(tmp_path, end)
    return is_opened(str(tmp_path))


def starts_with_a_voter_that_was_away(log, tmp_path):
    """Return whether a process starts with a voter alone that was brought up after all."""
    roots, log = with_one_away(tmp_path / "three")
    bring_up(log)
    return is_opened(roots[2])


def is_opened(root):
    """Return whether a process that has this root alone gets all that the log says."""
    log = DeltaMetadataLog(root, OPTIONS).voter_log
    table = log.load()
    snapshot = newest_snapshot(table.log, [(log, log.snapshots())], table.log.end_offset)
    start = Offset(0) if snapshot is None else snapshot.end_offset
    try:
        return log.read(from_offset=start, to_offset=table.log.end_offset)[-1].end_offset >= END
    except HistoryExpiredError:
        return False


def newest_snapshots_are_enough(patch):
    kept = files_to_expire
    patch.setattr(
        voter_log,
        "files_to_expire",
        lambda files, start, end, before_ms: kept(files, start, 92, before_ms),
    )


def fewer_snapshots_are_enough(patch):
    """Two will do."""
    patch.setattr(voter_log, "SNAPSHOTS_KEPT", 2)


def snapshots_are_not_read(patch):
    patch.setattr(VoterLog, "_is_sound", lambda self, end: True)


def rows_are_copied_without_a_snapshot(patch):
    """A voter gets the places of what is gone, and nothing in its stead."""
    patch.setattr(VoterLog, "_take_snapshot", lambda self, source: None)


# fmt: off
MUTANTS = {
    newest_snapshots_are_enough:        starts_with_any_of_three,
    fewer_snapshots_are_enough:         starts_with_two,
    snapshots_are_not_read:             starts_though_one_was_damaged,
    rows_are_copied_without_a_snapshot: starts_with_a_voter_that_was_away,
}
# fmt: on


@pytest.mark.parametrize("holds", MUTANTS.values(), ids=lambda each: each.__name__)
def test_nothing_goes_that_a_process_may_need_to_start(log, tmp_path, holds):
    assert holds(log, tmp_path)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_rule_of_expiry_that_is_left_out_is_seen(log, tmp_path, mutant, monkeypatch):
    mutant(monkeypatch)

    assert not MUTANTS[mutant](log, tmp_path), mutant.__doc__


def with_one_away(folder):
    """Return three roots and their log; the third was away while the history began to expire."""
    folder.mkdir(exist_ok=True)
    roots = [str(folder / f"{number}") for number in range(3)]
    log = create_metadata_log(BETWEEN.join(roots), OPTIONS, "cluster")
    os.rename(roots[2], folder / "away")
    append(log, 40)
    write_snapshots(log, 32, 62, 92)
    log.expire(FAR)
    os.rename(folder / "away", roots[2])
    return roots, DeltaMetadataLog(BETWEEN.join(roots), OPTIONS)


def bring_up(log):
    log.read(from_offset=Offset(92))
    follow(log.tables, log.tables.load(log.confirmed.key), log.tables.voters.keys[2])


def test_voter_that_was_away_gets_a_snapshot_with_the_places_of_what_is_gone(tmp_path):
    """It may be left alone then, and opened."""
    roots, log = with_one_away(tmp_path)

    bring_up(log)

    voters = [DeltaMetadataLog(each, OPTIONS).voter_log for each in roots]
    assert voters[2].load().log.end_offset == voters[0].load().log.end_offset
    assert gone(voters[0]) == 32
    assert gone(voters[2]) == 31  # it had the first one
    with pytest.raises(HistoryExpiredError):
        voters[2].read(from_offset=Offset(0), to_offset=Offset(5))
    assert [each.offset for each in voters[2].snapshots()] == [92]


def test_voter_that_is_half_brought_up_is_not_forced_to_go_on_and_the_others_may(
    tmp_path, monkeypatch
):
    """It has neither the first records nor a snapshot of what it has."""
    _, log = with_one_away(tmp_path)
    monkeypatch.setattr(voter_tables, "FETCH_RECORDS_MAX", 50)
    commit, done = VoterTables.commit, []

    def commit_twice(*arguments):
        done.append(arguments)
        if len(done) > 2:
            raise KafkaStorageError("the disk is gone")
        return commit(*arguments)

    monkeypatch.setattr(VoterTables, "commit", commit_twice)
    with pytest.raises(KafkaStorageError, match="the disk is gone"):
        bring_up(log)
    first, *_, third = log.tables.voters.voters
    assert 32 < log.tables.load(third.key).log.end_offset < 92

    with pytest.raises(InvalidRequestError, match="force another voter"):
        standing(log.tables, third)
    assert standing(log.tables, first).image.offset == END
