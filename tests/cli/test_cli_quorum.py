"""`metadata-quorum force`: a cluster goes on from one of its voters."""

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
