"""Merged segments as files: their records, their borders, what is checked, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_on_spark.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.ids import NO_CHAIN, BrokerId, LeaderEpoch, Offset
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.chain import chained
from kafka_on_spark.log.merged_segment import Border
from kafka_on_spark.storage.hashing import content_digests, sum_digests
from kafka_on_spark.storage.identity.root_identity import prepare_root
from kafka_on_spark.storage.replicas import merged_files, uncompressed_sizes
from kafka_on_spark.storage.replicas.borders import BORDER_BYTES, read_borders
from kafka_on_spark.storage.replicas.merged_files import encode_merged, rewrite
from kafka_on_spark.storage.replicas.replica_folders import replica_folder
from kafka_on_spark.storage.replicas.segments import (
    RECORD_SCHEMA,
    SEGMENT_SCHEMA,
    new_segment,
    put_segment,
    read_segment,
    segment_batches,
)
from kafka_on_spark.storage.replicas.uncompressed_sizes import fitting_into_one, too_large_to_merge
from kafka_on_spark.storage.roots import parquet_files
from kafka_on_spark.storage.roots.roots import RootFiles, StorageOptions
from tests.builders import address, segment

OPTIONS = StorageOptions()
EPOCH = LeaderEpoch(4)
HEADERS = [[("trace", b"1"), ("trace", None)], None, []]


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    found = {}
    for number in (1, 2):
        root = str(tmp_path_factory.mktemp("root") / str(number))
        directory = prepare_root(root, "a-cluster", BrokerId(number), OPTIONS).directory_id
        found[number] = replace(address(number), root=root, directory_id=directory)
    return found


def rows(first, count):
    """Return records whose content tells their number; every third has no key, value or header."""
    numbers = range(first, first + count)
    return pa.table(
        [
            pa.array([1_000_000 * (each % 7) for each in numbers]),
            pa.array([None if each % 3 == 0 else b"k%d" % each for each in numbers]),
            pa.array([None if each % 3 == 1 else b"v%d" % each for each in numbers]),
            pa.array([HEADERS[each % 3] for each in numbers], RECORD_SCHEMA.field("headers").type),
        ],
        names=RECORD_SCHEMA.names,
    ).cast(RECORD_SCHEMA)


def written(place, base, *counts, before=NO_CHAIN, epoch=EPOCH, at_ms=5, **fields):
    """Write an append of segments with so many records each; return its batch."""
    segments, first = [], base
    for count in counts:
        segment, content = new_segment(rows(first, count), epoch)
        assert put_segment([place], segment, content, OPTIONS)[place.broker_id] is None
        segments.append(segment)
        first += count
    made = Batch(
        base_offset=Offset(base),
        record_count=sum(counts),
        leader_epoch=epoch,
        partition_count=1,
        producer=None,
        appended_at_ms=at_ms,
        segments=tuple(segments),
        **fields,
    )
    return chained(before, place.key.topic_id, place.key.partition, made)


def two(place, **fields):
    first = written(place, 10, 3, 2, **fields)
    return [first, written(place, 15, 4, before=first.chain_digest, **fields)]


def merge(source, parts, *, target=None, start=None, end=None, epoch=EPOCH):
    return rewrite(
        source,
        target or source,
        parts,
        OPTIONS,
        leader_epoch=epoch,
        start_offset=Offset(parts[0].base_offset if start is None else start),
        end_offset=Offset(parts[-1].end_offset if end is None else end),
    )


def content(place, merged):
    """Return a merged segment's records by offset."""
    table = read_segment(place, merged.segment, OPTIONS)
    return {merged.base_offset + row.pop("offset_delta"): row for row in table.to_pylist()}


def expected(first, count):
    return dict(zip(range(first, first + count), rows(first, count).to_pylist(), strict=True))


def test_a_merge_has_all_records_at_their_offsets(roots):
    here = roots[1]
    parts = two(here)

    made = merge(here, parts)

    assert content(here, made) == expected(10, 9)
    assert (made.base_offset, made.end_offset, made.record_count) == (10, 19, 9)
    assert made.chain_digest == parts[-1].chain_digest
    assert (made.leader_epoch, made.segment.epoch_in_name) == (EPOCH, EPOCH)
    assert (made.segment.timestamp_min_us, made.segment.timestamp_max_us) == (0, 6_000_000)
    assert (Path(replica_folder(here)) / made.segment.file_name).stat().st_size == made.size_bytes


