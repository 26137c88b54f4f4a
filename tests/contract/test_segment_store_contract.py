"""The contract of SegmentStore, for the fake and for the one on files."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import CorruptLogError, KafkaStorageError, ReplicaLostError
from kafka_on_spark.base.ids import LeaderEpoch
from tests.builders import disk


@pytest.fixture
def source(disks):
    return disks.addresses[1]


@pytest.fixture
def target(disks):
    return disks.addresses[2]


def test_segments_are_copied_byte_for_byte_under_the_names_that_are_given(disks, source, target):
    segments = [disks.put(source, "a", 2), disks.put(source, "b", 1)]
    named = [segments[0], segments[1].named_under(LeaderEpoch(7))]

    disks.segments.copy(source, target, segments, named)

    for segment, copy in zip(segments, named, strict=True):
        copied = disks.content(target, copy.file_name)
        assert copied == disks.content(source, segment.file_name)
        assert len(copied) == segment.size_bytes
    assert disks.content(target, segments[1].file_name) is None


def test_what_is_there_is_copied_again_only_if_it_has_other_bytes(disks, source, target):
    """A power cut may leave as many zeros as were written; a follower with the file needs no source."""
    segment = disks.put(source, "a", 2)
    disks.segments.copy(source, target, [segment])
    disks.damage(target, segment)
    disks.segments.copy(source, target, [segment])
    assert disks.content(target, segment.file_name) == disks.content(source, segment.file_name)

    disks.damage(source, segment)
    disks.segments.copy(source, target, [segment])

    assert disks.content(target, segment.file_name) != disks.content(source, segment.file_name)


def test_damaged_source_is_corrupt_and_never_spreads(every_disks):
    disks, (source, target) = every_disks, every_disks.addresses.values()
    segment = disks.put(source, "a", 2)
    disks.damage(source, segment)

    with pytest.raises(CorruptLogError):
        disks.segments.copy(source, target, [segment])

    assert disks.content(target, segment.file_name) is None


def test_nothing_is_written_to_another_disk(disks, source, target):
    segment = disks.put(source, "a", 2)
    other = replace(target, directory_id=disk(9), replica_uuid="uuid9")

    with pytest.raises(KafkaStorageError):
        disks.segments.copy(source, other, [segment])

    assert disks.content(other, segment.file_name) is None


def test_root_that_is_not_there_is_refused(disks, source, target):
    segment = disks.put(source, "a", 2)

    with pytest.raises((ReplicaLostError, KafkaStorageError)):
        disks.segments.copy(source, replace(target, root=f"{target.root}-unmounted"), [segment])
