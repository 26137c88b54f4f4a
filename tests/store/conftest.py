"""Tables to fail on."""

import pytest

from kafka_on_spark.store.delta import delta_log
from tests.store import tables


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture
def uri(root):
    return str(root / "orders" / "0-uuid")


@pytest.fixture
def log(uri):
    tables.create(uri)
    log = tables.opened(uri)
    tables.commit(log, 0)
    log.refresh()
    return log


@pytest.fixture
def impatient(monkeypatch):
    """Give an unknown outcome a few tries, not a second."""
    monkeypatch.setattr(delta_log, "RESOLVE_SECONDS_LOCAL", 0.05)
