"""Tables without their old commits: strays, damaged checkpoints and hints, whole histories."""

import pytest

from kafka_on_spark.audit.history import TableCheckpoint, TableCommit
from kafka_on_spark.errors import CommitOutcomeUnknownError, CorruptLogError
from kafka_on_spark.metadata.records import ProducerRecord, Stamp
from kafka_on_spark.storage.delta.table_history import table_steps
from kafka_on_spark.storage.metadata.metadata_creation import create_metadata_log
from kafka_on_spark.storage.metadata.metadata_log import DeltaMetadataLog
from kafka_on_spark.storage.roots.roots import RootFiles
from tests.builders import BEGINNING
from tests.storage.damages import empty, halve, remove, zero
from tests.storage.delta.cleaning import (
    check_whole,
    checkpoints_of,
    clean,
    commits_of,
    copied,
    live_once,
)
from tests.storage.tables import OPTIONS, commit_file, create, damages_of, live, opened, put_stray

pytestmark = pytest.mark.usefixtures("short")


def checkpoint_file(uri, version):
    return commit_file(uri, version).with_suffix(".checkpoint.parquet")


def hint_file(uri):
    return commit_file(uri, 0).with_name("_last_checkpoint")


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    return live_once(tmp_path_factory.mktemp("lived"))


@pytest.fixture
def cleaned(lived, uri, root):
    """Return a table at version 65: commits from 40 on, checkpoints at 40, 50 and 60."""
    return copied(lived, uri)


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


DAMAGED = [empty, halve, zero, remove]
VERSIONS = [(60,), (50, 60), (40, 60), (40, 50)]


@pytest.mark.parametrize(
    "versions, damage",
    [
        # Each damage and each set of versions once, and in a long run each pair.
        pytest.param(versions, damage, marks=[pytest.mark.long] * (i != k))
        for i, versions in enumerate(VERSIONS)
        for k, damage in enumerate(DAMAGED)
    ],
)
def test_two_checkpoints_may_be_damaged(cleaned, uri, damage, versions):
    assert checkpoints_of(uri) == [40, 50, 60]
    for version in versions:
        damage(checkpoint_file(uri, version))

    log = opened(uri)
    assert (log.version, log.counters()) == (65, {"count": 65})

    live(log, 30)
    check_whole(uri, 95)


@pytest.mark.parametrize("damage", DAMAGED)
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


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_table_lives_on_with_a_damaged_checkpoint_that_no_process_has_opened(
    cleaned, uri, damage
):
    damage(checkpoint_file(uri, 60))

    live(cleaned, 30)

    check_whole(uri, 95)


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


DECIDED = 34
"""So many more get the table's first commits cleaned."""


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
    decide(log, DECIDED)
    assert not commit_file(log.uri, 7).exists()
    if has_stray:
        put_stray(log.uri, 7)

    assert follower.read(from_offset=BEGINNING + 3) == log.read(from_offset=BEGINNING + 3)
    assert len(DeltaMetadataLog(root, OPTIONS).read(from_offset=BEGINNING)) == 3 + DECIDED
