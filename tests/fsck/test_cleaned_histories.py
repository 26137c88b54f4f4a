"""Tables whose oldest commits were cleaned: the audit begins at a checkpoint, and says at which."""

import shutil

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.store.delta import log_cleaning
from kafka_on_spark.store.delta.delta_files import checkpoint_version, commit_version
from kafka_on_spark.store.delta.log_cleaning import clean_log
from kafka_on_spark.store.delta.table_history import table_steps
from kafka_on_spark.store.roots import RootFiles, StorageOptions
from tests.fsck.plants import found

OPTIONS = StorageOptions()


@pytest.fixture
def few_kept(monkeypatch):
    """Have cleaners keep the newest checkpoint and what comes after it, and no more."""
    monkeypatch.setattr(log_cleaning, "COMMITS_KEPT", 0)
    monkeypatch.setattr(log_cleaning, "COMMITS_KEPT_MS", 0)
    monkeypatch.setattr(log_cleaning, "CHECKPOINTS_KEPT", 1)


@pytest.fixture
def cleaned(few_kept, follower):
    """Return a replica's table that begins at its checkpoint."""
    assert clean_log(RootFiles(str(follower.folder), OPTIONS), str(follower.folder)) > 3
    assert not follower.commit_file(0).exists()
    return follower


def checkpoint_of(plant):
    [path] = (plant.folder / "_delta_log").glob("*.checkpoint.parquet")
    return checkpoint_version(path.name)


def coverage_of(report, plant):
    [coverage] = [each for each in report.coverage if each.table.broker_id == plant.broker_id]
    return coverage.first_version, coverage.last_version


@pytest.mark.parametrize("strays", [[], [0], [3, 4], [0, 5]])
def test_a_history_is_checked_from_a_checkpoint_on_and_a_frozen_process_may_put_commits_below_it(
    life, cleaned, strays
):
    for version in strays:
        shutil.copy(cleaned.commit_file(cleaned.version), cleaned.commit_file(version))

    report = life.fsck()

    assert report.is_clean
    assert coverage_of(report, cleaned) == (checkpoint_of(cleaned), cleaned.version)


@pytest.mark.parametrize("is_stray_there", [False, True])
def test_a_commit_missing_above_what_is_cleaned_is_damage(life, cleaned, is_stray_there):
    if is_stray_there:
        shutil.copy(cleaned.commit_file(cleaned.version), cleaned.commit_file(3))
    version = checkpoint_of(cleaned) + 1
    assert version < cleaned.version
    cleaned.commit_file(version).unlink()

    finding = found(life.fsck(), "I15", cleaned, version=version)

    assert finding.sentence.endswith("is missing")


def test_a_checkpoint_whose_commit_is_missing_is_damage(life, cleaned):
    """Its writer had seen commits that the disk has lost: no process opens the table."""
    version = checkpoint_of(cleaned)
    cleaned.commit_file(version).unlink()

    finding = found(life.fsck(), "I15", cleaned, version=version)

    assert finding.sentence.endswith("is missing")


def test_commits_that_are_cleaned_while_they_are_read_are_no_damage(few_kept, follower):
    folder = str(follower.folder)
    files = RootFiles(folder, OPTIONS)
    steps = table_steps(files, folder, has_all_checkpoints=True)
    assert next(steps).version == commit_version(follower.commit_file(0).name)
    clean_log(files, folder)

    with pytest.raises(KafkaStorageError, match="try again"):
        next(steps)
