"""A segment whose bytes changed is never read as other records."""

import pyarrow as pa
import pytest

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import LeaderEpoch
from kafka_on_spark.log.segments import RECORD_SCHEMA, new_segment, read_segment
from kafka_on_spark.store.root_identity import META_PROPERTIES, RootIdentity
from kafka_on_spark.store.roots import StorageOptions
from tests.builders import address

OPTIONS = StorageOptions()
RECORDS = pa.Table.from_pylist(
    [
        {"timestamp": n, "key": b"k%d" % (n % 2), "value": b"v%d" % n, "headers": []}
        for n in range(9)
    ],
    schema=RECORD_SCHEMA,
)


def test_no_flipped_bit_of_a_segment_is_read_as_other_records(tmp_path):
    """Pages have checksums, the footer has none: places and names of columns stand there."""
    replica = address(root=str(tmp_path))
    identity = RootIdentity("a-cluster", replica.broker_id, replica.directory_id)
    (tmp_path / META_PROPERTIES).write_bytes(identity.encode())
    segment, content = new_segment(RECORDS, LeaderEpoch(0))
    file = tmp_path / replica.folder.removeprefix(f"{tmp_path}/") / segment.file_name
    file.parent.mkdir(parents=True)
    whole, checked = content.to_pybytes(), 0

    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        file.write_bytes(flipped)
        with pytest.raises(CorruptLogError):
            read_segment(replica, segment, OPTIONS)
        checked += 1

    assert checked == len(whole) > 500
    file.write_bytes(whole)
    assert read_segment(replica, segment, OPTIONS).drop_columns("offset_delta") == RECORDS
