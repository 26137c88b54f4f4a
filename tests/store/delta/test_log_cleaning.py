"""Cleaning: old commits go in order, and whatever stops a cleaner, the table opens and goes on."""

import os

import pytest

from kafka_on_spark.store.delta.log_cleaning import first_kept
from tests.store.delta.cleaning import check_whole, clean, commits_of, copied, live_once
from tests.store.tables import commit_file

pytestmark = pytest.mark.usefixtures("short")


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    return live_once(tmp_path_factory.mktemp("lived"), kept=10**6)


@pytest.fixture
def uncleaned(lived, uri, root):
    """Return a table at version 65 of which much can be cleaned, and was not."""
    return copied(lived, uri)


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
    monkeypatch.setattr("kafka_on_spark.store.delta.log_cleaning.COMMITS_KEPT", 1000)

    assert first_kept(checkpoints) == first_kept(reversed(checkpoints)) == first


def test_commits_also_stay_for_two_minutes_by_the_times_of_the_root(uncleaned, uri, monkeypatch):
    """The root's clock was an hour ahead at first."""
    monkeypatch.setattr("kafka_on_spark.store.delta.log_cleaning.COMMITS_KEPT_MS", 120_000)
    monkeypatch.setattr("kafka_on_spark.store.delta.log_cleaning.CHECKPOINTS_KEPT", 1)
    monkeypatch.setattr("kafka_on_spark.store.delta.log_cleaning.COMMITS_KEPT", 5)
    assert clean(uri) == 0

    for version in range(66):
        at_s = 1_800_000_000 + 10 * version + 3600 * (version < 5)
        os.utime(commit_file(uri, version), (at_s, at_s))

    assert clean(uri) == 54
    assert commits_of(uri) == list(range(54, 66))
    check_whole(uri, 65)


# In which order
