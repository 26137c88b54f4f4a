"""Tables on a disk and on a store, with checkpoints often and few commits kept."""

from itertools import count

import pytest

from kafka_on_spark.storage.delta import (
    commit_outcomes,
    conditional_commit,
    log_cleaning,
)
from kafka_on_spark.storage.roots.roots import StorageOptions
from tests.storage.places import COMMITS, INTERVAL, KEPT, Place, copy_to
from tests.storage.s3.faulty_s3 import BUCKET, faulty_s3
from tests.storage.tables import (
    commit,
    create,
    live,
)

NUMBERS = count()


@pytest.fixture(scope="module")
def store():
    with faulty_s3() as store:
        yield store


@pytest.fixture(params=["disk", "S3"])
def place(request, tmp_path, store):
    if request.param == "disk":
        (tmp_path / "root").mkdir()
        yield Place(str(tmp_path / "root" / "table"), StorageOptions(), None)
        return
    options = StorageOptions(store.options())
    place = Place(f"s3://{BUCKET}/broker/{next(NUMBERS)}", options, store)
    yield place
    store.recover()
    if place.names():
        copy_to(tmp_path / "copy" / "_delta_log", place)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Have checkpoints often, keep few commits, and give up soon."""
    monkeypatch.setattr(conditional_commit, "CHECKPOINT_INTERVAL", INTERVAL)
    monkeypatch.setattr(log_cleaning, "COMMITS_KEPT", KEPT)
    monkeypatch.setattr(commit_outcomes, "RESOLVE_SECONDS", 0.3)
    monkeypatch.setattr(commit_outcomes, "RESOLVE_SECONDS_LOCAL", 0.05)


@pytest.fixture
def log(place):
    """Return an open table at version 1."""
    create(place.uri, place.options)
    log = place.opened()
    commit(log, 0)
    return log


@pytest.fixture
def rival(log, place):
    return place.opened()


@pytest.fixture
def cleaned(log):
    """Return a table at version 10: commits from 6 on, checkpoints at 6, 8 and 10."""
    live(log, COMMITS)
    return log


@pytest.fixture
def uncleaned(log, monkeypatch):
    """Return a table of which much can be cleaned, and was not."""
    with monkeypatch.context() as kept:
        kept.setattr(log_cleaning, "COMMITS_KEPT", 10**6)
        live(log, COMMITS)
    return log
