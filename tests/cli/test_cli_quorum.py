"""`metadata-quorum describe`: who leads the metadata log, and how far each voter is."""


def test_status_names_the_leader_and_the_voters(call, cluster):
    found = {
        row["name"]: row["value"] for row in call.json("metadata-quorum", "describe", "--status")
    }

    assert found["cluster id"] == cluster.image.cluster_id
    assert (found["leader"], found["leader epoch"], found["voters"]) == (1, 1, [1])
    assert found["high watermark"] == cluster.image.offset
    assert (found["max follower lag"], found["away"]) == (0, [])


def test_replication_shows_each_voter(call, cluster):
    [row] = call.json("metadata-quorum", "describe", "--replication")

    assert (row["node_id"], row["lag"], row["status"], row["problem"]) == (1, 0, "Leader", None)
    assert row["root"] == cluster.root


def test_one_of_both_is_to_be_named(call):
    said = call.refused("metadata-quorum", "describe")

    assert "choose one of --status, --replication" in said
