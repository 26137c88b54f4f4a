"""Turns at a table: one process at a time where that is possible, and nobody waits for long."""

import multiprocessing
import os
import signal
import threading
import time

import pytest

from kafka_on_spark.ports import NO_TURN
from kafka_on_spark.storage import turns
from kafka_on_spark.storage.turns import take_turn


def _die_with_the_turn(folder, has_it):
    with take_turn(folder) as turn:
        has_it.put(turn.has_news)
        has_it.close()
        has_it.join_thread()
        os.kill(os.getpid(), signal.SIGKILL)


def test_second_waits_until_the_first_has_done(tmp_path):
    done = []

    def second():
        with take_turn(str(tmp_path)) as second_turn:
            done.append(("second", second_turn.has_news))

    with take_turn(str(tmp_path)) as turn:
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.05)
        done.append(("first", turn.has_news))
    thread.join()

    assert done == [("first", True), ("second", True)]


def test_nobody_waits_for_ever_for_who_is_frozen(tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "WAIT_S", 0.01)

    with take_turn(str(tmp_path)) as first, take_turn(str(tmp_path)) as second:
        assert (first.has_news, second) == (True, NO_TURN)


def test_one_waits_once_for_who_is_frozen_and_again_when_it_was_free(tmp_path, monkeypatch):
    """Or each commit of the others would be late for as long as one is frozen."""
    monkeypatch.setattr(turns, "WAIT_S", 0.01)
    waits = []
    wait = turns._has_waited

    def note(descriptor, mine):
        waits.append(descriptor)
        return wait(descriptor, mine)

    monkeypatch.setattr(turns, "_has_waited", note)

    with take_turn(str(tmp_path)):
        for _ in range(3):
            with take_turn(str(tmp_path)) as turn:
                assert turn is NO_TURN
        assert len(waits) == 1
    for _ in range(2):
        with take_turn(str(tmp_path)) as turn:
            assert turn.has_news
    with take_turn(str(tmp_path)), take_turn(str(tmp_path)):
        assert len(waits) == 2


def test_one_waits_on_while_somebody_writes_but_not_for_ever(tmp_path, monkeypatch):
    """Eight processes on a loaded machine wait longer than one commit takes."""
    monkeypatch.setattr(turns, "WAIT_S", 0.2)
    monkeypatch.setattr(turns, "WAITS_MAX", 4)
    start = time.monotonic()
    written = iter(range(10**6))

    def write_and_pause(seconds):
        (tmp_path / str(next(written))).touch()
        pause(seconds)

    pause = time.sleep
    monkeypatch.setattr(turns.time, "sleep", write_and_pause)
    with take_turn(str(tmp_path)), take_turn(str(tmp_path)) as turn:
        assert turn is NO_TURN

    assert time.monotonic() - start >= 4 * 0.2


def test_turn_of_a_process_that_was_killed_is_free(tmp_path):
    context = multiprocessing.get_context("spawn")
    has_it = context.Queue()
    process = context.Process(target=_die_with_the_turn, args=(str(tmp_path), has_it))
    process.start()
    assert has_it.get(timeout=60)
    process.join(60)

    with take_turn(str(tmp_path)) as turn:
        assert turn.has_news
    assert process.exitcode == -9


@pytest.mark.parametrize("uri", ["s3://bucket/metadata", "/no/such/folder"])
def test_where_there_is_nothing_to_take_one_goes_on_without(uri):
    with take_turn(uri) as turn:
        assert turn is NO_TURN


def test_turn_leaves_nothing_behind(tmp_path):
    with take_turn(str(tmp_path)):
        pass

    assert list(tmp_path.iterdir()) == []