def test_it_keeps_where_each_segment_ended(roots):
    here = roots[1]
    [first, second] = parts = two(here)

    made = merge(here, parts)

    assert read_borders(here, made, OPTIONS) == (
        Border(13, first.chain_digests[0]),
        Border(15, first.chain_digests[1]),
        Border(19, second.chain_digest),
    )


def test_a_merge_of_merged_segments_keeps_records_borders_and_content(roots):
    here = roots[1]
    parts = two(here)
    third = written(here, 19, 1, before=parts[-1].chain_digest)
    whole = merge(here, [*parts, third])

    again = merge(here, [merge(here, parts), third])

    assert content(here, again) == content(here, whole) == expected(10, 10)
    assert read_borders(here, again, OPTIONS) == read_borders(here, whole, OPTIONS)
    assert again.content_digest == whole.content_digest
    assert again.segment.uuid != whole.segment.uuid


def test_a_part_of_a_merged_segment_is_one_again_at_another_replica(roots):
    """What a follower takes whose log ends inside its leader's segment, and what a cut leaves."""
    leader, follower = roots[1], roots[2]
    made = merge(leader, two(leader))

    upper = merge(leader, [made], target=follower, start=15, epoch=LeaderEpoch(9))
    lower = merge(leader, [made], end=15)

    assert content(follower, upper) == expected(15, 4)
    assert (upper.base_offset, upper.end_offset, upper.segment.epoch_in_name) == (15, 19, 9)
    assert content(leader, lower) == expected(10, 5)
    assert lower.chain_digest == read_borders(leader, made, OPTIONS)[1].chain_digest
    assert [each.offset for each in read_borders(follower, upper, OPTIONS)] == [19]
    assert [each.offset for each in read_borders(leader, lower, OPTIONS)] == [13, 15]
    total = (lower.content_digest + upper.content_digest) % 2**64
    assert total == made.content_digest % 2**64


@pytest.mark.parametrize("end", [11, 14, 18])
def test_a_cut_where_no_batch_ended_is_refused(roots, end):
    here = roots[1]
    made = merge(here, two(here))

    with pytest.raises(CorruptLogError, match="no batch ended"):
        merge(here, [made], end=end)


def test_the_time_of_an_append_is_written_into_the_file(roots):
    here = roots[1]
    first = written(here, 0, 2, at_ms=7, has_append_time=True)
    second = written(here, 2, 1, at_ms=9, has_append_time=True, before=first.chain_digest)

    made = merge(here, [first, second])

    times = read_segment(here, made.segment, OPTIONS, ["timestamp"])["timestamp"].cast(pa.int64())
    assert times.to_pylist() == [7000, 7000, 9000]
    assert (made.has_append_time, made.appended_at_ms) == (True, 9)
    assert (made.segment.timestamp_min_us, made.segment.timestamp_max_us) == (7000, 9000)


def test_the_content_digest_covers_offset_time_key_value_and_headers(roots):
    here = roots[1]
    made = merge(here, two(here))
    [records] = read_segment(here, made.segment, OPTIONS).combine_chunks().to_batches()

    def digest(batch, base=10):
        return sum_digests(content_digests(batch, base))

    assert digest(records) == made.content_digest
    assert digest(records, 11) != made.content_digest
    for name in ("timestamp", "key", "value", "headers"):
        column = records.column(name).to_pylist()
        place = records.schema.get_field_index(name)
        field = records.schema.field(name)
        changed = pa.array(column[1:] + column[:1], field.type)
        assert digest(records.set_column(place, field, changed)) != made.content_digest


def test_the_file_has_the_encodings_of_a_segment_and_page_checksums(roots):
    here = roots[1]
    made = merge(here, [written(here, 0, 2000)])
    path = Path(replica_folder(here)) / made.segment.file_name

    file = pq.ParquetFile(path, page_checksum_verification=True)

    assert file.read().num_rows == 2000
    columns = [file.metadata.row_group(0).column(place) for place in range(4)]
    wanted = ("DELTA_BINARY_PACKED", "DELTA_BINARY_PACKED", "DELTA_BYTE_ARRAY", "PLAIN")
    for column, encoding in zip(columns, wanted, strict=True):
        assert set(column.encodings) <= {encoding, "RLE"}
    assert {each.compression for each in columns} == {"ZSTD"}


