"""What is too large for one merged file: what a merge leaves out, or leaves for the next."""

from dataclasses import replace
from pathlib import Path

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.log import merging
from kafka_on_spark.log.merging import fitting_into_one, too_large_to_merge
from kafka_on_spark.store import parquet_files
from tests.log.replicas.rewriting import (
    OPTIONS,
    content,
    expected,
    merge,
    two,
    uncompressed,
    written,
)


@pytest.mark.parametrize("end_bytes", [2**16, 8])
def test_what_has_more_than_half_of_a_files_bytes_is_too_large_to_be_merged(
    roots, monkeypatch, end_bytes
):
    here = roots[1]
    small, large = written(here, 0, 3), written(here, 3, 200, 100)
    merged = merge(here, two(here))
    gone = replace(small, segments=(replace(small.segments[0], file_name="4-u-d.parquet"),))
    damaged = written(here, 0, 200)
    path = Path(here.folder) / damaged.segments[0].file_name
    path.write_bytes(path.read_bytes()[:-9])
    monkeypatch.setattr(merging, "END_BYTES", end_bytes)
    parts = (small, large, merged, gone, damaged)

    for most, found in [
        (2 * uncompressed(here, large), frozenset()),
        (2 * uncompressed(here, large) - 2, frozenset(large.segments)),
        (2, frozenset({*small.segments, *large.segments, merged.segment})),
    ]:
        monkeypatch.setattr(merging, "UNCOMPRESSED_MAX", most)
        assert too_large_to_merge(here, parts, OPTIONS) == found


def test_of_neighbours_as_many_fit_into_one_file_as_a_reader_takes_uncompressed(roots, monkeypatch):
    here = roots[1]
    parts = [written(here, 0, 50, 30), written(here, 80, 50), written(here, 130, 50)]
    sizes = [uncompressed(here, part) for part in parts]
    assert fitting_into_one(here, parts, OPTIONS) == 3

    for most, count in [
        (sum(sizes), 3),
        (sum(sizes) - 1, 2),
        (sizes[0] + sizes[1], 2),
        (sizes[0] + sizes[1] - 1, 1),
        (1, 1),
    ]:
        monkeypatch.setattr(merging, "UNCOMPRESSED_MAX", most)
        assert fitting_into_one(here, parts, OPTIONS) == count


def test_a_file_that_no_reader_would_take_is_not_written(roots, monkeypatch):
    here = roots[1]
    parts = [written(here, 0, 50), written(here, 50, 50)]
    monkeypatch.setattr(
        parquet_files, "UNCOMPRESSED_BYTES_MAX", 5 * uncompressed(here, parts[0]) // 4
    )
    before = set(Path(here.folder).iterdir())

    with pytest.raises(KafkaStorageError, match="append fewer at once"):
        merge(here, parts)

    assert set(Path(here.folder).iterdir()) == before


def test_what_is_too_large_for_one_file_is_left_for_the_next(roots, monkeypatch):
    here = roots[1]
    parts = [written(here, 0, 50), written(here, 50, 50), written(here, 100, 50)]
    sizes = [uncompressed(here, part) for part in parts]
    monkeypatch.setattr(merging, "UNCOMPRESSED_MAX", sizes[0] + sizes[1])

    made = merge(here, parts)

    assert (made.end_offset, made.record_count) == (100, 100)
    assert content(here, made) == expected(0, 100)
