"""A copy of a cluster, `cp -r prod trial`, names the original's disks in its log: it is not opened, by any
way in, and nothing is written."""

import shutil

import pyarrow as pa
import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import (
    DuplicateBrokerRegistrationError,
    InvalidRootError,
    RootAccessDeniedError,
)
from kafka_on_spark.consume.options import parse_source
from kafka_on_spark.fsck.cluster_audit import check_cluster
from kafka_on_spark.spark.sink import WritePlan
from kafka_on_spark.spark.source import StreamReader
from kafka_on_spark.store.root_identity import read_identity
from kafka_on_spark.store.root_urls import cluster_url
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.disks import FAST, files_below, records, values_of
from tests.cluster.voters import bring_up, end_calls

OPTIONS = StorageOptions()


def prod_and_trial(folder, voters):
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
    row = pa.RecordBatch.from_pylist([{"topic": "orders", "key": b"k", "value": b"v"}])
    url = ",".join(map(str, roots))
    plan = WritePlan(
        root=cluster_url(url),
        storage=OPTIONS,
        cluster_id="x",
        image_offset=0,
        acks="all",
        has_producer=False,
        now_ms=1,
    )
    [staged] = plan.stage(iter([row]), None, 0)
    raise staged.rows[0].refusal


def stream(roots):
    options = {"cluster": ",".join(map(str, roots)), "subscribe": "orders"}
    StreamReader(parse_source(options, is_stream=True)).initialOffset()


WAYS_IN = {
    "open": Cluster.open,
    "as it was": lambda roots: Cluster.open(roots, as_of=3),
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


def test_the_copy_of_a_brokers_root_is_not_registered_and_both_places_are_named(folder):
    [root], _ = prod_and_trial(folder, 1)
    original, copy, link = folder / "prod" / "1", folder / "trial" / "1", folder / "link"
    link.symlink_to(original)

    with Cluster.open(root) as cluster:
        with pytest.raises(DuplicateBrokerRegistrationError) as refusal:
            cluster.register_broker(1, copy)
        assert f"{copy} is a copy of broker 1's, which is registered at {original}" in str(
            refusal.value
        )
        with pytest.raises(DuplicateBrokerRegistrationError, match=f"this very root {original}"):
            cluster.register_broker(1, link)


def obeyed(root):
    return read_identity(str(root), OPTIONS).metadata_roots


def test_a_brokers_root_names_the_metadata_roots_that_it_obeys_as_they_change(folder):
    names = [str(folder / each) for each in ("m1", "m2", "m3")]
    with Cluster.create(names[0], {1: folder / "1", 2: folder / "2"}, configs=FAST) as cluster:
        assert obeyed(folder / "1") == (names[0],)
        cluster.add_controller(names[1])
        assert obeyed(folder / "2") == (names[0], names[1])
        (folder / "2").rename(folder / "2-away")
        cluster.add_controller(names[2])
        cluster.remove_controller(1)
        assert obeyed(folder / "1") == (names[1], names[2])
        assert obeyed(folder / "2-away") == (names[0], names[1])
        cluster.register_broker(3, folder / "3")
        assert obeyed(folder / "3") == (names[1], names[2])
        (folder / "2-away").rename(folder / "2")
        bring_up(cluster)
    shutil.rmtree(names[1])

    Cluster.force_controller(names[2], 3)

    assert [obeyed(folder / each) for each in "123"] == [(names[2],)] * 3


@pytest.fixture
def under_its_url(folder):
    """A copy of a cluster's metadata root that lies under the original's URL, as on another machine with
    the same brokers, since all of the original's metadata roots were replaced."""
    brokers = {each: folder / str(each) for each in (1, 2)}
    configs = {**FAST, "file.delete.delay.ms": "0"}
    with Cluster.create(folder / "m1", brokers, configs=configs) as cluster:
        cluster.create_topic("orders", replica_assignment={0: [1, 2]})
        cluster.append("orders", records(b"a"))
        end_calls(cluster)
        shutil.copytree(folder / "m1", folder / "copy")
        cluster.add_controller(folder / "m2")
        cluster.remove_controller(1)
        end_calls(cluster)
    (folder / "m1").rename(folder / "m1-away")
    (folder / "copy").rename(folder / "m1")
    with Cluster.open(folder / "m1") as copy:
        yield copy


def commits_of(folder):
    files = files_below(folder / "1", folder / "2")
    return [each for each in files if "_delta_log" in str(each)]


def test_a_copy_under_the_originals_url_deletes_nothing_of_brokers_that_obey_others(
    folder, under_its_url
):
    before = files_below(folder / "1", folder / "2")

    under_its_url.delete_topic("orders")
    under_its_url.run_controller()
    under_its_url.maintain()

    assert files_below(folder / "1", folder / "2") == before
    assert values_of(Cluster.open(folder / "m2"), "orders") == [b"a"]


CHANGES = [
    lambda copy: copy.delete_records({("orders", 0): 1}),
    lambda copy: copy.append("orders", records(b"of the copy")),
    lambda copy: copy.append("orders", records(b"of the copy"), transactional_id="writer"),
]


def test_a_metadata_root_that_was_given_up_changes_nothing_of_the_original(folder, under_its_url):
    before = commits_of(folder)

    for change in CHANGES:
        with pytest.raises(RootAccessDeniedError, match=f"obeys the metadata roots {folder}/m2,"):
            change(under_its_url)
    under_its_url.replicate()
    under_its_url.maintain()

    assert commits_of(folder) == before
    with Cluster.open(folder / "m2") as original:
        original.append("orders", records(b"b"))
        assert values_of(original, "orders") == [b"a", b"b"]
