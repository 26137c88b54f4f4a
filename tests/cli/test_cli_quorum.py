"""`metadata-quorum describe`: who leads the metadata log, and how far each voter is."""

import shutil

from kafka_on_spark import Cluster
from tests.cli.conftest import CommandLine
from tests.cluster.disks import FAST, records
from tests.cluster.folders import quick_folder, roots_in
from tests.cluster.voters import bring_up


def test_status_names_the_leader_and_the_voters(call, cluster):
    found = call.json("metadata-quorum", "describe", "--status")

    assert found["cluster_id"] == cluster.image.cluster_id
    assert (found["leader"], found["leader_epoch"], found["voters"]) == (1, 1, [1])
    assert found["high_watermark"] == cluster.image.offset
    assert (found["max_follower_lag"], found["away"]) == (0, [])


def test_replication_shows_each_voter(call, cluster):
    [row] = call.json("metadata-quorum", "describe", "--replication")

    assert (row["node_id"], row["lag"], row["status"], row["problem"]) == (1, 0, "Leader", None)
    assert row["root"] == cluster.root


def test_a_voter_is_added_elected_and_removed(call, cluster, tmp_path):
    root = f"{tmp_path}/m2"

    [record] = call.json("metadata-quorum", "add-controller", root, "--dry-run")["records"]
    assert len(record["voters"]) == 2
    assert not (tmp_path / "m2").exists()

    added = call.json("metadata-quorum", "add-controller", root)
    assert (added["added"]["node_id"], added["added"]["root"]) == (2, root)
    assert [each["node_id"] for each in added["voters"]] == [1, 2]

    assert call.json("metadata-quorum", "elect", "--to", "2")["leader"]["root"] == root
    assert call.json("metadata-quorum", "elect")["leader"]["node_id"] == 1

    [record] = call.json("metadata-quorum", "remove-controller", "2", "--dry-run")["records"]
    assert len(record["voters"]) == 1

    removed = call.json("metadata-quorum", "remove-controller", "2", "--yes")
    assert (removed["removed"]["root"], removed["is_marked"]) == (root, True)
    assert [each["node_id"] for each in removed["voters"]] == [1]


def test_calls_that_are_not_whole_are_refused(call):
    for words, sentence in [
        (("describe",), "give one of --status, --replication"),
        (("force", "--from", "1", "--yes"), "a majority of the metadata quorum's voters answers"),
        (("force",), "--from is missing"),
        (("force", "--from", "2"), "those that answer are 1"),
        (("add-controller",), "NAME is missing: the new voter's root"),
        (("remove-controller", "--yes"), "NAME is missing"),
        (("elect", "--status"), "use it with describe"),
        (("remove-controller", "1", "--to", "2", "--yes"), "--to does not go with"),
        (("describe", "--status", "--to", "2"), "--to does not go with"),
        (("elect", "--dry-run"), "--dry-run does not go with"),
        (("remove-controller", "1", "--yes"), "is the only voter"),
        (("remove-controller", "1"), "give --yes to do it"),
    ]:
        assert sentence in call.refused("metadata-quorum", *words)


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
