"""Opening a cluster takes what its image takes, however long its metadata log has grown."""

import pytest

from kafka_on_spark.base import merge_tiers
from kafka_on_spark.metadata import metadata_files, metadata_service
from kafka_on_spark.metadata.cluster_roots import create_metadata_log
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.metadata.quorum import voter_log
from kafka_on_spark.metadata.records import ClusterRecord, ConfigRecord
from kafka_on_spark.node.opening import open_metadata
from kafka_on_spark.store.roots import RootFiles, StorageOptions
from tests.cluster.folders import quick_folder

pytestmark = pytest.mark.long  # a log of hundreds of decisions takes ten seconds
OPTIONS = StorageOptions()
LARGEST = 64
SNAPSHOT_RECORDS = 40
YOUNG, OLD, LOOKS = 120, 360, 40
LARGEST_FILES = 6


class Counts:
    """What was read of a root: files of the log's rows, snapshots, and rows that were decoded."""

    def __init__(self, monkeypatch):
        self.files = self.snapshots = self.rows = 0
        read, decoded = RootFiles.read, metadata_files._decoded

        def note_read(files, path, *limits):
            is_rows = path.endswith(".parquet") and "/_delta_log/" not in path
            self.snapshots += "/snapshots/" in path
            self.files += is_rows and "/snapshots/" not in path
            return read(files, path, *limits)

        def note_rows(table, batches):
            self.rows += sum(map(len, batches))
            return decoded(table, batches)

        monkeypatch.setattr(RootFiles, "read", note_read)
        monkeypatch.setattr(metadata_files, "_decoded", note_rows)


@pytest.fixture(scope="module")
def long_log():
    """Return what is read of a young log and of an old one when a cluster is opened, and the service of
    the old one."""
    with quick_folder() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(merge_tiers, "FAN_IN", 4)
        patched.setattr(voter_log, "MERGE_INTERVAL", 4)
        patched.setattr(metadata_service, "SNAPSHOT_RECORDS_MIN", SNAPSHOT_RECORDS)
        root = str(folder)
        create_metadata_log(root, OPTIONS, "cluster")
        service = open_metadata(root, OPTIONS)
        first = ClusterRecord(cluster_id="cluster")
        service.submit(lambda image: ControllerResult([first], None), timeout_ms=60_000)
        for number in range(YOUNG):
            decide(service, number)
        young = counted(root, service)
        for number in range(OLD - YOUNG):
            decide(service, number)
        yield young, counted(root, service), service


def counted(root, service):
    """Decide a few times more, and open the cluster each time; return the most that was read."""
    most = [0, 0, 0]
    for number in range(LOOKS):
        decide(service, number)
        with pytest.MonkeyPatch.context() as patched:
            counts = Counts(patched)
            opened = open_metadata(root, OPTIONS)
        assert opened.image.configs == service.image.configs
        assert opened.image.offset == service.image.offset
        most = list(map(max, most, [counts.files, counts.snapshots, counts.rows]))
    return most


def decide(service, number):
    record = ConfigRecord(topic_id=None, config_name="num.partitions", config_value=str(number))
    service.submit(lambda image: ControllerResult([record], None), timeout_ms=60_000)
    service.maintain()


def test_opening_reads_no_more_of_a_long_log_than_of_a_short_one(long_log):
    # The newest snapshot, and what came after it: nothing was decoded to be thrown away. In how many
    # files that lies depends on the moment, and only on that.
    for files, snapshots, rows in long_log[:2]:
        assert files <= 3 * 4
        assert snapshots == 1
        assert rows <= SNAPSHOT_RECORDS + 4


def test_table_of_a_long_log_names_few_files(long_log):
    *_, service = long_log
    assert service.image.offset > LARGEST_FILES * LARGEST

    # All but the newest are of the largest class; each of them has that many records at least.
    assert (
        len(list(service.log.voter_log._delta.active_files()))
        <= LARGEST_FILES + 3 * 4 + SNAPSHOT_RECORDS // 4
    )
