"""The script of a standalone cluster: what it refuses, and whom it ends, without a JVM."""

import os
import signal
import subprocess
import sys

import pytest

from tests.rigs import standalone
from tests.rigs.standalone import MASTER, WORKER, StandaloneError, main, parse, running, start, stop


@pytest.fixture
def sleeper():
    """A process that nobody ends but the script; its command line has a master's name."""
    code = "import time; time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code, MASTER])
    yield process
    process.kill()
    process.wait()


def test_only_what_was_started_is_ended(tmp_path, sleeper):
    (tmp_path / "master.pid").write_text(f"{sleeper.pid} {MASTER}")
    (tmp_path / "worker-1.pid").write_text(f"{os.getpid()} {WORKER}")  # a number used again

    assert running(tmp_path) == [sleeper.pid]
    assert stop(tmp_path) == 1

    assert not os.path.exists(f"/proc/{sleeper.pid}")
    assert not tmp_path.exists()


def open_to_all(folder, elsewhere):
    folder.mkdir()
    folder.chmod(0o777)


def a_link(folder, elsewhere):
    folder.symlink_to(elsewhere)


def of_another_user(folder, elsewhere):
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)


@pytest.mark.parametrize("make", [open_to_all, a_link, of_another_user])
@pytest.mark.parametrize("verb", ["start", "stop"])
def test_what_a_folder_says_that_another_user_could_write_is_not_done(
    tmp_path, monkeypatch, capsys, sleeper, make, verb
):
    if make is of_another_user and os.getuid() != 0:
        pytest.skip("only root can give a folder to another user")
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    elsewhere.mkdir()
    make(folder, elsewhere)
    (folder / "master.pid").write_text(f"{sleeper.pid} {MASTER}")
    monkeypatch.setattr(standalone, "folder_of", lambda port: folder)
    monkeypatch.setattr(standalone, "_is_taken", lambda port: False)

    assert main([verb]) == 1

    assert "is not a folder that only you can write to" in capsys.readouterr().err
    assert sleeper.poll() is None
    assert (folder / "master.pid").exists()


@pytest.mark.parametrize("content", ["{pid} python", "{pid} ", "-1 " + MASTER, "0 " + MASTER, ""])
def test_a_file_that_names_no_process_of_a_cluster_ends_none(tmp_path, sleeper, content):
    (tmp_path / "master.pid").write_text(content.format(pid=sleeper.pid))

    assert stop(tmp_path) == 0

    assert sleeper.poll() is None


def test_a_second_start_is_refused(tmp_path, sleeper):
    (tmp_path / "master.pid").write_text(f"{sleeper.pid} {MASTER}")

    with pytest.raises(StandaloneError, match=r"runs already: `.* stop` ends it"):
        start(tmp_path, parse(["start"]))

    assert sleeper.poll() is None


def test_what_does_not_start_leaves_nothing_running(tmp_path, monkeypatch):
    program = tmp_path / "spark" / "bin" / "spark-class"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho $$ >> pids\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(standalone.pyspark, "__file__", str(tmp_path / "spark" / "__init__.py"))
    monkeypatch.setattr(standalone, "_is_taken", lambda port: False)
    folder = tmp_path / "folder"

    with pytest.raises(StandaloneError, match=r"the master did not start: see .*master\.log$"):
        start(folder, parse(["start"]))

    [pid] = (folder / "pids").read_text().split()  # and no worker was begun
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), signal.SIGTERM)
