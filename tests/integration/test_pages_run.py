"""The README's tour and the pages are true: their Python blocks run as they stand, one after the
other, a page in a folder of its own."""

import os

import pytest

from kafka_on_spark import Record
from kafka_on_spark.controller import probes
from tests.cluster.disks import JUDGED_MS_MAX
from tests.pages import blocks, pages

pytestmark = pytest.mark.integration

WITH_PYTHON = [name for name in pages() if blocks(name, "python")]


def test_these_pages_have_python_that_runs():
    assert WITH_PYTHON == [
        "README.md",
        "docs/consumer.md",
        "docs/get-started.md",
        "docs/look-into-it.md",
        "docs/move-from-kafka.md",
    ]


@pytest.fixture
def run(spark, tmp_path, monkeypatch, capsys):
    """Runs a page, and after each of its blocks what is given; returns the page's names, and what it
    printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probes, "UNJUDGED_MS_MIN", JUDGED_MS_MAX)

    def run(name, after_block=lambda names: None):
        names = {}
        for block in blocks(name, "python"):
            exec(compile(block, name, "exec"), names)
            after_block(names)
        return names, capsys.readouterr().out

    return run


def test_the_readmes_tour_runs(run):
    names, printed = run("README.md")

    assert "topic created by request" in printed
    assert "broker 1: caught up" in printed
    assert names["arrivals"].isStreaming
    names["cluster"].close()


@pytest.mark.long
def test_get_started_runs(run):
    _, printed = run("docs/get-started.md")

    assert "broker 1: caught up" in printed


@pytest.mark.long
def test_the_page_on_consumers_runs(run):
    names, printed = run("docs/consumer.md")

    assert printed.count("b'Aarhus'") == 2
    assert printed.count("b'Bergen'") == 2
    names["cluster"].close()


COLUMNS = ("partition", "offset", "key", "value")


class Queries:
    """Gives the page's topic so many appends that the page's own `maintain` merges their files, and
    keeps what each of its queries reads afterwards.
    """

    def __init__(self):
        self.found = {}

    def __call__(self, names):
        """Come after a block of the page."""
        if "history" not in names:  # the first block has made the cluster
            for number in range(45):
                row = Record(f"N{number}", '{"dest": "IAH"}', partition=0)
                names["cluster"].append("flights", [row])
        if "seen" in names and "view" not in self.found:
            self._keep("view", names["spark"].table("flights_now").select(*COLUMNS).collect())
        if "committed" in names and "spark" not in self.found:
            self._keep("spark", names["prefix"].select(*COLUMNS).collect())
        if "pl" in names:
            self._keep("polars", names["prefix"].select(COLUMNS).collect().iter_rows())

    def _keep(self, engine, rows):
        self.found[engine] = sorted(
            (partition, offset, bytes(key), bytes(value)) for partition, offset, key, value in rows
        )


@pytest.mark.long
def test_look_into_it_runs_and_its_queries_read_merged_tables(run, tmp_path):
    queries = Queries()

    names, printed = run("docs/look-into-it.md", queries)

    assert "topic created by request" in printed
    assert "If broker 2 died now" in printed
    assert {"grid.png", "timeline.png"} <= set(os.listdir(tmp_path / "look"))
    cluster = names["cluster"]
    first, *_ = cluster.describe_logs("flights")
    assert [replica.merged_segments for replica in first.replicas] == [1, 1, 1]
    expected = sorted(
        tuple(row[name] for name in COLUMNS) for row in cluster.read("flights").to_pylist()
    )
    assert len(expected) == 47
    assert queries.found == dict.fromkeys(("view", "spark", "polars"), expected)
    cluster.close()


@pytest.mark.long
def test_moving_a_query_runs(run):
    run("docs/move-from-kafka.md")
