"""What has a dry run is told, and nothing is done; what has none is refused."""

import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.cli.dry_run import DryRun
from kafka_on_spark.controller import inspections
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.metadata.records import OffsetCommitRecord, ProducerRecord
from tests.cluster.disks import files_below, records

YEAR_MS = 365 * 24 * 3_600_000


@pytest.fixture
def everything(disks):
    """Gives all files of the cluster: whether anything was written."""

    def found():
        disks.settle()  # a checkpoint, or a merge of the metadata log, of what the test did before
        return files_below(disks.base)

    return found


def test_a_change_without_a_dry_run_is_refused_before_it_begins(new_topic, cluster, everything):
    """An append of a dry run would write files, and commit them."""
    topic = new_topic(b"a")
    before = everything()
    dry_run = DryRun(cluster)

    with pytest.raises(InvalidRequestError, match="append can't be done as a dry run"):
        dry_run.append(topic, records(b"b"))

    assert everything() == before


@pytest.mark.parametrize("name", ["elect_controller", "fsck", "maintain", "producer", "replicate"])
def test_what_is_no_change_of_the_metadata_has_no_dry_run(cluster, name):
    with pytest.raises(InvalidRequestError, match="can't be done as a dry run"):
        getattr(DryRun(cluster), name)()


def test_a_time_that_is_ahead_is_reset_and_what_that_does_is_told_before(
    call, new_topic, cluster, everything
):
    topic = new_topic(b"a", replica_assignment={0: [1, 2, 3]})
    services = cluster._node
    ahead_ms = services.clock.now_ms() + 10 * YEAR_MS
    metadata, key = services.metadata, partition_key(cluster, topic)
    metadata.submit(lambda image: ControllerResult(told_at(ahead_ms, key), None), timeout_ms=1000)
    before, log_before = everything(), metadata.image.offset

    told = call.json("metadata", "--reset-time", "--dry-run")
    in_words = call("metadata", "--reset-time", "--dry-run")

    assert everything() == before
    assert [each["record_type"] for each in told["records"]] == [
        "ClusterRecord",
        "ProducerRecord",
        "OffsetCommitRecord",
    ]
    assert "3 records would be committed, and nothing was" in in_words
    [ahead] = [each.value for each in cluster.metrics() if each.name == "TimeAheadMs"]
    assert ahead > 9 * YEAR_MS

    call("metadata", "--reset-time")

    image = cluster.image
    assert image.offset > log_before
    assert image.newest_ms() < services.clock.now_ms() + 60_000
    assert [each.value for each in cluster.metrics() if each.name == "TimeAheadMs"] == [0]
    assert call.json("metadata", "--reset-time")["producers"] == 0


def test_retention_is_asked_for_also_while_deletes_are_held(call, new_topic, cluster):
    topic = new_topic(b"a", b"b")
    until_ms = cluster._node.clock.now_ms() + 3_600_000
    cluster.alter_cluster_configs({"delete.hold.until.ms": str(until_ms)})

    refusal = call.refused("configs", "--alter", "--topic", topic, "--add-config", "retention.ms=0")

    cluster.alter_cluster_configs({"delete.hold.until.ms": None})
    assert "deletes 2 records" in refusal


def test_an_unclean_election_is_by_the_looks_that_its_question_was_about(
    call, new_topic, cluster, disks, monkeypatch
):
    """A disk that answers only after nothing was found to ask about elects nobody."""
    topic = new_topic(b"a", replica_assignment={0: [4, 3]})
    disks.take_down(3)
    cluster.append(topic, records(b"only on broker 4"))
    disks.take_down(4)
    disks.give_back(3)
    cluster.run_controller()
    looks = iter([lambda order, worker: None])
    look = inspections.inspect_replica
    monkeypatch.setattr(inspections, "inspect_replica", lambda *given: next(looks, look)(*given))

    told = call.json("leader-election", "--election-type", "unclean", "--topic", topic, code=1)

    disks.give_back(4)
    cluster.run_controller()
    assert (told["elected"], told["not_elected"][0]["leader"]) == ([], None)


def told_at(time_ms, key):
    return [
        ProducerRecord(producer_id="p", producer_epoch=0, renewed_at_ms=time_ms),
        OffsetCommitRecord(
            group="g",
            topic_id=key.topic_id,
            partition=key.partition,
            offset=0,
            leader_epoch=None,
            renewed_at_ms=time_ms,
        ),
    ]


def partition_key(cluster, topic):
    return PartitionKey(cluster.image.topic_ids[topic], 0)
