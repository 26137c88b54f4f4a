"""Turns at a table: one process at a time where that is possible, and nobody waits for long."""

import multiprocessing
import os
import signal
import threading

import pytest

from kafka_on_spark.storage import turns
from kafka_on_spark.storage.turns import take_turn


def _die_with_the_turn(folder, has_it):
    with take_turn(folder) as has_turn:
        has_it.put(has_turn)
        has_it.close()
        has_it.join_thread()
        os.kill(os.getpid(), signal.SIGKILL)


def test_second_waits_until_the_first_has_done(tmp_path):
    done = []

    def second():
        with take_turn(str(tmp_path)) as has_turn:
            done.append(("second", has_turn))

    with take_turn(str(tmp_path)) as has_turn:
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.05)
        done.append(("first", has_turn))
    thread.join()

    assert done == [("first", True), ("second", True)]


def test_nobody_waits_for_ever_for_who_is_frozen(tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "WAIT_S", 0.01)

    with take_turn(str(tmp_path)) as first, take_turn(str(tmp_path)) as second:
        assert (first, second) == (True, False)


def test_one_waits_once_for_who_is_frozen_and_again_when_it_was_free(tmp_path, monkeypatch):
    """Or each commit of the others would be late for as long as one is frozen."""
    monkeypatch.setattr(turns, "WAIT_S", 0.01)
    waits = []
    look = turns._has_locked
    monkeypatch.setattr(
        turns,
        "_has_locked",
        lambda descriptor, wait_s: waits.append(wait_s) or look(descriptor, wait_s),
    )

    with take_turn(str(tmp_path)):
        for _ in range(3):
            with take_turn(str(tmp_path)) as has_turn:
                assert not has_turn
    for _ in range(2):
        with take_turn(str(tmp_path)) as has_turn:
            assert has_turn

    assert waits == [0.01, 0.01, 0.0, 0.0, 0.0, 0.01]


def test_turn_of_a_process_that_was_killed_is_free(tmp_path):
    context = multiprocessing.get_context("spawn")
    has_it = context.Queue()
    process = context.Process(target=_die_with_the_turn, args=(str(tmp_path), has_it))
    process.start()
    assert has_it.get(timeout=60)
    process.join(60)

    with take_turn(str(tmp_path)) as has_turn:
        assert has_turn
    assert process.exitcode == -9


@pytest.mark.parametrize("uri", ["s3://bucket/metadata", "/no/such/folder"])
def test_where_there_is_nothing_to_take_one_goes_on_without(uri):
    with take_turn(uri) as has_turn:
        assert not has_turn


def test_turn_leaves_nothing_behind(tmp_path):
    with take_turn(str(tmp_path)):
        pass

    assert list(tmp_path.iterdir()) == []
