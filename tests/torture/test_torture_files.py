"""Faults of single files, forgeries and false verdicts: what is done, and that it is undone."""

import os
import shutil
import subprocess
import sys
import threading
import time

import pytest

from tests.cluster.disks import new_disks, partition_of, records, values_of
from tests.torture.harness.checks.anomalies import Anomaly
from tests.torture.harness.checks.verdicts import false_verdicts
from tests.torture.harness.checks.wholeness import acknowledged_since, open_again
from tests.torture.harness.faults.files import (
    forbid,
    newest,
    obey_permissions,
    put_pipe,
    put_pipe_ahead,
)
from tests.torture.harness.faults.forging import FORGERIES, places_on
from tests.torture.harness.history import APPEND, OK, HistoryWriter

COMMIT = f"{7:020d}.json"


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "disk" / "root"
    (made / "_delta_log").mkdir(parents=True)
    (made / "file").write_text("mine")
    (made / "_delta_log" / COMMIT).write_text("7")
    return made


def names(folder):
    return sorted(each.name for each in folder.iterdir())


def test_a_pipe_in_a_files_place_goes_and_its_waiters_go_on(root):
    undo = put_pipe(root / "file", root)
    was_pipe = (root / "file").is_fifo()
    waiting = threading.Thread(target=(root / "file").read_bytes, daemon=True)
    waiting.start()
    undo()
    waiting.join(20)

    assert was_pipe
    assert not waiting.is_alive()
    assert (root / "file").read_text() == "mine"
    assert names(root.parent) == ["root"]


def test_a_file_that_was_written_again_over_a_pipe_stays(root):
    undo = put_pipe(root / "file", root)
    (root / "new").write_text("new")
    (root / "new").rename(root / "file")
    undo()

    assert (root / "file").read_text() == "new"


def test_a_folder_that_was_deleted_with_a_pipe_in_it_stays_away(root):
    undo = put_pipe(root / "file", root)
    shutil.rmtree(root)
    undo()

    assert not root.exists()


def test_a_file_that_is_gone_gets_no_pipe(root):
    with pytest.raises(FileNotFoundError):
        put_pipe(root / "gone", root)

    assert names(root) == ["_delta_log", "file"]
    assert names(root.parent) == ["root"]


def test_a_pipe_for_the_next_commit_takes_no_commits_place(root):
    log = root / "_delta_log"

    undo = put_pipe_ahead(log, root)
    [pipe] = [each for each in log.iterdir() if each.is_fifo()]
    undo()

    assert pipe.name == f"{8:020d}.json"
    assert names(log) == [COMMIT]
    assert names(root.parent) == ["root"]


def test_a_commit_that_stands_in_a_pipes_place_is_left_alone(root):
    log = root / "_delta_log"
    undo = put_pipe_ahead(log, root)
    pipe = log / f"{8:020d}.json"
    pipe.unlink()
    pipe.write_text("8")

    undo()

    assert pipe.read_text() == "8"


def test_a_table_that_is_gone_gets_no_pipe(root):
    assert put_pipe_ahead(root / "gone", root) is None


def test_a_forbidden_file_can_be_read_again_under_another_name(root):
    allow = forbid(root / "file")
    (root / "file").rename(root / "other")
    mode = (root / "other").stat().st_mode & 0o777
    allow()

    assert mode == 0
    assert (root / "other").stat().st_mode & 0o777 != 0
    assert (root / "other").read_text() == "mine"


def test_processes_that_are_started_obey_permissions_also_where_root_starts_them(root):
    allow = forbid(root / "file")
    tell = "import sys; open(sys.argv[1])"
    script = (
        "import subprocess, sys\nfrom tests.torture.harness.faults.files import obey_permissions\n"
        "reason = obey_permissions()\nif reason: sys.exit(reason)\n"
        f"sys.exit(subprocess.run([sys.executable, '-c', {tell!r}, sys.argv[1]]).returncode)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(root / "file")],
        capture_output=True,
        text=True,
        check=False,
    )
    allow()

    if os.geteuid() == 0 and "can't give up" in done.stderr:
        pytest.skip(done.stderr)
    assert "PermissionError" in done.stderr


def test_a_user_other_than_root_has_no_power_to_give_up(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    assert obey_permissions() is None


def test_the_newest_file_is_the_one_that_was_written_last(root):
    for at, name in enumerate("abc"):
        (root / f"{name}.parquet").touch()
        os.utime(root / f"{name}.parquet", ns=(0, -at + 10))

    assert newest(root, "*.parquet") == root / "a.parquet"
    assert newest(root, "*.none") is None


def test_a_replica_that_was_found_bad_for_a_passing_error_is_an_anomaly():
    before = {("orders/0", 3, "broker 1: replica is bad: lost")}
    new = ("orders/1", 9, "broker 2: replica is bad: x")

    assert false_verdicts(before, before) == []
    assert false_verdicts(before, before | {new}) == [
        Anomaly(
            "false-verdict", "orders/1", f"errors passed, and an intact replica was lost: {new[2]}"
        )
    ]


def test_only_appends_that_were_begun_since_count_as_answered(tmp_path):
    writer = HistoryWriter(tmp_path, "a.1")

    def begin(key):
        return writer.invoke(
            APPEND, parts={key: [key]}, acks="all", producer_id=None, sequence=None
        )

    before = begin("orders/0")
    since_ns = time.monotonic_ns()
    after = begin("orders/1")
    for call, key in ((before, "orders/0"), (after, "orders/1")):
        writer.complete(call, APPEND, OK, bases={key: 0})

    times = acknowledged_since(tmp_path, ["a"], since_ns)

    assert [key for key, at_ns in times.items() if at_ns is not None] == ["orders/1"]
    assert set(times) == {"orders/0", "orders/1", "payments/0", "payments/1"}


@pytest.mark.parametrize("kind", FORGERIES)
def test_a_forged_replica_is_found_by_a_newly_opened_cluster_and_created_again(kind):
    values = [b"a", b"b", b"c"]
    with new_disks(configs={"min.insync.replicas": "2"}) as disks:
        disks.cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
        for value in values:
            disks.cluster.append("orders", records(value))
        [place] = places_on(disks.cluster.image, 1)

        is_done = FORGERIES[kind](place)
        open_again(str(disks.metadata_root), "orders", 0)
        for _ in range(3):
            disks.cluster.run_controller()
            disks.cluster.replicate()

        assert is_done
        assert not place.is_in(disks.cluster.image)
        assert sorted(partition_of(disks.cluster, "orders").isr) == [1, 2, 3]
        assert values_of(disks.cluster, "orders") == values
        assert disks.values_on(1, "orders") == values
        assert disks.cluster.fsck().findings == ()
