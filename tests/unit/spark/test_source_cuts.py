"""Where a query that passes over data loss looks for it in the metadata log."""

from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.records import ConfigRecord, Stamp
from kafka_on_spark.metadata.snapshot import snapshot_records
from kafka_on_spark.service.metadata.metadata_service import MetadataService
from kafka_on_spark.spark.format.source import cuts_of
from tests.fakes import FakeClock, MemoryMetadataLog

STAMP = Stamp(time_ms=0)


class CountedLog(MemoryMetadataLog):
    """A log that notes where its reads begin."""

    def __init__(self):
        super().__init__()
        self.began_at = []

    def read(self, *, from_offset, to_offset=None):
        self.began_at.append(from_offset)
        return super().read(from_offset=from_offset, to_offset=to_offset)


def test_only_the_metadata_log_since_the_last_snapshot_before_a_querys_offset_is_read():
    log = CountedLog()
    metadata = MetadataService(log, FakeClock(), random=lambda: 0.0)
    for value in range(4):
        record = ConfigRecord(topic_id=None, config_name="retention.ms", config_value=str(value))
        log.append([record], STAMP, expected_offset=Offset(value))
        image = metadata.catch_up()
        log.write_snapshot(snapshot_records(image), STAMP, image.offset)
    log.began_at.clear()

    assert cuts_of(metadata)(2) == {}

    assert min(log.began_at) == 2
