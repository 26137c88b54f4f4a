"""When a process of Spark's leaves what it has imported out of its collections."""

import gc

import pytest

from kafka_on_spark.spark import worker_process
from kafka_on_spark.spark.worker_process import SETTLED_MAX, settle


@pytest.fixture
def freezes(monkeypatch):
    """Count what is frozen, in a process that takes itself for a new one of Spark's daemon."""
    freezes = []
    monkeypatch.setattr(worker_process, "_settling", worker_process._Settling())
    monkeypatch.setattr(worker_process, "_is_of_daemon", lambda: True)
    monkeypatch.setattr(gc, "freeze", lambda: freezes.append(1))
    return freezes


def run_task():
    """Do as Spark's daemon does: a task's work, and a collection after it."""
    settle()
    gc.collect()


def test_the_first_task_of_a_process_leaves_everything_to_be_collected(freezes):
    run_task()

    assert freezes == []


def test_the_task_after_a_collection_settles_once(freezes):
    run_task()

    settle()
    settle()

    assert freezes == [1]


def test_a_process_settles_so_often_and_no_more(freezes):
    for _ in range(3 * SETTLED_MAX):
        run_task()

    assert len(freezes) == SETTLED_MAX


def test_another_process_is_left_alone(freezes, monkeypatch):
    monkeypatch.undo()
    before = gc.get_freeze_count()

    for _ in range(3):
        run_task()

    assert gc.get_freeze_count() == before
