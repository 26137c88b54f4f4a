"""Tables whose logs are cleaned: what is left of them, and whether they are whole."""

import shutil

import pytest
from deltalake import DeltaTable

from kafka_on_spark.store.delta import delta_log, log_cleaning
from kafka_on_spark.store.delta.delta_files import commit_version
from kafka_on_spark.store.delta.log_cleaning import clean_log
from kafka_on_spark.store.roots import RootFiles
from tests.store.tables import OPTIONS, create, damages_of, live, names_in_log, opened

COMMITS = 65


def shorten(monkeypatch, *, interval=10, kept=20):
    """Have checkpoints often and keep few commits, so that few commits get a log cleaned."""
    monkeypatch.setattr(delta_log, "CHECKPOINT_INTERVAL", interval)
    monkeypatch.setattr(log_cleaning, "COMMITS_KEPT", kept)
    monkeypatch.setattr(log_cleaning, "COMMITS_KEPT_MS", 0)


def live_once(folder, **intervals):
    """Return a table at version COMMITS, which tests get copies of: it takes a quarter of a second."""
    uri = str(folder / "table")
    with pytest.MonkeyPatch.context() as patched:
        shorten(patched, **intervals)
        live(create(uri), COMMITS)
    return uri


def copied(lived, uri):
    shutil.copytree(lived, uri)
    return opened(uri)


def commits_of(uri):
    return [each for each in map(commit_version, names_in_log(uri)) if each is not None]


def clean(uri):
    return clean_log(RootFiles(uri, OPTIONS), uri)


def check_whole(uri, version):
    """Check that a table opens at `version` and that an audit finds nothing, as delta-rs."""
    log = opened(uri)
    assert (log.version, log.counters()) == (version, {"count": version})
    assert DeltaTable(uri).version() == version
    assert damages_of(uri) == []
