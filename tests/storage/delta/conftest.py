"""Each table that a test of this folder leaves behind is opened by delta-rs, too."""

import pytest

from kafka_on_spark.storage.delta import conditional_commit, log_cleaning
from tests.storage.tables import check_with_delta_rs


@pytest.fixture(autouse=True)
def delta_rs_agrees(tmp_path):
    """Check what a test leaves behind, once its faults are gone."""
    yield
    for folder in tmp_path.glob("**/_delta_log"):
        if folder.is_dir():
            check_with_delta_rs(str(folder.parent))


@pytest.fixture
def short(monkeypatch):
    """Have checkpoints often and keep few commits, so that few commits get a log cleaned."""
    monkeypatch.setattr(conditional_commit, "CHECKPOINT_INTERVAL", 10)
    monkeypatch.setattr(log_cleaning, "COMMITS_KEPT", 20)
