"""Tables without their old commits: strays, damaged checkpoints and hints, whole histories."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from kafka_on_spark.base.errors import CommitOutcomeUnknownError
from kafka_on_spark.store.delta.delta_files import TableCheckpoint, TableCommit, hint_path
from kafka_on_spark.store.delta.table_history import table_steps
from kafka_on_spark.store.roots import RootFiles
from tests.store.damages import empty, halve
from tests.store.delta.cleaning import check_whole, copied, live_once
from tests.store.tables import OPTIONS, commit_file, create, damages_of, live, opened

pytestmark = pytest.mark.usefixtures("short")


def checkpoint_file(uri, version):
    return commit_file(uri, version).with_suffix(".checkpoint.parquet")


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    return live_once(tmp_path_factory.mktemp("lived"))


@pytest.fixture
def cleaned(lived, uri, root):
    """Return a table at version 65: commits from 40 on, checkpoints at 40, 50 and 60."""
    return copied(lived, uri)


# Commits of writers that were frozen


def test_a_table_is_not_created_again_in_the_place_of_its_cleaned_first_commit(cleaned, uri):
    with pytest.raises(CommitOutcomeUnknownError):
        create(uri)

    check_whole(uri, 65)
    live(cleaned, 10)
    assert not commit_file(uri, 0).exists()


# Checkpoints


@pytest.mark.parametrize("damage", [empty, halve])
def test_a_damaged_checkpoint_costs_nothing_until_it_is_cleaned(cleaned, uri, damage):
    damage(checkpoint_file(uri, 60))
    log = opened(uri)

    for version in range(66, 90):
        live(log, 1)
        assert opened(uri).counters() == {"count": version}
        assert [each.version for each in damages_of(uri)] == [60]
    live(log, 1)
    check_whole(uri, 90)


def test_an_audit_begins_at_the_first_checkpoint_that_can_be_read(cleaned, uri):
    halve(checkpoint_file(uri, 40))

    damage, first, *commits = table_steps(RootFiles(uri, OPTIONS), uri, has_all_checkpoints=False)

    assert (damage.version, damage.is_checkpoint) == (40, False)
    assert (type(first), first.version) == (TableCheckpoint, 50)
    assert [each.version for each in commits if isinstance(each, TableCommit)] == [*range(51, 66)]
    checkpoint_file(uri, 40).unlink()  # for what delta-rs is asked afterwards


def test_other_engines_open_a_table_without_the_damaged_checkpoint_and_its_hint(cleaned, uri):
    halve(checkpoint_file(uri, 60))
    with pytest.raises(Exception, match=r"(?i)parquet"):
        DeltaTable(uri)

    checkpoint_file(uri, 60).unlink()
    Path(hint_path(uri)).unlink()

    check_whole(uri, 65)
    live(opened(uri), 5)
    assert checkpoint_file(uri, 70).exists()
    check_whole(uri, 70)


# Readers of the whole history


LEAVES_A_GAP = pytest.mark.damaged("a commit is missing")


@pytest.mark.parametrize(
    "version",
    [41, 47, pytest.param(60, marks=LEAVES_A_GAP), pytest.param(64, marks=LEAVES_A_GAP)],
)
def test_an_audit_finds_a_commit_that_no_cleaner_took(cleaned, uri, version):
    commit_file(uri, version).unlink()

    assert [each.version for each in damages_of(uri)] == [version]
