"""Cleaning: old commits go in order, and whatever stops a cleaner, the table opens and goes on."""

import os
import shutil
from contextlib import suppress
from itertools import combinations

import pytest
from deltalake import DeltaTable

from kafka_on_spark.audit.history import TableCheckpoint, TableCommit
from kafka_on_spark.errors import CommitOutcomeUnknownError, CorruptLogError
from kafka_on_spark.metadata.records import ProducerRecord, Stamp
from kafka_on_spark.storage.delta.files.delta_files import checkpoint_version, commit_version
from kafka_on_spark.storage.delta.log_cleaning import clean_log, first_kept
from kafka_on_spark.storage.delta.table_history import table_steps
from kafka_on_spark.storage.metadata.metadata_creation import create_metadata_log
from kafka_on_spark.storage.metadata.metadata_log import DeltaMetadataLog
from kafka_on_spark.storage.roots.roots import RootFiles
from tests.builders import BEGINNING
from tests.storage.damages import empty, halve, remove, zero
from tests.storage.tables import (
    OPTIONS,
    commit,
    commit_file,
    commit_times,
    create,
    damages_of,
    live,
    names_in_log,
    opened,
    put_stray,
)

pytestmark = pytest.mark.usefixtures("short")

COMMITS = 64


def commits_of(uri):
    return [each for each in map(commit_version, names_in_log(uri)) if each is not None]


def checkpoints_of(uri):
    return [each for each in map(checkpoint_version, names_in_log(uri)) if each is not None]


def checkpoint_file(uri, version):
    return commit_file(uri, version).with_suffix(".checkpoint.parquet")


def hint_file(uri):
    return commit_file(uri, 0).with_name("_last_checkpoint")


def clean(uri):
    return clean_log(RootFiles(uri, OPTIONS), uri)


def check_whole(uri, version):
    """Check that a table opens at `version` and that an audit finds nothing, as delta-rs."""
    log = opened(uri)
    assert (log.version, log.counters()) == (version, {"count": version})
    assert DeltaTable(uri).version() == version
    assert damages_of(uri) == []


@pytest.fixture
def uncleaned(log, uri, monkeypatch):
    """Return a table of which much can be cleaned, and was not."""
    with monkeypatch.context() as kept:
        kept.setattr("kafka_on_spark.storage.delta.log_cleaning.COMMITS_KEPT", 10**6)
        live(log, COMMITS)
    return log


@pytest.fixture
def cleaned(log):
    live(log, COMMITS)
    return log


# What may go


@pytest.mark.parametrize(
    "checkpoints, first",
    [
        ([], 0),
        ([5000], 0),
        ([4900, 5000], 0),
        ([4800, 4900, 5000], 4000),
        ([100, 4900, 5000], 100),
        ([100, 200, 4900, 5000], 200),
        ([3900, 4000, 5000], 3900),
        ([4000, 4100, 5000], 4000),
        ([800, 900, 1000], 0),
        ([801, 901, 1001], 1),
        (range(100, 5001, 100), 4000),
    ],
)
def test_commits_stay_above_a_thousand_below_the_newest_and_the_third_newest_checkpoint(
    checkpoints, first, monkeypatch
):
    monkeypatch.setattr("kafka_on_spark.storage.delta.log_cleaning.COMMITS_KEPT", 1000)

    assert first_kept(checkpoints) == first_kept(reversed(checkpoints)) == first


def test_checkpoints_stay_as_long_as_commits_so_that_the_table_opens_at_each(monkeypatch):
    monkeypatch.setattr("kafka_on_spark.storage.delta.log_cleaning.COMMITS_KEPT", 1000)
    checkpoints = range(100, 5001, 100)

    kept = [each for each in checkpoints if each >= first_kept(checkpoints)]

    assert kept == list(range(first_kept(checkpoints), 5001, 100))
    assert len(kept) == 11


def test_whichever_two_checkpoints_are_damaged_one_is_left_with_all_commits_after_it():
    versions = [5, 12, 20, 31, 40, 66]
    for count in range(len(versions) + 1):
        for checkpoints in combinations(versions, count):
            first = first_kept(checkpoints)
            left = [each for each in checkpoints if each >= first]
            assert first == 0 or len(left) >= 3


def test_the_log_stays_short(log, uri):
    live(log, 28)
    assert commits_of(uri) == list(range(30))

    live(log, 302)

    assert commits_of(uri) == list(range(310, 332))
    assert checkpoints_of(uri) == [310, 320, 330]
    check_whole(uri, 331)


