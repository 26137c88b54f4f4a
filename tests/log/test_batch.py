"""Segments and batches: what their names and headers say."""

from dataclasses import replace

import pytest

from kafka_on_spark.log.batch import StagedBatch
from tests.builders import batch, segment, staged, stamp

ONE = batch("a", 4, "2 1", epoch=3, producer=stamp(1))


# fmt: off
IMPOSSIBLE = [
    pytest.param(lambda: segment("a", 0),                                               id="segment-without-records"),
    pytest.param(lambda: replace(segment("a"), file_name="part-0.parquet"),             id="a-file-that-is-no-segment"),
    pytest.param(lambda: replace(segment("a"), file_name="../0-a-b.parquet"),           id="a-path-out-of-the-folder"),
    pytest.param(lambda: replace(segment("a"), file_name="0-../../a-b.parquet"),        id="a-path-out-of-the-folder-within"),
    pytest.param(lambda: replace(segment("a"), file_name="/etc/0-a-b.parquet"),         id="a-path-from-the-top"),
    pytest.param(lambda: replace(segment("a"), file_name="file:///etc/0-a-b.parquet"),  id="a-url"),
    pytest.param(lambda: replace(segment("a"), file_name="0-a%2Fb-c.parquet"),          id="a-path-that-is-decoded"),
    pytest.param(lambda: replace(segment("a"), file_name="0-a-b.parquet\0"),            id="a-zero"),
    pytest.param(lambda: replace(segment("a"), file_name="99999999999-a-b.parquet"),    id="an-epoch-beyond-32-bits"),
    pytest.param(lambda: replace(segment("a"), timestamp_min_us=9, timestamp_max_us=8), id="timestamps-the-wrong-way"),
    pytest.param(lambda: replace(segment("a"), size_bytes=-1),                          id="a-size-below-0"),
    pytest.param(lambda: replace(ONE, base_offset=-1),                                  id="an-offset-below-0"),
    pytest.param(lambda: replace(ONE, record_count=0),                                  id="batch-without-records"),
    pytest.param(lambda: replace(ONE, leader_epoch=-1),                                 id="an-epoch-below-0"),
    pytest.param(lambda: replace(ONE, partition_count=0),                               id="an-append-to-no-partition"),
    pytest.param(lambda: replace(ONE, appended_at_ms=-1),                               id="an-append-before-1970"),
    pytest.param(lambda: StagedBatch(segments=(), partition_count=1),                   id="append-without-segments"),
    pytest.param(lambda: replace(staged("a"), segments=2 * staged("a").segments),       id="a-file-twice"),
    pytest.param(lambda: stamp(-1),                                                     id="negative-sequence"),
    pytest.param(lambda: stamp(0, digest=2**63),                                        id="digest-beyond-64-bits"),
]
# fmt: on


@pytest.mark.parametrize("make", IMPOSSIBLE)
def test_impossible_value_is_a_bug_of_ours(make):
    with pytest.raises(AssertionError):
        make()
