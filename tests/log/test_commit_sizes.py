"""How large a commit can be that names the most files."""

import json

from kafka_on_spark.log.batch import (
    SEGMENTS_A_BATCH_MAX,
    Batch,
    ProducerStamp,
    Segment,
    segment_name,
)
from kafka_on_spark.log.segments import files_of
from kafka_on_spark.store.local_files import COMMIT_BYTES_MAX

MUCH = 2**62


def test_a_commit_of_the_most_segments_that_an_append_may_have_can_be_read():
    segment = Segment(
        file_name=segment_name(2**31 - 1, "f" * 32, "f" * 32),
        size_bytes=2**32,
        record_count=2**31,
        timestamp_min_us=0,
        timestamp_max_us=0,
    )
    batch = Batch(
        base_offset=MUCH,
        record_count=2**31,
        leader_epoch=2**31 - 1,
        partition_count=2**31 - 1,
        producer=ProducerStamp(
            producer_id="p" * 1000,
            producer_epoch=2**31 - 1,
            sequence=MUCH,
            payload_digest=-(2**63),
        ),
        appended_at_ms=2**42,
        segments=(segment,),
        chain_digests=("f" * 64,),
    )
    [file] = files_of(batch)

    for action in (file.action(2**42), file.removal(2**42)):
        assert (len(json.dumps(action)) + 1) * SEGMENTS_A_BATCH_MAX < COMMIT_BYTES_MAX
