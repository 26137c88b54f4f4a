"""Waits for the voters of a metadata quorum, before a test copies, deletes or brings back their roots.

A decision is answered once a majority has it. Threads that the answer did not need go on after it:
they bring up the other voters, and may come to one late on a busy machine.
"""

from kafka_on_spark import Cluster
from kafka_on_spark.metadata.quorum.voter_tables import follow
from tests.cluster.serving.processes import wait_for


def bring_up(cluster: Cluster) -> None:
    """Have each voter hold all of the log; no thread of this process is at one of them afterwards.

    Not by waiting until none lags: the lag of a voter that did not answer in time is unknown, and a
    voter that was not asked, since it was slow, stays behind until the next decision.
    """
    log = cluster._node.metadata.log
    leader = log.confirm().table
    for key in log.tables.voters.keys:
        if key != leader.key:
            follow(log.tables, leader, key)
    end_calls(cluster)


def end_calls(cluster: Cluster) -> None:
    """Wait until no thread of this process is at a voter, a former one included."""
    cluster._node.maintenance.finish()
    tables = cluster._node.metadata.log.tables
    wait_for(lambda: not any(map(tables._under_way.get, tables.known)))
