"""The commit lock: one process at a time holds it where there are locks, and none waits for long."""

import fcntl
import multiprocessing
import os
import signal
import threading

import pytest

from kafka_on_spark.metadata import commit_lock
from kafka_on_spark.metadata.commit_lock import NO_LOCK, acquire_commit_lock


def _die_with_the_lock(folder, holds_it):
    with acquire_commit_lock(folder) as lock:
        holds_it.put(lock.needs_refresh)
        holds_it.close()
        holds_it.join_thread()
        os.kill(os.getpid(), signal.SIGKILL)


def test_no_process_waits_for_ever_for_a_frozen_one(tmp_path, monkeypatch):
    monkeypatch.setattr(commit_lock, "WAIT_S", 0.01)

    with acquire_commit_lock(str(tmp_path)) as first, acquire_commit_lock(str(tmp_path)) as second:
        assert (first.needs_refresh, second) == (True, NO_LOCK)


def test_a_process_waits_once_for_a_frozen_one_and_again_once_the_lock_was_free(
    tmp_path, monkeypatch
):
    """Otherwise each commit of the others would be late while one process is frozen."""
    monkeypatch.setattr(commit_lock, "WAIT_S", 0.01)
    waits = []
    wait = commit_lock._wait

    def note(descriptor, mine):
        waits.append(descriptor)
        return wait(descriptor, mine)

    monkeypatch.setattr(commit_lock, "_wait", note)

    with acquire_commit_lock(str(tmp_path)):
        for _ in range(3):
            with acquire_commit_lock(str(tmp_path)) as lock:
                assert lock is NO_LOCK
        assert len(waits) == 1
    for _ in range(2):
        with acquire_commit_lock(str(tmp_path)) as lock:
            assert lock.needs_refresh
    with acquire_commit_lock(str(tmp_path)), acquire_commit_lock(str(tmp_path)):
        assert len(waits) == 2


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    context = multiprocessing.get_context("spawn")
    holds_it = context.Queue()
    process = context.Process(target=_die_with_the_lock, args=(str(tmp_path), holds_it))
    process.start()
    assert holds_it.get(timeout=60)
    process.join(60)

    with acquire_commit_lock(str(tmp_path)) as lock:
        assert lock.needs_refresh
    assert process.exitcode == -9


@pytest.mark.parametrize("uri", ["s3://bucket/metadata", "/no/such/folder"])
def test_a_process_goes_on_without_a_lock_where_there_are_none(uri):
    with acquire_commit_lock(uri) as lock:
        assert lock is NO_LOCK


def test_no_process_waits_long_for_a_folder_that_does_not_open(tmp_path, monkeypatch):
    """The root hangs. Where another voter can lead, the time until it does has begun."""
    gate = threading.Event()

    class HangingSystem:
        def __getattr__(self, name):
            return getattr(os, name)

        def open(self, *arguments):
            gate.wait(30)
            return os.open(*arguments)

    monkeypatch.setattr(commit_lock, "HANG_SECONDS", 0.05)
    monkeypatch.setattr(commit_lock, "os", HangingSystem())

    with acquire_commit_lock(str(tmp_path)) as lock:
        assert lock == NO_LOCK
        assert not gate.is_set()
    gate.set()


def is_free(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def test_who_is_interrupted_while_it_waits_does_not_get_the_lock_later(tmp_path, monkeypatch):
    """In a notebook the process goes on for days."""
    waits, goes_on = threading.Event(), threading.Event()
    threads = []

    def wait(descriptor, mine):
        waits.set()
        goes_on.wait(60)
        return commit_lock._try_lock(descriptor)

    def interrupted(root, work, seconds):
        threads.append(threading.Thread(target=work))
        threads[0].start()
        assert waits.wait(60)
        raise KeyboardInterrupt

    with acquire_commit_lock(str(tmp_path)):
        monkeypatch.setattr(commit_lock, "_wait", wait)
        monkeypatch.setattr(commit_lock, "within", interrupted)
        with pytest.raises(KeyboardInterrupt), acquire_commit_lock(str(tmp_path)):
            pytest.fail("it has the lock")
    goes_on.set()
    threads[0].join()

    assert is_free(tmp_path)