def test_fewer_than_three_checkpoints_keep_all(log, uri):
    commit_times(log, 60)
    log.checkpoint_if_due()
    commit_times(log, 60)
    log.checkpoint_if_due()

    assert checkpoints_of(uri) == [61, 121]
    assert commits_of(uri) == list(range(122))
    assert clean(uri) == 0


def test_a_table_that_was_removed_is_not_made_again(log, uri):
    shutil.rmtree(uri)

    assert clean(uri) == 0
    assert not os.path.exists(uri)


# In which order


def test_commits_go_in_ascending_order_and_checkpoints_after_them(uncleaned, uri, monkeypatch):
    gone = []
    unlink = os.unlink

    def noting(path):
        gone.append(os.path.basename(path))
        unlink(path)

    monkeypatch.setattr(os, "unlink", noting)

    assert clean(uri) == 40

    assert gone == [
        *(f"{version:020d}.json" for version in range(40)),
        *(f"{version:020d}.checkpoint.parquet" for version in (10, 20, 30)),
    ]


@pytest.mark.parametrize("version", [0, 7, 39])
def test_a_cleaner_stops_at_the_first_commit_that_it_can_not_delete(
    uncleaned, uri, monkeypatch, caplog, version
):
    unlink = os.unlink

    def refuse(path):
        if path == str(commit_file(uri, version)):
            raise PermissionError(1, "no")
        unlink(path)

    with monkeypatch.context() as refusing:
        refusing.setattr(os, "unlink", refuse)
        live(uncleaned, 20)

    assert "commits of" in caplog.text
    assert commits_of(uri) == list(range(version, 86))
    check_whole(uri, 85)
    live(uncleaned, 10)
    assert commits_of(uri) == list(range(70, 96))


class DiedError(BaseException):
    """Ends a cleaner at once."""


