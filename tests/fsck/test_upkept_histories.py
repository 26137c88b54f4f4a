"""Healthy lives of merged and compacted logs: with checkpoints and without their oldest commits, and
on a replica that was made again from what was merged and compacted."""

import shutil

import pytest

from kafka_on_spark.store.delta import delta_log, log_cleaning
from kafka_on_spark.store.delta.log_cleaning import clean_log
from kafka_on_spark.store.roots import RootFiles, StorageOptions
from tests.cluster.disks import isr_of, new_disks
from tests.fsck.lives import TOPIC
from tests.fsck.upkept import PRICES, append_prices, live_with_upkeep


@pytest.fixture(scope="module")
def disks():
    with pytest.MonkeyPatch.context() as patched, new_disks() as disks:
        patched.setattr(delta_log, "CHECKPOINT_INTERVAL", 4)
        live_with_upkeep(disks)
        disks.cluster._node.maintenance.finish()
        yield disks


def folders(disks):
    return [disks.folder(each, topic) for each in (1, 2, 3) for topic in (TOPIC, PRICES)]


def check_clean(disks):
    report = disks.cluster.fsck()
    assert report.findings == ()
    assert report.not_checked == ()
    return report


def test_every_checkpoint_says_what_the_commits_say(disks):
    for folder in folders(disks):
        assert list((folder / "_delta_log").glob("*.checkpoint.parquet"))

    assert all(each.first_version == 0 for each in check_clean(disks).coverage)


def test_histories_that_begin_at_a_checkpoint_of_merged_and_compacted_logs(disks, monkeypatch):
    monkeypatch.setattr(log_cleaning, "COMMITS_KEPT", 0)
    monkeypatch.setattr(log_cleaning, "COMMITS_KEPT_MS", 0)
    monkeypatch.setattr(log_cleaning, "CHECKPOINTS_KEPT", 1)
    for folder in folders(disks):
        clean_log(RootFiles(str(folder), StorageOptions()), str(folder))

    report = check_clean(disks)

    assert all(each.first_version > 0 for each in report.coverage[1:])


def test_a_replica_that_is_made_again_holds_what_the_others_hold(disks):
    """It takes merged and compacted segments, whose batches its own history never had."""
    cluster, root = disks.cluster, disks.root(3)
    shutil.rmtree(root)
    root.mkdir()
    cluster.run_controller()
    cluster.register_broker(3, root)
    append_prices(cluster, "b7 -a", "e1")
    for _ in range(3):
        cluster.replicate(is_sweep=True)
        cluster.maintain()  # it joins once it is compacted as all others are

    check_clean(disks)
    assert isr_of(cluster, PRICES) == isr_of(cluster, TOPIC) == [1, 2, 3]