def test_row_groups_are_of_a_bounded_size(roots, monkeypatch):
    here = roots[1]
    monkeypatch.setattr(merged_files, "GROUP_BYTES", 1000)
    monkeypatch.setattr(merged_files, "BATCH_ROWS", 100)

    made = merge(here, [written(here, 0, 250, 250), written(here, 500, 100)])

    assert content(here, made) == expected(0, 600)
    file = pq.ParquetFile(Path(replica_folder(here)) / made.segment.file_name)
    assert file.metadata.num_row_groups == 7  # a batch of 100 or of 50 records each


def test_a_segment_without_records_is_a_file(roots):
    none = SEGMENT_SCHEMA.empty_table().to_batches()

    file = encode_merged(none, Offset(5))

    assert file.content.record_count == 0
    assert file.segment(EPOCH, empty_us=(3, 4)).timestamp_max_us == 4
    assert pq.read_table(pa.BufferReader(file.data)).schema.names == SEGMENT_SCHEMA.names


def test_damage_of_what_is_read_is_found_and_nothing_is_written(roots):
    here = roots[1]
    parts = two(here)
    path = Path(replica_folder(here)) / parts[1].segments[0].file_name
    path.write_bytes(path.read_bytes()[:-9] + b"\0" * 9)
    before = set(path.parent.iterdir())

    with pytest.raises(CorruptLogError):
        merge(here, parts)

    assert set(path.parent.iterdir()) == before


def test_a_merged_segment_with_other_records_than_its_header_says_is_found(roots):
    here = roots[1]
    made = merge(here, two(here))

    with pytest.raises(CorruptLogError, match="header says"):
        merge(here, [replace(made, content_digest=made.content_digest ^ 1)])


def test_borders_of_another_segment_are_not_taken(roots):
    here = roots[1]
    made = merge(here, two(here))

    for fields in ({"end_offset": Offset(20)}, {"chain_digest": NO_CHAIN}):
        with pytest.raises((CorruptLogError, KafkaStorageError)):
            read_borders(here, replace(made, **fields), OPTIONS)


def test_a_write_that_is_not_read_back_as_it_was_is_no_merge(roots, monkeypatch):
    here = roots[1]
    parts = two(here)
    read = merged_files.segment_batches

    def lies(*arguments):
        for records in read(*arguments):
            yield records.slice(1)

    monkeypatch.setattr(merged_files, "segment_batches", lies)

    with pytest.raises(KafkaStorageError, match="other records"):
        merge(here, parts)


def test_a_source_that_does_not_answer_is_named(roots):
    here = roots[1]
    parts = two(here)
    away = replace(here, root=f"{here.root}-away")

    with pytest.raises(KafkaStorageError) as caught:
        merge(away, parts, target=roots[2])

    assert caught.value.context["broker_id"] == away.broker_id


def uncompressed(place, part):
    """Return how many bytes a part has, as pyarrow reads it of the whole files."""
    paths = [Path(replica_folder(place)) / segment.file_name for segment in part.segments]
    return sum(pq.read_metadata(path).row_group(0).total_byte_size for path in paths)


@pytest.mark.parametrize("end_bytes", [2**16, 8])
def test_what_has_more_than_half_of_a_files_bytes_is_too_large_to_be_merged(
    roots, monkeypatch, end_bytes
):
    here = roots[1]
    small, large = written(here, 0, 3), written(here, 3, 200, 100)
    merged = merge(here, two(here))
    gone = replace(small, segments=(replace(small.segments[0], file_name="4-u-d.parquet"),))
    damaged = written(here, 0, 200)
    path = Path(replica_folder(here)) / damaged.segments[0].file_name
    path.write_bytes(path.read_bytes()[:-9])
    monkeypatch.setattr(uncompressed_sizes, "END_BYTES", end_bytes)
    parts = (small, large, merged, gone, damaged)

    for most, found in [
        (2 * uncompressed(here, large), frozenset()),
        (2 * uncompressed(here, large) - 2, frozenset(large.segments)),
        (2, frozenset({*small.segments, *large.segments, merged.segment})),
    ]:
        monkeypatch.setattr(merged_files, "UNCOMPRESSED_MAX", most)
        monkeypatch.setattr(uncompressed_sizes, "_found", uncompressed_sizes._Found())
        assert too_large_to_merge(here, parts, OPTIONS) == found


