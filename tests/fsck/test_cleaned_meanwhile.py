"""A deep check beside processes that merge, compact and clean: what they delete is not missing."""

import threading

import pytest

from kafka_on_spark.spark.wiring.fsck_services import check_cluster
from kafka_on_spark.storage.replicas.archives.archive import FileReplicaArchive
from tests.cluster.disks import new_disks, records
from tests.fsck.lives import TOPIC
from tests.fsck.upkept import PRICES, append_prices


@pytest.fixture
def disks():
    """A log that is to be merged, and a compacted one; what they remove is deleted at once."""
    configs = {"merge.min.lag.batches": 1, "file.delete.delay.ms": 0}
    with new_disks(configs=configs) as disks:
        assigned, cluster = {0: [1, 2, 3]}, disks.cluster
        cluster.create_topic(TOPIC, replica_assignment=assigned)
        for number in range(34):
            cluster.append(TOPIC, records(b"%d" % number), producer_id="p", sequence=number)
        compacts = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
        cluster.create_topic(PRICES, replica_assignment=assigned, configs=compacts)
        append_prices(cluster, "a1 b1 c1", "a2 -b", "a3 d1")
        yield disks


class Meanwhile:
    """Has something happen before the first call of a method of the archive, and counts the files
    that are gone by then."""

    def __init__(self, monkeypatch, name, happens):
        self.gone = 0
        self._happens = happens
        self._lock = threading.Lock()
        self._has_happened = False
        real = getattr(FileReplicaArchive, name)

        def call(archive, address, *args, **options):
            self._happen()
            return real(archive, address, *args, **options)

        monkeypatch.setattr(FileReplicaArchive, name, call)
        content = FileReplicaArchive._content

        def counted(archive, address, file):
            found = content(archive, address, file)
            self.gone += not isinstance(found, bytes)
            return found

        monkeypatch.setattr(FileReplicaArchive, "_content", counted)

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
    meanwhile = Meanwhile(monkeypatch, "check_segment", lambda: maintain(disks.cluster))

    report = check_cluster(disks.metadata_root)

    assert report.findings == ()
    assert meanwhile.gone
    assert sum(each.read_files for each in report.coverage) > 0


def test_compacted_segments_that_are_replaced_before_their_keys_are_compared(disks, monkeypatch):
    cluster = disks.cluster
    maintain(cluster)

    def compact():
        append_prices(cluster, "a4 c2", "a5")
        maintain(cluster)

    meanwhile = Meanwhile(monkeypatch, "compaction_flaws", compact)

    report = check_cluster(disks.metadata_root)

    assert report.findings == ()
    assert meanwhile.gone


def test_a_segment_that_is_missing_and_named_still_is_missing(disks, monkeypatch):
    """While the log goes on beside it."""
    folder = disks.folder(2, TOPIC)

    def lose():
        disks.cluster.append(TOPIC, records(b"more"))
        min(folder.glob("*.parquet")).unlink()

    Meanwhile(monkeypatch, "check_segment", lose)

    report = check_cluster(disks.metadata_root)

    assert report.invariants == {"I15"}
    assert {each.place.broker_id for each in report.findings} == {2}
