"""A cluster opened as it was: the metadata and the records of then, and nothing can be changed."""

from datetime import UTC, datetime, timedelta

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import (
    InvalidRequestError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.metadata.image import MetadataImage
from tests.bad_input.refusals import anything
from tests.cluster.disks import files_below, records, values_of

OF_THE_PAST = {
    "broker_history",
    "close",
    "describe_group",
    "describe_group_members",
    "describe_topic",
    "history",
    "list_groups",
    "offsets",
    "count",
    "read",
    "reassignments",
    "replay",
    "table",
    "verify_reassignment",
    "view",
    "what_if",
}
"""What a cluster of the past can do. Any other method must be refused before it begins, also one
that is added later."""


@pytest.fixture
def cluster(disks):
    disks.cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
    disks.cluster.append("orders", records(b"a", b"b"))
    return disks.cluster


def reopen(disks, as_of) -> Cluster:
    disks.opened.append(Cluster.open(disks.metadata_root, as_of=as_of))
    return disks.opened[-1]


def test_a_cluster_as_of_a_moment_has_its_leaders_offsets_and_records(disks, cluster):
    then = cluster.image
    disks.take_away(1)
    cluster.run_controller()
    cluster.append("orders", records(b"c"))
    disks.give_back(1)

    past = reopen(disks, then.offset)

    assert past.image == then
    assert past.describe_topic("orders").partitions[0].leader == 1
    assert past.offsets("orders")[0].high_watermark == 2
    assert values_of(past, "orders") == [b"a", b"b"]
    assert values_of(cluster, "orders") == [b"a", b"b", b"c"]
    with pytest.raises(OffsetOutOfRangeError, match="high watermark 2"):
        past.read("orders", start={0: 3})


def test_the_cluster_can_be_opened_as_of_every_decision_by_offset_and_by_time(disks, cluster):
    disks.take_away(2)
    cluster.run_controller()
    cluster.append("orders", records(b"c"))
    beginning, batches = cluster._metadata.history()[:2], cluster._metadata.history()[2:]
    image, images = MetadataImage().replay(*beginning), []
    for batch in batches:
        image = image.replay(batch)
        images.append(image)

    assert [reopen(disks, each.offset).image for each in images] == images
    for batch in batches:
        moment = datetime.fromtimestamp(batch.stamp.time_ms / 1000, UTC)
        last = [each for each in images if each.time_ms <= batch.stamp.time_ms][-1]
        assert reopen(disks, moment).image == last


def test_a_topic_deleted_since_is_described_and_read_while_its_records_exist(disks, cluster):
    then = cluster.image.offset
    cluster.delete_topic("orders")

    past = reopen(disks, then)

    assert values_of(past, "orders") == [b"a", b"b"]
    with pytest.raises(UnknownTopicOrPartitionError):
        cluster.offsets("orders")
    assert [each.cause for each in cluster.history()][-1] == "topic deleted by request"


def test_records_of_the_past_are_read_from_replicas_of_now(disks, cluster):
    then = cluster.image.offset
    disks.take_away(1, 2)
    cluster.run_controller()
    disks.cluster.alter_topic_configs("orders", {"min.insync.replicas": 1})
    cluster.append("orders", records(b"c"))

    assert values_of(reopen(disks, then), "orders") == [b"a", b"b"]
    disks.take_away(3)
    with pytest.raises(KafkaStorageError, match="can't be read from any replica"):
        values_of(reopen(disks, then), "orders")


def test_every_method_is_refused_that_is_not_known_to_change_nothing(disks, cluster):
    past = reopen(disks, cluster.image.offset)
    before = files_below(disks.base)
    public = {
        name
        for name in dir(Cluster)
        if not name.startswith("_") and callable(getattr(Cluster, name))
    } - {"create", "open", "force_controller", "fork"}

    for name in public - OF_THE_PAST:
        positional, named = anything(getattr(Cluster, name))
        with pytest.raises(InvalidRequestError) as refused:
            getattr(past, name)(*positional, **named)
        is_made = name in ("consumer", "producer")
        words = f"make a {name}" if is_made else name.replace("_", " ")
        assert str(refused.value).startswith(f"can't {words}: the cluster was opened as it was")
        assert "open it without as_of" in str(refused.value)

    assert public >= OF_THE_PAST
    assert files_below(disks.base) == before


def test_a_cluster_of_the_past_commits_nothing(disks, cluster):
    """Also a method that no part refuses would find no way to commit."""
    past = reopen(disks, cluster.image.offset)
    metadata = past._node.metadata

    for commit in (
        lambda: metadata.submit(lambda image: 1 / 0, timeout_ms=1000),
        lambda: metadata.turn().__enter__(),
    ):
        with pytest.raises(InvalidRequestError, match="the past is read-only"):
            commit()
    assert not hasattr(past._metadata, "submit")


LATER = datetime.now(UTC) + timedelta(days=2)
# fmt: off
REFUSED = [
    pytest.param(10**6,                   "the metadata log has offsets 0 to",        id="beyond the end"),
    pytest.param(-1,                      "the metadata log has offsets 0 to",        id="negative"),
    pytest.param(0,                       "name a later one",                         id="before the first decision"),
    pytest.param(1,                       "name a later one",                         id="in the first decision"),
    pytest.param(True,                    "give a datetime with a time zone",         id="not a number"),
    pytest.param("2026-01-01",            "give a datetime with a time zone",         id="text"),
    pytest.param(datetime(2026, 1, 1),    "it has no time zone",                      id="no time zone"),  # noqa: DTZ001
    pytest.param(LATER,                   "that has not come yet",                    id="the future"),
    pytest.param(datetime(2020, 1, 1, tzinfo=UTC), "the cluster was made at",         id="before the cluster"),
]
# fmt: on


@pytest.mark.parametrize("as_of, sentence", REFUSED)
def test_an_invalid_as_of_is_refused_in_one_sentence(disks, as_of, sentence):
    with pytest.raises(InvalidRequestError, match=sentence):
        Cluster.open(disks.metadata_root, as_of=as_of)