def test_what_was_found_too_large_is_not_looked_at_again_nor_are_others_for_its_sake(
    roots, monkeypatch
):
    """Each visit of upkeep read the ends of all files that a merge with it would take."""
    here = roots[1]
    small, large = written(here, 0, 3), written(here, 3, 200, 100)
    monkeypatch.setattr(merged_files, "UNCOMPRESSED_MAX", 2 * uncompressed(here, large) - 2)
    found = too_large_to_merge(here, [small, large], OPTIONS)
    looks = []
    monkeypatch.setattr(RootFiles, "read_end", lambda files, path, *limits: looks.append(path))

    assert too_large_to_merge(here, [small, large], OPTIONS) == found == set(large.segments)
    assert looks == []
    too_large_to_merge(here, [small], OPTIONS)
    assert looks != []


def test_of_what_was_found_too_large_the_newest_is_kept_in_mind(monkeypatch):
    monkeypatch.setattr(uncompressed_sizes, "FOUND_MAX", 2)
    found = uncompressed_sizes._Found()
    segments = [segment(name) for name in "abc"]

    found.add(segments[:1])
    found.add(segments[1:])

    assert found.among(segments) == set(segments[1:])


def test_what_has_more_than_half_of_a_files_borders_is_too_large_to_be_merged(roots, monkeypatch):
    here = roots[1]
    few, many = merge(here, two(here)), merge(here, [written(here, 0, *[1] * 40)])
    path = Path(replica_folder(here)) / many.segment.file_name
    footer_bytes = pq.read_metadata(path).serialized_size + 8
    monkeypatch.setattr(merged_files, "UNCOMPRESSED_MAX", 2**20)
    half = footer_bytes // BORDER_BYTES

    for most, found in [
        (2 * half + 2, frozenset()),
        (2 * half - 2, frozenset({many.segment})),
    ]:
        monkeypatch.setattr(merged_files, "BORDERS_MAX", most)
        assert too_large_to_merge(here, (few, many), OPTIONS) == found


def test_of_a_file_too_small_to_be_large_no_footer_is_read(roots):
    here = roots[1]
    away = replace(here, root=f"{here.root}-away")

    assert too_large_to_merge(away, two(here), OPTIONS) == frozenset()


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
        monkeypatch.setattr(merged_files, "UNCOMPRESSED_MAX", most)
        assert fitting_into_one(here, parts, OPTIONS) == count


def test_a_file_that_no_reader_would_take_is_not_written(roots, monkeypatch):
    here = roots[1]
    parts = [written(here, 0, 50), written(here, 50, 50)]
    monkeypatch.setattr(
        parquet_files, "UNCOMPRESSED_BYTES_MAX", 5 * uncompressed(here, parts[0]) // 4
    )
    before = set(Path(replica_folder(here)).iterdir())

    with pytest.raises(KafkaStorageError, match="append fewer at once"):
        merge(here, parts)

    assert set(Path(replica_folder(here)).iterdir()) == before


def test_what_is_too_large_for_one_file_is_left_for_the_next(roots, monkeypatch):
    here = roots[1]
    parts = [written(here, 0, 50), written(here, 50, 50), written(here, 100, 50)]
    sizes = [uncompressed(here, part) for part in parts]
    monkeypatch.setattr(merged_files, "UNCOMPRESSED_MAX", sizes[0] + sizes[1])

    made = merge(here, parts)

    assert (made.end_offset, made.record_count) == (100, 100)
    assert content(here, made) == expected(0, 100)


def test_what_has_too_many_borders_for_one_file_is_left_for_the_next(roots, monkeypatch):
    """Of four million appends of a record each, in one file, no reader would take the footer."""
    here = roots[1]
    first = merge(here, two(here))
    parts = [first, written(here, 19, 1, 1, before=first.chain_digest)]

    for most, end in [(5, 21), (4, 19)]:
        monkeypatch.setattr(merged_files, "BORDERS_MAX", most)
        made = merge(here, parts)

        assert made.end_offset == end
        assert content(here, made) == expected(10, end - 10)


def test_no_more_than_a_row_group_of_a_file_is_decoded_at_once_however_few_rows_it_has(
    roots, monkeypatch
):
    """65,536 rows of large values would be all of a merged file, which compresses well: gigabytes,
    and more than Arrow holds of a record's parts side by side."""
    here = roots[1]
    monkeypatch.setattr(merged_files, "GROUP_BYTES", 1)
    made = merge(here, two(here))

    batches = segment_batches(here, made.segment, OPTIONS, ("offset_delta", "value"), 3)

    assert [each.num_rows for each in batches] == [3, 2, 3, 1]