def die_at(monkeypatch, number):
    """Let the process die before its `number`-th unlink, counted from 0."""
    unlink, calls = os.unlink, []

    def count(path):
        if len(calls) == number:
            raise DiedError
        calls.append(path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", count)


def test_a_cleaner_that_dies_at_any_file_leaves_a_table_that_opens(uncleaned, uri, monkeypatch):
    follower = opened(uri)
    for number in range(43):
        with monkeypatch.context() as dying:
            die_at(dying, 1)
            with suppress(DiedError):
                clean(uri)
        check_whole(uri, 65)
        assert commits_of(uri) == list(range(min(number + 1, 40), 66))
        assert follower.follow() == []

    assert clean(uri) == 0
    assert checkpoints_of(uri) == [40, 50, 60]


@pytest.mark.parametrize("number", range(0, 43, 6))
def test_two_cleaners_take_nothing_that_is_needed(uncleaned, uri, monkeypatch, number):
    """One sleeps before some file while the other cleans, and the table lives on."""
    unlink, calls = os.unlink, []
    other = opened(uri)

    def sleep(path):
        calls.append(path)
        if len(calls) == number + 1:
            assert clean(uri) == max(40 - number, 0)
            live(other, 60)
            put_stray(uri, 45)
        unlink(path)

    monkeypatch.setattr(os, "unlink", sleep)

    clean(uri)

    monkeypatch.undo()
    check_whole(uri, 125)
    commit(other, 125)
    assert uncleaned.refresh() == 126


# Commits of writers that were frozen


@pytest.mark.parametrize("version", [0, 1, 7, 39])
def test_a_stray_commit_hinders_nobody_and_the_next_cleaner_takes_it(cleaned, uri, version):
    stray = put_stray(uri, version)

    check_whole(uri, 65)
    assert cleaned.refresh() == 65
    live(cleaned, 10)

    assert not stray.exists()
    check_whole(uri, 75)


def test_a_stray_commit_right_below_the_kept_ones_hinders_nobody(cleaned, uri):
    assert commits_of(uri)[0] == 40
    for version in (38, 39):
        put_stray(uri, version)

    check_whole(uri, 65)


def test_a_table_is_not_created_again_in_the_place_of_its_cleaned_first_commit(cleaned, uri):
    with pytest.raises(CommitOutcomeUnknownError):
        create(uri)

    check_whole(uri, 65)
    live(cleaned, 10)
    assert not commit_file(uri, 0).exists()


# Checkpoints and hints


@pytest.mark.parametrize("damage", [empty, halve, zero, remove])
@pytest.mark.parametrize("versions", [(60,), (50, 60), (40, 60), (40, 50)])
def test_two_checkpoints_may_be_damaged(cleaned, uri, damage, versions):
    assert checkpoints_of(uri) == [40, 50, 60]
    for version in versions:
        damage(checkpoint_file(uri, version))

    log = opened(uri)
    assert (log.version, log.counters()) == (65, {"count": 65})

    live(log, 40)
    check_whole(uri, 105)


@pytest.mark.parametrize("damage", [empty, halve, zero, remove])
@pytest.mark.damaged("a commit is missing")
def test_without_a_checkpoint_that_can_be_read_nothing_is_believed_and_nothing_deleted(
    cleaned, uri, damage
):
    for version in (40, 50, 60):
        damage(checkpoint_file(uri, version))
    before = commits_of(uri)

    for _ in range(2):
        with pytest.raises(CorruptLogError, match="a commit is missing"):
            opened(uri)

    assert commits_of(uri) == before
    assert clean(uri) == 0


@pytest.mark.parametrize("damage", [empty, halve, zero, remove])
def test_a_table_lives_on_with_a_damaged_checkpoint_that_no_process_has_opened(
    cleaned, uri, damage
):
    damage(checkpoint_file(uri, 60))

    live(cleaned, 40)

    check_whole(uri, 105)


def test_a_checkpoint_without_bytes_is_none_of_those_that_are_kept(cleaned, uri):
    """Audits begin at the oldest of these."""
    empty(checkpoint_file(uri, 60))
    log = opened(uri)

    for version in range(66, 90):
        live(log, 1)
        assert 60 not in checkpoints_of(uri)
        check_whole(uri, version)


@pytest.mark.parametrize(
    "hint",
    [
        None,
        b"",
        b"garbage",
        b"[" * 100_000,
        b"{}",
        b'{"version":"60"}',
        b'{"version":-1,"size":3}',
        b'{"version":10,"size":3}',
        b'{"version":50,"size":3}',
        b'{"version":70,"size":3}',
        b'{"version":1000000,"size":3}',
        b'{"version":36893488147419103232,"size":3}',
    ],
)
def test_a_hint_that_misleads_does_no_harm(cleaned, uri, hint):
    hint_file(uri).unlink()
    if hint is not None:
        hint_file(uri).write_bytes(hint)

    log = opened(uri)
    assert (log.version, log.counters()) == (65, {"count": 65})

    live(log, 30)
    assert checkpoints_of(uri) == [70, 80, 90]
    check_whole(uri, 95)


# Readers of the whole history


def test_an_audit_begins_at_the_oldest_kept_checkpoint(cleaned, uri):
    steps = list(table_steps(RootFiles(uri, OPTIONS), uri, has_all_checkpoints=False))

    assert isinstance(steps[0], TableCheckpoint)
    assert steps[0].version == 40
    commits = [step.version for step in steps if isinstance(step, TableCommit)]
    assert commits == list(range(41, 66))


LEAVES_A_GAP = pytest.mark.damaged("a commit is missing")


@pytest.mark.parametrize(
    "version",
    [41, 47, pytest.param(60, marks=LEAVES_A_GAP), pytest.param(64, marks=LEAVES_A_GAP)],
)
def test_an_audit_finds_a_commit_that_no_cleaner_took(cleaned, uri, version):
    commit_file(uri, version).unlink()

    assert [each.version for each in damages_of(uri)] == [version]


def decide(log, count):
    end = log.read(from_offset=0)[-1].end_offset
    for number in range(count):
        records = [ProducerRecord(producer_id=f"p{end}", producer_epoch=number)]
        end = log.append(records, Stamp(time_ms=7), expected_offset=end).end_offset
        log.maintain()


@pytest.mark.parametrize("has_stray", [True, False])
def test_the_metadata_log_is_followed_over_cleaned_commits(tmp_path, has_stray):
    root = str(tmp_path / "metadata")
    log = create_metadata_log(root, OPTIONS, "a-cluster")
    follower = DeltaMetadataLog(root, OPTIONS)
    decide(log, 3)
    assert len(follower.read(from_offset=BEGINNING)) == 3
    decide(log, COMMITS)
    assert not commit_file(log.uri, 7).exists()
    if has_stray:
        put_stray(log.uri, 7)

    assert follower.read(from_offset=BEGINNING + 3) == log.read(from_offset=BEGINNING + 3)
    assert len(DeltaMetadataLog(root, OPTIONS).read(from_offset=BEGINNING)) == 3 + COMMITS
