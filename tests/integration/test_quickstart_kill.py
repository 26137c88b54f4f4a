"""Kill -9 in the middle of an append, twice; the same command again: nothing lost, nothing twice."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobs.quickstart_flights import IDENTITY, appends_of, read_flights
from kafka_on_spark import Cluster
from tests.integration.quickstart_runs import QuickstartProcess

ROWS = 4000
OPTIONS = ("--rows", str(ROWS), "--partitions", "6")

pytestmark = pytest.mark.integration


@dataclass
class Killed:
    """A run that was killed and ended by later ones.

    Attributes:
        folder: Where.
        committed_counts: Records committed when each kill was over.
        exit_code: Of the last run.
        output: Of the last run.
    """

    folder: Path
    committed_counts: list[int]
    exit_code: int
    output: str


def committed_count(folder: Path) -> int:
    with Cluster.open(folder / "metadata") as cluster:
        return sum(each.high_watermark for each in cluster.offsets("flights").values())


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> Killed:
    """Kill a run in its second append, the next in one while the disk is away; end the third."""
    folder = tmp_path_factory.mktemp("quickstart") / "run"
    counts = []
    for sequence in (1, 5):
        QuickstartProcess(folder, *OPTIONS).kill_in_append(sequence)
        counts.append(committed_count(folder))
    last = QuickstartProcess(folder, *OPTIONS)
    return Killed(folder, counts, last.finish(), last.output)


def test_kills_hit_runs_that_had_not_appended_everything(killed):
    first, second = killed.committed_counts

    assert appends_of(ROWS)[0].stop <= first < appends_of(ROWS)[4].stop
    assert appends_of(ROWS)[4].stop <= second < ROWS


def test_run_that_was_killed_is_continued_to_a_good_end(killed):
    assert killed.exit_code == 0, killed.output
    assert f"Going on in {killed.folder}" in killed.output
    assert "no record was lost or doubled" in killed.output
    assert "Traceback" not in killed.output
    assert "py4j" not in killed.output


def test_after_the_kills_every_flight_is_there_once_and_no_other(killed):
    with Cluster.open(killed.folder / "metadata") as cluster:
        values = cluster.read("flights").column("value").to_pylist()

    found = Counter(tuple(json.loads(value)[name] for name in IDENTITY) for value in values)
    flights = read_flights(ROWS).select(list(IDENTITY)).to_pylist()
    assert found == Counter(tuple(flight.values()) for flight in flights)


def test_run_shows_loss_return_history_and_picture(killed):
    for expected in (
        "checked: each of the 4,000 flights is committed exactly once",
        "18 replicas are equal below the high watermarks",
        "the stream has seen each of 4,000 records once",
        "time         · leader · leader epoch · ISR",
        "probe failed",
        "caught up at offset",
    ):
        assert expected in killed.output
    assert (killed.folder / "isr-history.png").read_bytes().startswith(b"\x89PNG")
