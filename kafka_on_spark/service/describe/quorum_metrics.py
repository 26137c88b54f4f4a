"""Figures of the metadata quorum: Kafka's raft-metrics, and what we know of each voter. Pure."""

from collections.abc import Iterator

from kafka_on_spark.raft.quorum.description import QuorumDescription
from kafka_on_spark.service.describe.metric import Metric


def quorum_metrics(quorum: QuorumDescription, *, is_controller: bool) -> Iterator[Metric]:
    """Yield the figures of a quorum as a process last saw it.

    How each voter is, only the controller knows: its commits, of which it makes some within each
    lease, ask all of them. Others ask as few as may confirm the leader.
    """
    for name, value in (
        ("current-leader", quorum.leader.node_id),
        ("current-epoch", quorum.epoch),
        ("high-watermark", quorum.high_watermark),
        ("number-of-voters", len(quorum.voters)),
    ):
        yield Metric(type="RaftMetrics", name=name, value=value)
    if is_controller:
        lags = (each.lag for each in quorum.voters if each.lag is not None)
        lost = sum(each.problem is not None for each in quorum.voters)
        yield Metric(type="Quorum", name="lost-voters", value=lost)
        yield Metric(type="Quorum", name="max-follower-lag", value=max(lags, default=0))
