"""What who opens a cluster waits for: a root that is away, and not one that has no cluster."""

import pytest

from kafka_on_spark.base.errors import (
    ClusterNotFoundError,
    CorruptLogError,
    KafkaStorageError,
    RootAccessDeniedError,
)
from kafka_on_spark.node import opening
from kafka_on_spark.node.opening import Awaits, is_awaited, open_metadata
from kafka_on_spark.store.deadlines import SystemClock
from kafka_on_spark.store.storage_options import StorageOptions


@pytest.mark.parametrize(
    "error, root, awaits, is_waited_for",
    [
        (KafkaStorageError("EIO"), "there", Awaits.ROOT, True),
        (RootAccessDeniedError("EACCES"), "there", Awaits.CLUSTER, False),
        (CorruptLogError("damage"), "there", Awaits.CLUSTER, False),
        (ClusterNotFoundError("none"), "there", Awaits.ROOT, False),
        (ClusterNotFoundError("none"), "there", Awaits.CLUSTER, True),
        (ClusterNotFoundError("none"), "away", Awaits.ROOT, True),
    ],
)
def test_an_opening_waits_for_a_root_that_is_away(tmp_path, error, root, awaits, is_waited_for):
    (tmp_path / "there").mkdir()

    assert is_awaited(error, str(tmp_path / root), awaits) is is_waited_for


def test_a_folder_that_never_was_a_cluster_is_refused_at_once(tmp_path):
    with pytest.raises(ClusterNotFoundError, match="there is no cluster at"):
        open_metadata(str(tmp_path), StorageOptions(), awaits=Awaits.ROOT)


def test_a_wait_for_a_root_is_logged_and_ends_when_the_root_is_there(tmp_path, caplog, monkeypatch):
    root = tmp_path / "root"

    class Clock(SystemClock):
        def sleep_ms(self, duration_ms):
            root.mkdir()

    monkeypatch.setattr(opening, "SystemClock", Clock)

    with pytest.raises(ClusterNotFoundError):
        open_metadata(str(root), StorageOptions(), awaits=Awaits.ROOT)

    assert root.is_dir()
    assert "waits for the metadata root (300000 ms at most)" in caplog.text
