"""The files of an append come into the leader's folder from any holder, under names of its epoch."""

import pytest

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.service.append.placing import place_files
from kafka_on_spark.service.append.stages import StagedPart
from tests.builders import KEY, address, disk, staged
from tests.fakes import MemoryRoots, MemorySegmentStore, folder

BATCH = staged("a", "2 1", epoch=5)


@pytest.fixture
def roots():
    return MemoryRoots({address(each).root: disk(each) for each in (1, 2, 3)})


@pytest.fixture
def store(roots):
    return MemorySegmentStore(roots)


def part(*holders):
    return StagedPart(key=KEY, batch=BATCH, holders=tuple(address(each) for each in holders))


def put(store, *holders):
    for holder in holders:
        for segment in BATCH.segments:
            store.put(address(holder), segment)


def test_files_that_are_the_leaders_already_stay_as_they_are(store):
    put(store, 1)

    assert place_files(store, part(1, 2), address(1), 5) == BATCH
    assert store.copied == []


def test_files_of_an_older_epoch_are_given_names_of_the_leaders(store):
    put(store, 1)

    renamed = place_files(store, part(1), address(1), 6)

    assert [each.epoch_in_name for each in renamed.segments] == [6, 6]
    assert store.copied == [each.file_name for each in renamed.segments]


@pytest.mark.parametrize("flaw", ["offline", "without the files", "damaged"])
def test_files_are_taken_from_the_next_holder_where_one_fails(roots, store, flaw):
    put(store, 3, *([] if flaw == "without the files" else [2]))
    if flaw == "offline":
        roots[address(2).root].is_offline = True
    elif flaw == "damaged":
        files = roots[address(2).root].files[folder(address(2))]
        files.update(dict.fromkeys(files, b"damaged"))

    assert place_files(store, part(2, 3), address(1), 5).segments == BATCH.segments

    assert sorted(store.copied) == sorted(each.file_name for each in BATCH.segments)
    assert roots[address(1).root].files[folder(address(1))].keys() == set(store.copied)


def test_files_that_no_holder_has_are_an_error(roots, store):
    for each in (2, 3):
        roots[address(each).root].is_offline = True

    with pytest.raises(KafkaStorageError, match="the root does not answer"):
        place_files(store, part(2, 3), address(1), 5)
    with pytest.raises(KafkaStorageError, match="no root has the files"):
        place_files(store, part(), address(1), 5)
