"""A cluster whose oldest metadata is gone, as a setting says: it goes on, and is checked."""

import json

import pytest
from typer.testing import CliRunner

from kafka_on_spark import Cluster
from kafka_on_spark.base import merge_tiers
from kafka_on_spark.base.errors import HistoryExpiredError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.cli.application import app
from kafka_on_spark.fsck.cluster_audit import check_cluster
from kafka_on_spark.metadata import metadata_service
from tests.cluster.disks import new_disks, records
from tests.fsck.lives import TOPIC

APPENDS_MAX = 2000


@pytest.fixture(scope="module")
def disks():
    with pytest.MonkeyPatch.context() as patch, new_disks() as disks:
        patch.setattr(metadata_service, "HISTORY_KEPT_MS_MIN", 0)
        patch.setattr(metadata_service, "SNAPSHOT_RECORDS_MIN", 1)
        patch.setattr(merge_tiers, "FAN_IN", 8)
        disks.cluster.create_topic(TOPIC, replica_assignment={0: [1, 2, 3], 1: [2, 3, 1]})
        disks.early = disks.image
        disks.cluster.alter_cluster_configs({"metadata.max.retention.ms": 0})
        append(disks.cluster, range(20))
        disks.take_down(1)
        append(disks.cluster, range(20, 40))
        disks.give_back(1)
        disks.settle()
        led_back = disks.image.offset
        disks.count = 40
        while start_of(disks.cluster) <= led_back:  # files are merged beside the appends
            assert disks.count < APPENDS_MAX
            append(disks.cluster, range(disks.count, disks.count + 10))
            disks.count += 10
        yield disks


def append(cluster, numbers):
    for number in numbers:
        cluster.append(TOPIC, records(b"%d" % number), producer_id="p", sequence=number)


def start_of(cluster):
    return cluster._metadata.log.voter_log._delta.counters().get("history-start", 0)


@pytest.mark.parametrize("is_deep", [False, True])
def test_check_begins_with_a_snapshot_and_says_what_it_did_not_check(disks, is_deep):
    report = check_cluster(disks.metadata_root, deep=is_deep)

    assert [*map(str, report.findings)] == []
    start = start_of(disks.cluster)
    assert any(f"before offset {start}" in each for each in report.not_checked)


READS = [
    pytest.param(lambda cluster: cluster.replay({"min.insync.replicas": 1}), id="replay"),
    pytest.param(lambda cluster: cluster._metadata.image_at(Offset(3)), id="as of"),
    pytest.param(lambda cluster: list(cluster._metadata.pieces_newest_first()), id="pieces"),
]


@pytest.mark.parametrize("read", READS)
def test_reader_of_what_is_gone_gets_one_sentence(disks, read):
    with pytest.raises(HistoryExpiredError, match=r"metadata\.max\.retention\.ms"):
        read(disks.cluster)


def test_histories_tell_what_is_kept(disks):
    start = start_of(disks.cluster)
    disks.cluster.add_partitions(TOPIC, to=3)

    then = Cluster.open(disks.metadata_root, as_of=disks.cluster._metadata.catch_up().offset)
    for cluster in (disks.cluster, then):
        [*_, last] = cluster.history(TOPIC)
        assert (last.partition, last.metadata_offset >= start) == (2, True)
        assert cluster.broker_history() == []


def test_the_log_is_printed_from_the_first_record_that_is_kept(disks):
    """A snapshot before it, in the history that is gone, is not asked for."""
    start, root = start_of(disks.cluster), str(disks.metadata_root)
    words = ["metadata", "--log", "--metadata-root", root, "--limit", "1", "--output", "json"]

    first, gone = (
        CliRunner().invoke(app, [*words, "--offset", str(each)]) for each in (start, start - 1)
    )

    assert [row["metadata_offset"] for row in json.loads(first.stdout)] == [start]
    assert f"before offset {start} " in gone.stderr


def test_process_that_was_away_for_longer_goes_on(disks):
    service = disks.cluster._metadata
    newest, service.image = service.image, disks.early

    assert service.catch_up().topics == newest.topics
    assert service.image.offset == newest.offset


def test_cluster_is_opened_and_appended_to(disks):
    disks.close()
    cluster = disks.open()

    append(cluster, range(disks.count, disks.count + 3))
    assert cluster.read(TOPIC).num_rows == disks.count + 3
