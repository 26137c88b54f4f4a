"""`metadata-quorum`: lost voters are named, and replaced; a cluster goes on from one of its voters."""

import json
import shlex
import shutil

from kafka_on_spark import Cluster
from tests.cli.conftest import CommandLine
from tests.cluster.disks import FAST, records
from tests.cluster.folders import quick_folder, roots_in
from tests.cluster.voters import bring_up


def test_a_cluster_is_forced_to_go_on_from_one_root():
    with quick_folder() as folder:
        roots = roots_in(folder)
        with Cluster.create(roots, {1: folder / "1"}, configs=FAST) as cluster:
            cluster.create_topic("orders", replication_factor=1)
            cluster.append("orders", records(b"a"))
            bring_up(cluster)  # the third root is to know of it
        for root in roots[:2]:
            shutil.rmtree(root)
        call = CommandLine(str(roots[2]))
        verb = ("metadata-quorum", "force", "--from", "3")

        assert "1 of 3 voters answer from here" in call.refused(*verb)
        assert call.json(*verb, "--dry-run")["answering"] == [3]
        assert "giving up what the other voters may have known" in call.refused(*verb)
        done = call(*verb, "--yes")

        said = [line.split(maxsplit=1) for line in done.splitlines()]
        assert [each for each in said if each[0] in ("generation", "fenced", "proven")] == [
            ["generation", "1"],
            ["fenced", "1"],
            ["proven", "topic=orders partition=0"],
        ]
        [row] = call.json("metadata-quorum", "describe", "--replication")
        assert (row["node_id"], row["status"]) == (3, "Leader")


def test_a_wiped_voter_is_lost_and_replaced_by_the_commands_that_are_shown():
    with quick_folder() as folder:
        roots = roots_in(folder)
        Cluster.create(roots, {1: folder / "1"}, configs=FAST).close()
        shutil.rmtree(roots[2])
        call = CommandLine(",".join(map(str, roots)))
        describe = ("metadata-quorum", "describe", "--replication")

        answer = call._run(*describe)

        assert answer.code == 0
        assert "create" not in answer.out + answer.complaint
        said = [each.strip() for each in answer.complaint.splitlines() if "metadata-quorum" in each]
        left = f"--cluster {roots[0]},{roots[1]}"
        assert said == [
            f"kafka-on-spark metadata-quorum remove-controller 3 {left}",
            f"kafka-on-spark metadata-quorum add-controller {roots[2]} {left}",
        ]
        [*others, row] = call.json(*describe)
        assert (row["status"], row["log_end_offset"]) == ("empty", None)
        assert {each["status"] for each in others} == {"Leader", "Follower"}
        for each in said:
            CommandLine("")(*shlex.split(each)[1:], *["--yes"] * ("remove" in each))
        assert [each["problem"] for each in call.json(*describe)] == [None] * 3


def test_voters_are_described_without_a_majority_and_the_command_to_go_on_is_shown():
    with quick_folder() as folder:
        roots = roots_in(folder)
        Cluster.create(roots, {1: folder / "1"}, configs=FAST).close()
        for root in roots[1:]:
            shutil.rmtree(root)
        call = CommandLine(",".join(map(str, roots)))

        answer = call._run("metadata-quorum", "describe", "--replication", "--output", "json")

        assert answer.code == 2
        rows = json.loads(answer.out)
        assert [each["status"] in ("empty", "lost") for each in rows] == [False, True, True]
        assert [each["log_end_offset"] is None for each in rows] == [False, True, True]
        assert "No majority: 1 of 3 voters answer" in answer.complaint
        assert "kafka-on-spark metadata-quorum force --from 1" in answer.complaint
        status = call._run("metadata-quorum", "describe", "--status", "--output", "json")
        assert json.loads(status.out)["away"] == [2, 3]
