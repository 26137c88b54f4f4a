"""Kill -9 in the middle of an append; the same command again: nothing lost, nothing twice."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobs.quickstart_run.flights import IDENTITY, appends_of, read_flights
from kafka_on_spark import Cluster
from tests.integration.quickstart.quickstart_runs import QuickstartProcess

ROWS = 4000
VOTERS = 3
OPTIONS = ("--rows", str(ROWS), "--partitions", "6", "--voters", str(VOTERS))

pytestmark = [pytest.mark.integration, pytest.mark.long]


# In the first half, before the disk is taken away: the run that goes on does that too.
SEQUENCE = 2


@dataclass
class Killed:
    """A run that was killed, and the one that ended it."""

    folder: Path
    committed_count: int
    exit_code: int
    output: str


def opened(folder: Path) -> Cluster:
    """Return a run's cluster, whichever of its metadata roots is lost: on a busy machine a voter that
    is late may be followed by another leader."""
    return Cluster.open(",".join(f"{folder}/metadata-{each + 1}" for each in range(VOTERS)))


def committed_count(folder: Path) -> int:
    with opened(folder) as cluster:
        return sum(each.high_watermark for each in cluster.offsets("flights").values())


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> Killed:
    folder = tmp_path_factory.mktemp("quickstart") / "run"
    QuickstartProcess(folder, *OPTIONS).kill_in_append(SEQUENCE)
    count = committed_count(folder)
    last = QuickstartProcess(folder, *OPTIONS)
    return Killed(folder, count, last.finish(), last.output)


def test_kill_hit_a_run_that_had_more_to_append(killed):
    assert appends_of(ROWS)[SEQUENCE].start <= killed.committed_count < ROWS


def test_run_that_was_killed_is_continued_to_a_good_end(killed):
    assert killed.exit_code == 0, killed.output
    assert f"Going on in {killed.folder}" in killed.output
    assert "no record was lost or doubled" in killed.output
    assert "Traceback" not in killed.output
    assert "py4j" not in killed.output


def test_after_the_kill_every_flight_is_there_once_and_no_other(killed):
    with opened(killed.folder) as cluster:
        values = cluster.read("flights").column("value").to_pylist()

    found = Counter(tuple(json.loads(value)[name] for name in IDENTITY) for value in values)
    flights = read_flights(ROWS).select(list(IDENTITY)).to_pylist()
    assert found == Counter(tuple(flight.values()) for flight in flights)


def test_run_shows_loss_return_history_and_picture(killed):
    [lost] = re.findall(r"voter (\d), which leads, has its root moved away", killed.output)
    for expected in (
        "checked: each of the 4,000 flights is committed exactly once",
        "18 replicas are equal below the high watermarks",
        "the stream has seen each of 4,000 records once",
        f"checked: one voter is lost, at {killed.folder}/metadata-{lost}, and each of the others has",
        "and the metadata quorum the root of its leader; no record was lost or doubled",
        "ISR history of flights-",
        "probe failed",
        "caught up at offset",
    ):
        assert expected in killed.output
    assert (killed.folder / "isr-history.png").read_bytes().startswith(b"\x89PNG")
