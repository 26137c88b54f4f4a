"""What an appender may say of an append that went wrong halfway."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_on_spark.errors import NotEnoughReplicasAfterAppendError, NotEnoughReplicasError
from kafka_on_spark.ids import LeaderEpoch
from kafka_on_spark.service.append_parts import StagedPartition
from kafka_on_spark.service.appender import Appender, AppendThreads
from kafka_on_spark.service.replicas import begin_leadership
from tests.builders import KEY, address, disk, image_of, partition, staged
from tests.fakes import (
    FakeClock,
    Fault,
    MemoryReplicaStore,
    MemoryRoots,
    MemorySegmentStore,
    folder,
)

TWO = {"min.insync.replicas": "2"}
IN_SYNC = image_of(partition("1 2", version=1), configs=TWO)
ALONE = image_of(partition("1 2", isr="1", version=2), configs=TWO)


class Images:
    """What an appender needs of a MetadataService: images that follow on each other."""

    def __init__(self, *images):
        self._images = list(images)

    @property
    def image(self):
        return self._images[0]

    def catch_up(self):
        if len(self._images) > 1:
            del self._images[0]
        return self.image

    def submit(self, decide, *, timeout_ms):
        return decide(self.image).response


@pytest.fixture
def roots():
    return MemoryRoots({address(each).root: disk(each) for each in (1, 2)})


@pytest.fixture
def appender(roots):
    replicas = MemoryReplicaStore(roots)
    for each in (1, 2):
        replicas.make(address(each))
    begin_leadership(replicas.open(address(1)), partition("1 2"))
    with ThreadPoolExecutor(2) as threads:
        yield lambda images: Appender(
            images,
            replicas,
            MemorySegmentStore(roots),
            FakeClock(),
            threads=AppendThreads(threads, threads),
            random=lambda: 0.5,
        )


# fmt: off
REFUSALS = [  # what happens to the commit, what the client is told once the ISR has shrunk
    pytest.param(Fault.LOST_BEFORE, NotEnoughReplicasAfterAppendError, id="unknown-not-there"),
    pytest.param(Fault.LOST_ANSWER, NotEnoughReplicasAfterAppendError, id="unknown-there"),
]
# fmt: on


@pytest.mark.parametrize("fault, told", REFUSALS)
def test_an_append_of_unknown_outcome_is_never_called_not_written(roots, appender, fault, told):
    """It was, and stood in the log later: a refused record was read (found by simulation)."""
    roots[address(1).root].faults.append(fault)
    batch = staged("a", epoch=LeaderEpoch(5))
    part = StagedPartition(key=KEY, staged=batch, holders=(address(1), address(2)))

    [outcome] = appender(Images(IN_SYNC, ALONE)).commit([part], acks="all", timeout_ms=1000)

    assert type(outcome.error) is told


def test_an_append_waits_for_another_leader_where_the_log_of_this_one_is_damaged(roots, appender):
    roots[address(1).root].tables[folder(address(1))].is_damaged = True
    elected = image_of(partition("2 1", isr="2", leader=2, epoch=6, version=2))
    batch = staged("a", epoch=5)
    for segment in batch.segments:
        MemorySegmentStore(roots).put(address(2), segment)
    part = StagedPartition(key=KEY, staged=batch, holders=(address(2),))

    [outcome] = appender(Images(IN_SYNC, elected)).commit([part], acks="1", timeout_ms=1000)

    assert (outcome.error, outcome.base_offset) == (None, 0)


def test_an_append_that_was_never_tried_is_called_not_written(roots, appender):
    part = StagedPartition(key=KEY, staged=staged("a"), holders=(address(1),))

    with pytest.raises(NotEnoughReplicasError):
        appender(Images(ALONE)).commit([part], acks="all", timeout_ms=1000)
