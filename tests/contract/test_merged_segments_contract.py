"""Merged segments by the SegmentStore port: for the fake and for files, on a disk and on a store."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.log import merging
from kafka_on_spark.log.batch import Border
from tests.contract.logs import EPOCH, append, created, rewrite
from tests.fakes import MemorySegmentStore
from tests.store.s3.faulty_s3 import Kind


@pytest.fixture
def disks(every_disks):
    return every_disks


@pytest.fixture
def source(disks):
    address = disks.addresses[1]
    created(disks, address)
    return address


@pytest.fixture
def parts(disks, source):
    """Two batches of three segments in all, and a third."""
    for counts in ((3, 2), (4,), (1,)):
        append(disks, source, *counts)
    return disks.replicas.open(source).load().batches


def test_neighbours_become_one_segment_that_keeps_where_each_plain_one_ended(disks, source, parts):
    made = rewrite(disks, source, parts)

    assert (made.base_offset, made.end_offset, made.record_count) == (0, 10, 10)
    assert made.chain_digest == parts[-1].chain_digest
    assert (made.leader_epoch, made.segment.epoch_in_name) == (EPOCH, EPOCH)
    assert made.appended_at_ms == max(part.appended_at_ms for part in parts)
    assert len(disks.content(source, made.segment.file_name)) == made.size_bytes
    disks.segments.check(source, made.segment)
    [first, second, third] = parts
    assert disks.segments.borders(source, made) == (
        Border(3, first.chain_digests[0]),
        Border(5, first.chain_digests[1]),
        Border(9, second.chain_digest),
        Border(10, third.chain_digest),
    )


def test_another_replica_takes_the_rest_of_one_from_a_border(disks, source, parts):
    target = disks.addresses[2]
    created(disks, target)
    made = rewrite(disks, source, parts)

    upper = rewrite(disks, source, [made], target=target, start=5, epoch=7)
    lower = rewrite(disks, source, [made], end=5)

    assert (upper.base_offset, upper.end_offset, upper.segment.epoch_in_name) == (5, 10, 7)
    assert [each.offset for each in disks.segments.borders(target, upper)] == [9, 10]
    assert [each.offset for each in disks.segments.borders(source, lower)] == [3, 5]
    assert lower.chain_digest == parts[0].chain_digest
    total = (lower.content_digest + upper.content_digest) % 2**63
    assert total == made.content_digest % 2**63


@pytest.mark.parametrize("end", [1, 4, 8])
def test_a_cut_where_no_batch_ended_is_refused(disks, source, parts, end):
    made = rewrite(disks, source, parts)
    before = disks.folders.names(source)

    with pytest.raises(CorruptLogError):
        rewrite(disks, source, [made], end=end)

    assert disks.folders.names(source) == before


def test_damage_of_what_is_merged_is_found_and_nothing_is_written(disks, source, parts):
    disks.damage(source, parts[1].segments[0])
    before = disks.folders.names(source)

    with pytest.raises(CorruptLogError):
        rewrite(disks, source, parts)

    assert disks.folders.names(source) == before


def test_the_borders_of_a_damaged_or_missing_file_are_not_told(disks, source, parts):
    made = rewrite(disks, source, parts)
    disks.damage(source, made.segment)
    with pytest.raises(CorruptLogError):
        disks.segments.borders(source, made)
    disks.folders.delete(source, [made.segment.file_name])

    with pytest.raises(CorruptLogError):
        disks.segments.borders(source, made)


def test_a_source_that_does_not_answer_is_named(disks, source, parts):
    target = disks.addresses[2]
    if disks.store is not None:
        for method in ("GET", "HEAD"):
            disks.store.order(Kind.DENIED, method=method, suffix=".parquet", count=-1)
        away = source
    else:
        away = replace(source, root=f"{source.root}-away")

    with pytest.raises(KafkaStorageError) as caught:
        rewrite(disks, away, parts, target=target)

    assert caught.value.context["broker_id"] == source.broker_id


def test_a_merged_segment_is_copied_with_its_borders(disks, source, parts):
    """A follower that has nothing yet takes its leader's file as it is."""
    target = disks.addresses[2]
    created(disks, target)
    made = rewrite(disks, source, parts)
    named = made.named_under(3)

    disks.segments.copy(source, target, [made.segment], [named.segment])

    assert disks.segments.borders(target, named) == disks.segments.borders(source, made)


def test_what_is_too_large_to_be_merged_is_told(disks, source, parts, monkeypatch):
    assert disks.segments.too_large_to_merge(source, parts) == frozenset()
    monkeypatch.setattr(merging, "UNCOMPRESSED_MAX", 1)
    if isinstance(disks.segments, MemorySegmentStore):
        disks.segments.too_large = {each.file_name for part in parts for each in part.segments}

    found = disks.segments.too_large_to_merge(source, parts[1:])

    assert found == {segment for each in parts[1:] for segment in each.segments}
