"""`cluster --fork` and `maintain --hold-deletes`, as docs/copying.md has them."""

import shlex
import subprocess

import pytest

from kafka_on_spark import Cluster
from tests.cli.conftest import CommandLine
from tests.cluster.disks import FAST, one_race_a_device, records, values_of
from tests.cluster.folders import quick_folder
from tests.cluster.voters import end_calls
from tests.pages import blocks


@pytest.fixture
def folder():
    with quick_folder() as folder, one_race_a_device():
        brokers = {each: folder / f"prod/broker-{each}" for each in (1, 2, 3)}
        with Cluster.create(folder / "prod/metadata", brokers, configs=FAST) as cluster:
            cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
            cluster.append("orders", records(b"a"))
            cluster.create_topic("alone", replica_assignment={0: [3]})
            cluster.append("alone", records(b"b", b"c"))
            end_calls(cluster)
        (folder / "trial").mkdir()
        yield folder


def test_the_calls_of_the_page_copy_a_cluster(folder):
    call, answers = CommandLine(""), []
    [text] = blocks("docs/copying.md", "console")

    for line in text.splitlines():
        program, *words = shlex.split(
            line.removeprefix("$ ").replace(" /", f" {folder}/").replace("=/", f"={folder}/")
        )
        if program == "cp":
            subprocess.run([program, *words], check=True)
            continue
        if "--fork" in words and "--dry-run" not in words:
            assert "giving these copies ids of their own can't be undone" in call.refused(*words)
            words.append("--yes")
        answers.append(call.json(*words))

    held, ended, planned, done = answers
    assert held["held_until"] > "2020"
    assert ended["held_until"] is None
    assert (planned["dry_run"], planned["cluster_id"], planned["lost"]) == (True, None, [])
    with Cluster.open(folder / "trial/metadata") as forked:
        assert forked.image.cluster_id == done["cluster_id"]
        assert values_of(forked, "orders") + values_of(forked, "alone") == [b"a", b"b", b"c"]


def test_what_a_fork_would_lose_is_listed_before_the_question(folder):
    subprocess.run(
        ["cp", "-r", f"{folder}/prod/metadata", f"{folder}/prod/broker-1", folder / "trial"],
        check=True,
    )
    words = ("cluster", "--fork", "--broker", f"1={folder}/trial/broker-1,east")
    call = CommandLine(f"{folder}/trial/metadata")

    asked = call._run(*words)
    done = call.json(*words, "--yes")

    assert "alone-0: no replica was copied, offsets 0 to 1 are lost" in asked.complaint
    assert "and losing records of 1 partition can't be undone" in asked.complaint
    assert (done["unregistered"], len(done["lost"])) == ([2, 3], 1)
    [broker] = call.json("brokers", "--list")
    assert (broker["rack"], broker["root"]) == ("east", f"{folder}/trial/broker-1")


@pytest.mark.parametrize("given", ["2", "2d", "h", "25h"])
def test_a_hold_that_is_no_time_or_more_than_a_day_is_refused(folder, given):
    said = CommandLine(f"{folder}/prod/metadata").refused("maintain", "--hold-deletes", given)

    assert "2h" in said or "a day" in said
