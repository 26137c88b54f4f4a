"""A copy of a cluster, `cp -r prod trial`, names the original's disks in its log: it is not opened, by any
way in, and nothing is written."""

import shutil

import pyarrow as pa
import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.errors import ClusterNotFoundError, InvalidRootError
from kafka_on_spark.query.options.source_options import parse_source
from kafka_on_spark.service.append.plan.multi_topic import MultiTopicOrder
from kafka_on_spark.spark.format.source import StreamReader
from kafka_on_spark.spark.run.multi_topic_tasks import TopicOrders
from kafka_on_spark.spark.run.opening import Awaits
from kafka_on_spark.spark.wiring.fsck_services import check_cluster
from kafka_on_spark.storage.roots.roots import StorageOptions
from tests.cluster.disks import FAST, files_below, records, values_of
from tests.cluster.voters import bring_up, end_calls

OPTIONS = StorageOptions()


def prod_and_trial(folder, voters):
    """Make a cluster with a topic at folder/prod, and copy all of it to folder/trial."""
    prod = folder / "prod"
    roots = [prod / f"m{number}" for number in range(1, voters + 1)]
    with Cluster.create(roots, {1: prod / "1", 2: prod / "2"}, configs=FAST) as cluster:
        cluster.create_topic("orders", replication_factor=2)
        cluster.append("orders", records(b"a"))
        bring_up(cluster)
        end_calls(cluster)
    shutil.copytree(prod, folder / "trial")
    return roots, [folder / "trial" / each.name for each in roots]


def stage(roots):
    order = MultiTopicOrder(
        cluster_id="x", image_offset=0, acks="all", has_producer=False, now_ms=1
    )
    row = pa.RecordBatch.from_pylist([{"topic": "orders", "key": b"k", "value": b"v"}])
    url = ",".join(map(str, roots))
    [staged] = TopicOrders(url, OPTIONS, order, None, Awaits.NOTHING).stage_rows(iter([row]), 0)
    raise {InvalidRootError.code: InvalidRootError}[staged.rows[0].error_code](staged.rows[0].error)


def stream(roots):
    options = {"cluster": ",".join(map(str, roots)), "subscribe": "orders"}
    StreamReader(parse_source(options, is_stream=True)).initialOffset()


WAYS_IN = {
    "open": Cluster.open,
    "as it was": lambda roots: Cluster.open(roots, as_of=3),
    "as it is proved": lambda roots: Cluster.open(roots, as_of="proved"),
    "create": lambda roots: Cluster.create(roots, {9: roots[0].parent / "9"}),
    "force": lambda roots: Cluster.force_controller(roots, 1),
    "fsck": check_cluster,
    "stream": stream,
    "a task of an append": stage,
}


@pytest.mark.parametrize("voters", [1, 3])
def test_a_copy_is_refused_by_every_way_in_before_anything_is_written(folder, voters):
    roots, copied = prod_and_trial(folder, voters)
    before = files_below(folder)

    for way_in in WAYS_IN.values():
        with pytest.raises(InvalidRootError) as refusal:
            way_in(copied)
        assert f"{copied[0]} is a copy, or was moved" in refusal.value.message
        assert f"registers it at {roots[0]};" in refusal.value.message

    assert files_below(folder) == before


def test_one_copied_root_on_a_list_is_refused(folder):
    roots, copied = prod_and_trial(folder, 3)

    for given in ([roots[0], roots[1], copied[2]], copied[1:2]):
        with pytest.raises(InvalidRootError, match="is a copy, or was moved"):
            Cluster.open(given)


def test_a_cluster_whose_disks_were_moved_is_opened_by_a_link_in_their_place(folder):
    [root], [moved] = prod_and_trial(folder, 1)
    shutil.rmtree(folder / "prod")
    with pytest.raises(InvalidRootError, match="is a copy, or was moved"):
        Cluster.open(moved)

    (folder / "prod").symlink_to(folder / "trial")

    for name in (root, moved):
        with Cluster.open(name) as cluster:
            cluster.append("orders", records(b"b"))
    assert values_of(Cluster.open(root), "orders") == [b"a", b"b", b"b"]


def test_the_copy_of_a_former_voter_leads_nowhere_and_is_not_added(folder):
    roots, copied = prod_and_trial(folder, 3)
    with Cluster.open(roots) as cluster:
        cluster.remove_controller(2)
        shutil.rmtree(copied[1])
        shutil.copytree(roots[1], copied[1])

        with pytest.raises(InvalidRootError, match="is a copy, or was moved"):
            Cluster.open(copied[1])
        for copy in copied[:2]:
            with pytest.raises(InvalidRootError, match="is a copy of metadata root"):
                cluster.add_controller(copy)
        end_calls(cluster)


def test_a_root_that_is_no_voter_as_yet_leads_to_the_voters_beside_others_only(folder, monkeypatch):
    [root], _ = prod_and_trial(folder, 1)
    with Cluster.open(root) as cluster, monkeypatch.context() as patched:
        changes = "kafka_on_spark.service.quorum.voter_changing.VoterChanges"
        patched.setattr(f"{changes}.add", lambda self, voter, stamp: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            cluster.add_controller(folder / "new")

    with pytest.raises(ClusterNotFoundError, match=f"by its own log: give {root}"):
        Cluster.open(folder / "new")
    for given in ([root, folder / "new"], [folder / "new", root]):
        with Cluster.open(given) as cluster:
            assert [each.voter.root for each in cluster.describe_quorum().voters] == [str(root)]
