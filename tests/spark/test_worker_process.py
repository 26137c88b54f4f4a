"""When a Python worker of Spark's freezes what it has imported."""

import gc

import pytest

from kafka_on_spark.spark import executors
from kafka_on_spark.spark.executors import FREEZES_MAX, freeze_gc


@pytest.fixture
def freezes(monkeypatch):
    """Count what is frozen, in a process that behaves as a new worker of Spark's daemon.

    What the tests' own process has imported is frozen meanwhile: a collection takes long there.
    """
    gc.freeze()
    freezes = []
    monkeypatch.setattr(executors, "_freezes", executors._Freezes())
    monkeypatch.setattr(executors, "_is_of_daemon", lambda: True)
    monkeypatch.setattr(gc, "freeze", lambda: freezes.append(1))
    yield freezes
    gc.unfreeze()


def run_task():
    """Do as Spark's daemon does: a task's work, and a collection after it."""
    freeze_gc()
    gc.collect()


def test_a_process_freezes_so_often_and_no_more(freezes):
    for _ in range(3 * FREEZES_MAX):
        run_task()

    assert len(freezes) == FREEZES_MAX


def test_another_process_is_left_alone(freezes, monkeypatch):
    monkeypatch.undo()
    before = gc.get_freeze_count()

    for _ in range(3):
        run_task()

    assert gc.get_freeze_count() <= before  # what was frozen before may go meanwhile
