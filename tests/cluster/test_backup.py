"""What docs/recovering.md says of backups: copies of roots, restored.

Each step is a process of its own: one that has seen more of a table than a copy has refuses it.
"""

import shutil

import pytest

from tests.cluster.folders import quick_folder
from tests.cluster.scripts import printed_by

OPEN = """
import sys
from kafka_on_spark import Cluster

cluster = Cluster.open(sys.argv[1] + "/metadata")
"""
CREATE = """
import sys
from kafka_on_spark import Cluster

cluster = Cluster.create(
    sys.argv[1] + "/metadata",
    brokers={each: f"{sys.argv[1]}/broker-{each}" for each in (1, 2, 3)},
    configs={"broker.session.timeout.ms": 1000, "replica.verdict.delay.ms": 100},
)
cluster.create_topic("flights", partitions=1, replication_factor=3)
cluster.append("flights", [("a", "1"), ("b", "2"), ("c", "3")])
cluster.close()
"""
APPEND = OPEN + 'cluster.append("flights", [("d", "4")])\ncluster.close()'
IS_SOUND = """
assert cluster.fsck().findings == ()
assert [len(each.isr) for each in cluster.describe_topic("flights").partitions] == [3]
cluster.close()
"""


@pytest.fixture
def folders():
    """A cluster to which something was appended since all its roots were copied, and the copy."""
    with quick_folder() as folder:
        cluster, copy = folder / "cluster", folder / "copy"
        printed_by(CREATE, str(cluster))
        shutil.copytree(cluster, copy)
        printed_by(APPEND, str(cluster))
        yield cluster, copy


def test_a_copy_of_all_roots_is_the_cluster_as_it_was(folders):
    cluster, copy = folders
    shutil.rmtree(cluster)
    shutil.copytree(copy, cluster)

    printed_by(OPEN + 'assert cluster.read("flights").num_rows == 3' + IS_SOUND, str(cluster))
    printed_by(APPEND, str(cluster))
    printed_by(OPEN + 'assert cluster.read("flights").num_rows == 4' + IS_SOUND, str(cluster))


def test_an_older_copy_of_one_brokers_root_is_found_and_made_anew(folders):
    cluster, copy = folders
    shutil.rmtree(cluster / "broker-2")
    shutil.copytree(copy / "broker-2", cluster / "broker-2")

    heal = """
for _ in range(5):
    cluster.run_controller()
    cluster.replicate(is_sweep=True)
assert cluster.read("flights").num_rows == 4
"""
    printed_by(OPEN + "assert cluster.fsck().findings != ()\n" + heal + IS_SOUND, str(cluster))
