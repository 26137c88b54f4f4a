"""A candidate whose process died, and the epochs that voters are in."""

from kafka_on_spark.metadata.quorum.raft import stand


def stood(quorum, node, epoch):
    """Have a voter stand; its process dies then."""
    root = quorum.roots[node]
    assert root.put(root.table, stand(root.table, epoch), {})
    return root


def epochs(quorum):
    return [root.table.quorum_epoch for root in quorum.roots]
