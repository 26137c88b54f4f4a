"""A deep check beside processes that merge, compact and clean: what they delete is not missing."""

import threading
from unittest.mock import patch

import pytest

from kafka_on_spark.base import merge_tiers
from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.fsck.cluster_audit import check_cluster
from kafka_on_spark.fsck.metadata_audit import VoterReader
from kafka_on_spark.fsck.replica_audit import ReplicaAudit
from tests.cluster.disks import new_disks, records
from tests.fsck.lives import TOPIC
from tests.fsck.upkept import FAN_IN, PRICES, append_prices


@pytest.fixture
def disks():
    """A log that is to be merged, and a compacted one; what they remove is deleted at once."""
    configs = {"merge.min.lag.batches": 1, "file.delete.delay.ms": 0}
    with new_disks(configs=configs) as disks, patch.object(merge_tiers, "FAN_IN", FAN_IN):
        assigned, cluster = {0: [1, 2, 3]}, disks.cluster
        cluster.create_topic(TOPIC, replica_assignment=assigned)
        for number in range(FAN_IN + 4):
            cluster.append(TOPIC, records(b"%d" % number), producer_id="p", sequence=number)
        compacts = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
        cluster.create_topic(PRICES, replica_assignment=assigned, configs=compacts)
        append_prices(cluster, "a1 b1 c1", "a2 -b", "a3 d1")
        yield disks


@pytest.mark.parametrize("names_one_between", [False, True])
def test_a_follower_that_merges_what_the_state_of_its_leader_covers_names_no_other(
    disks, names_one_between
):
    cluster = disks.cluster
    disks.take_down(1)  # which leads: files of another leadership are merged by themselves
    for number in range(FAN_IN + 4, 2 * FAN_IN + 8):
        cluster.append(TOPIC, records(b"%d" % number), producer_id="p", sequence=number)
    maintain(cluster)
    disks.give_back(1)
    cluster.run_controller()
    cluster.replicate()
    if names_one_between:
        cluster.elect_leaders()
        cluster.append(TOPIC, records(b"a"), transactional_id="w")  # its fence is named
    maintain(cluster)

    assert check_cluster(cluster.root).findings == ()


class Meanwhile:
    """Has something happen before the first call of a method of the audit, and counts the files
    that are gone by then."""

    def __init__(self, monkeypatch, name, happens):
        self.gone = 0
        self._happens = happens
        self._lock = threading.Lock()
        self._has_happened = False
        real = getattr(ReplicaAudit, name)

        def call(audit, *args, **options):
            self._happen()
            return real(audit, *args, **options)

        content = ReplicaAudit._content

        def counted(audit, file):
            try:
                return content(audit, file)
            except CorruptLogError:
                self.gone += 1
                raise

        monkeypatch.setattr(ReplicaAudit, "_content", counted)
        monkeypatch.setattr(ReplicaAudit, name, call)

    def _happen(self):
        with self._lock:
            if not self._has_happened:
                self._has_happened = True
                self._happens()


def maintain(cluster):
    for _ in range(3):
        cluster.maintain()


def test_segments_that_are_merged_and_deleted_while_they_are_read_are_not_missing(
    disks, monkeypatch
):
    meanwhile = Meanwhile(monkeypatch, "_read_segments", lambda: maintain(disks.cluster))

    report = check_cluster(disks.metadata_root)

    assert report.findings == ()
    assert meanwhile.gone
    assert sum(each.read_files for each in report.coverage) > 0


def test_logs_that_are_cut_or_compacted_before_they_are_read_are_not_compared_and_that_is_said(
    disks, monkeypatch
):
    def cut():
        disks.cluster.delete_records({(TOPIC, 0): 10})
        maintain(disks.cluster)

    Meanwhile(monkeypatch, "_catch_up", cut)

    report = check_cluster(disks.metadata_root)

    assert report.findings == ()
    words = "on brokers 1, 2, 3, since logs were cut at their start or compacted"
    assert report.not_checked == (
        f"of {TOPIC}-0, the records in [0, {FAN_IN + 4}) {words} while they were read: try again",
        f"of {PRICES}-0, the records in [0, 7) {words} while they were read: try again",
    )


def test_a_segment_that_is_missing_and_named_still_is_missing(disks, monkeypatch):
    """While the log goes on beside it."""
    segment = min(disks.folder(2, TOPIC).glob("*.parquet"))

    def lose():
        disks.cluster.append(TOPIC, records(b"more"))
        segment.unlink()

    Meanwhile(monkeypatch, "_read_segment", lose)

    report = check_cluster(disks.metadata_root)

    assert report.invariants == {"I15"}
    assert {each.place.broker_id for each in report.findings} == {2}


def test_files_of_the_metadata_log_that_are_merged_and_deleted_while_it_is_read_are_not_missing(
    disks, monkeypatch
):
    voter = disks.cluster._metadata.log.voter_log
    rows, missed = VoterReader.rows, []

    def late(reader, file):
        if not missed:
            with patch.object(merge_tiers, "FAN_IN", 2):
                voter.merge()
            voter.clean(10**15)
        try:
            yield from rows(reader, file)
        except CorruptLogError:
            missed.append(file)
            raise

    monkeypatch.setattr(VoterReader, "rows", late)

    report = check_cluster(disks.metadata_root)

    assert missed
    assert report.findings == ()
