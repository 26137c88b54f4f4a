"""The files of an append come into the leader's folder from any holder, under names of its epoch."""

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.produce.placing import place_files
from kafka_on_spark.produce.stages import StagedPart
from tests.builders import KEY, address, disk, staged
from tests.fakes import MemoryRoots, MemorySegmentStore

BATCH = staged("a", "2 1", epoch=5)


@pytest.fixture
def roots():
    return MemoryRoots({address(each).root: disk(each) for each in (1, 2, 3)})


@pytest.fixture
def store(roots):
    return MemorySegmentStore(roots)


def part(*holders):
    return StagedPart(key=KEY, batch=BATCH, holders=tuple(address(each) for each in holders))


def test_files_that_no_holder_has_are_an_error(roots, store):
    for each in (2, 3):
        roots[address(each).root].is_offline = True

    with pytest.raises(KafkaStorageError, match="the root does not answer"):
        place_files(store, part(2, 3), address(1), 5)
    with pytest.raises(KafkaStorageError, match="no root has the files"):
        place_files(store, part(), address(1), 5)
