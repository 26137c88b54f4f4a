"""The README's tour and the pages are true: their Python blocks run as they stand, one after the
other, a page in a folder of its own."""

import os

import pytest

from tests.pages import blocks, pages

pytestmark = pytest.mark.integration

WITH_PYTHON = [name for name in pages() if blocks(name, "python")]


def test_these_pages_have_python_that_runs():
    assert WITH_PYTHON == [
        "README.md",
        "docs/get-started.md",
        "docs/look-into-it.md",
        "docs/move-from-kafka.md",
    ]


@pytest.fixture
def run(spark, tmp_path, monkeypatch, capsys):
    """Runs a page; returns its names, and what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(name):
        names = {}
        for block in blocks(name, "python"):
            exec(compile(block, name, "exec"), names)
        return names, capsys.readouterr().out

    return run


def test_the_readmes_tour_runs(run):
    names, printed = run("README.md")

    assert "topic created by request" in printed
    assert "broker 1: caught up" in printed
    assert names["arrivals"].isStreaming
    names["cluster"].close()


def test_get_started_runs(run):
    _, printed = run("docs/get-started.md")

    assert "broker 1: caught up" in printed


def test_look_into_it_runs(run, tmp_path):
    names, printed = run("docs/look-into-it.md")

    assert "topic created by request" in printed
    assert "If broker 2 died now" in printed
    assert {"grid.png", "timeline.png", "cluster.html"} <= set(os.listdir(tmp_path / "look"))
    assert names["prefix"].collect().height == 2
    names["cluster"].close()


def test_moving_a_query_runs(run):
    run("docs/move-from-kafka.md")
