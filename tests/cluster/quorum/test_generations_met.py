"""A list names roots of a generation that was given up, and of the one that goes on."""

import pytest

from kafka_on_spark import Cluster
from tests.cluster.disks import FAST, records, values_of
from tests.cluster.folders import roots_in
from tests.cluster.voters import bring_up


@pytest.fixture
def cluster(folder):
    """A cluster whose first two roots were taken away: the third goes on. They are back."""
    brokers = {number: folder / str(number) for number in (1, 2, 3)}
    with Cluster.create(roots_in(folder), brokers, configs=FAST) as cluster:
        cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
        cluster.append("orders", records(b"a"))
        bring_up(cluster)
        for name in ("m1", "m2"):
            (folder / name).rename(folder / f"{name}-away")
        Cluster.force_controller(folder / "m3", 3)
        for name in ("m1", "m2"):
            (folder / f"{name}-away").rename(folder / name)
        yield cluster


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_the_new_generation_is_opened_whoever_is_named_first(cluster, folder, turn):
    roots = roots_in(folder)

    with Cluster.open([*roots[turn:], *roots[:turn]]) as opened:
        assert opened.image.generation == 1
        opened.append("orders", records(b"new"))
        assert values_of(opened, "orders") == [b"a", b"new"]
        assert [each.voter.key.node_id for each in opened.describe_quorum().voters] == [3]
