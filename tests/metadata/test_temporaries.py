"""What killed processes leave unfinished is removed when it is a day old, and nothing else."""

import os
import time
from uuid import uuid4

import pytest

from kafka_on_spark.metadata import temporaries
from kafka_on_spark.metadata.commit_lock import QUEUED
from kafka_on_spark.metadata.temporaries import (
    AGE_SECONDS_MIN,
    clean_broker_root,
    clean_metadata_root,
    clean_table,
)
from tests.cluster.disks import new_disks
from tests.store.tables import OPTIONS


def put(path, age_seconds=AGE_SECONDS_MIN + 60):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"half")
    then = time.time() - age_seconds
    os.utime(path, (then, then))
    return path


def names():
    """Return names of files that were never finished: ours, those of delta-rs, and of probes."""
    version = uuid4().int % 10**9
    return [
        f"_{uuid4().hex}.tmp",
        f"{version:020d}.json#1",
        f"{version:020d}.checkpoint.parquet#2",
        f"_last_checkpoint#{version}",
        f"_probe-{uuid4().hex}",
    ]


OTHERS = ["notes.txt", "_mine.tmp", f"{7:020d}.json", "0-ab-cd.parquet", "meta.properties", "_last"]


def test_old_unfinished_files_are_removed_and_others_stay(tmp_path):
    table = tmp_path / "t-1" / "0-2"
    places = (tmp_path, table, table / "_delta_log")
    for place in places:
        old = [put(place / name) for name in names()]
        young = [put(place / name, age_seconds=AGE_SECONDS_MIN - 60) for name in names()]
        others = [put(place / name) for name in OTHERS]

        cleaned = [
            clean_broker_root(str(tmp_path), OPTIONS),
            clean_table(str(tmp_path), str(table), OPTIONS),
        ]
        assert sum(cleaned) == len(old)

        assert not any(path.exists() for path in old)
        assert all(path.exists() for path in (*young, *others))


def test_an_old_table_of_a_test_of_the_root_is_removed(tmp_path):
    old, young = (tmp_path / f"_race-{uuid4().hex}" for _ in range(2))
    put(old / "_delta_log" / f"{0:020d}.json")
    put(young / "_delta_log" / f"{0:020d}.json", age_seconds=60)

    assert clean_broker_root(str(tmp_path), OPTIONS) == 1

    assert not old.exists()
    assert young.exists()


@pytest.mark.parametrize("ahead", ["process", "root"])
def test_one_clock_that_is_ahead_has_nothing_young_go(tmp_path, monkeypatch, ahead):
    young = put(tmp_path / names()[0], age_seconds=60)
    week_ms = 7 * 24 * 3600 * 1000
    if ahead == "process":
        now_ms = time.time_ns() // 1_000_000 + week_ms
        monkeypatch.setattr(temporaries.time, "time_ns", lambda: now_ms * 1_000_000)
    else:
        now_ms_at = temporaries.now_ms_at
        monkeypatch.setattr(temporaries, "now_ms_at", lambda *where: now_ms_at(*where) + week_ms)

    assert clean_broker_root(str(tmp_path), OPTIONS) == 0

    assert young.exists()


def test_a_folder_and_a_link_of_such_a_name_stay(tmp_path):
    target = put(tmp_path / "target")
    link, folder = (tmp_path / f"_{uuid4().hex}.tmp" for _ in range(2))
    link.symlink_to(target)
    folder.mkdir()
    then = time.time() - 2 * AGE_SECONDS_MIN
    os.utime(folder, (then, then))

    assert clean_broker_root(str(tmp_path), OPTIONS) == 0
    assert clean_table(str(tmp_path), str(tmp_path / "gone"), OPTIONS) == 0

    assert link.is_symlink()
    assert folder.is_dir()


def test_notes_of_those_that_died_before_they_had_written_them_are_removed(tmp_path):
    table = tmp_path / "table"
    note = put(table / QUEUED / uuid4().hex)
    snapshot = put(tmp_path / "snapshots" / f"_{uuid4().hex}.tmp")

    assert clean_metadata_root(str(tmp_path), str(table), OPTIONS) == 2

    assert not note.exists()
    assert not snapshot.exists()


def test_upkeep_cleans_the_roots_of_brokers_and_the_metadata_root():
    with new_disks(brokers=1) as disks:
        disks.cluster.create_topic("t", replication_factor=1)
        disks.cluster.append("t", [{"value": b"1"}])
        left = [
            put(disks.folder(1, "t") / f"_{uuid4().hex}.tmp"),
            put(disks.folder(1, "t") / "_delta_log" / f"_{uuid4().hex}.tmp"),
            put(disks.root(1) / f"_probe-{uuid4().hex}"),
            put(disks.metadata_root / "snapshots" / f"_{uuid4().hex}.tmp"),
        ]
        with disks.open() as cluster:
            cluster.maintain()

        assert not any(path.exists() for path in left)
