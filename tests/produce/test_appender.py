"""What an appender may say of an append that went wrong halfway."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import (
    NO_ERROR,
    KafkaStorageError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    ProducerFencedError,
    QuorumUnavailableError,
    RequestTimedOutError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import LeaderEpoch
from kafka_on_spark.controller.probes import ProbeResult
from kafka_on_spark.controller.second_inspection import SecondInspections
from kafka_on_spark.log.replica_operations import begin_leadership
from kafka_on_spark.metadata.metadata import NO_LOCK
from kafka_on_spark.produce.append_watch import AppendWatch, WatchPorts
from kafka_on_spark.produce.appender import Appender, AppendThreads
from kafka_on_spark.produce.stages import StagedPart
from tests.builders import KEY, address, disk, image_of, partition, staged, stamp
from tests.fakes import (
    FakeClock,
    Fault,
    MemoryReplicaStore,
    MemoryRoots,
    MemorySegmentStore,
    folder,
)

TWO = {"min.insync.replicas": "2"}
IN_SYNC = image_of(partition("1 2", version=1), configs=TWO, producers={"p": 0})
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

    def submit_queued(self, decide, *, queued, timeout_ms):
        return decide(self.image, NO_LOCK).response


class Unwatched(Appender):
    """Its appends decide nothing for themselves."""

    def append(self, parts, *, acks, timeout_ms, other_ends=None):
        ports = WatchPorts(
            metadata=self._metadata,
            clock=self._clock,
            run_probes=lambda orders: [ProbeResult(each.broker_id, NO_ERROR) for each in orders],
            find_whole=lambda image, keys: [],
            controller_id="me",
            caller="process 1 on here",
        )
        watch = AppendWatch(ports, is_allowed=False)
        return super().append(
            parts, acks=acks, timeout_ms=timeout_ms, watch=watch, other_ends=other_ends
        )


@pytest.fixture
def roots():
    return MemoryRoots({address(each).root: disk(each) for each in (1, 2)})


@pytest.fixture
def appender(roots):
    replicas = MemoryReplicaStore(roots)
    for each in (1, 2):
        replicas.create(address(each))
    begin_leadership(replicas.open(address(1)), partition("1 2"))
    return lambda images: Unwatched(
        images,
        replicas,
        MemorySegmentStore(roots),
        FakeClock(),
        threads=AppendThreads(lambda name: ThreadPoolExecutor(2, name)),
        random=lambda: 0.5,
        second_inspections=SecondInspections(
            images, FakeClock(), run=lambda orders: [], timeout_ms=1000
        ),
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
    part = StagedPart(key=KEY, batch=batch, holders=(address(1), address(2)))

    [outcome] = appender(Images(IN_SYNC, ALONE)).append([part], acks="all", timeout_ms=1000)

    assert type(outcome.error) is told


def test_a_refusal_after_an_unknown_outcome_says_that_the_append_may_be_committed(roots, appender):
    """A newer run has begun meanwhile: it fences this one, and what stands in the log stays."""
    roots[address(1).root].faults.append(Fault.LOST_ANSWER)
    newer = replace(IN_SYNC, producers={"p": 1})
    batch = staged("a", epoch=5, producer=stamp(0, producer="p", epoch=0))
    part = StagedPart(key=KEY, batch=batch, holders=(address(1), address(2)))

    [outcome] = appender(Images(IN_SYNC, newer)).append([part], acks="all", timeout_ms=1000)

    assert type(outcome.error) is ProducerFencedError
    assert "an earlier try of this append may be committed" in str(outcome.error)
    assert outcome.error.context["may_be_committed"]


def test_a_refusal_of_the_first_try_says_nothing_of_earlier_ones(appender):
    newer = replace(IN_SYNC, producers={"p": 1})
    batch = staged("a", epoch=5, producer=stamp(0, producer="p", epoch=0))
    part = StagedPart(key=KEY, batch=batch, holders=(address(1), address(2)))

    [outcome] = appender(Images(newer)).append([part], acks="all", timeout_ms=1000)

    assert type(outcome.error) is ProducerFencedError
    assert "may_be_committed" not in outcome.error.context


def test_an_append_waits_for_another_leader_where_the_log_of_this_one_is_damaged(roots, appender):
    roots[address(1).root].tables[folder(address(1))].is_damaged = True
    elected = image_of(partition("2 1", isr="2", leader=2, epoch=6, version=2))
    batch = staged("a", epoch=5)
    for segment in batch.segments:
        MemorySegmentStore(roots).put(address(2), segment)
    part = StagedPart(key=KEY, batch=batch, holders=(address(2),))

    [outcome] = appender(Images(IN_SYNC, elected)).append([part], acks="1", timeout_ms=1000)

    assert (outcome.error, outcome.base_offset) == (None, 0)


class AwayImages(Images):
    """The same with a metadata root that is away for some reads and commits."""

    def __init__(self, *images, away, error=KafkaStorageError):
        super().__init__(*images)
        self._away = away
        self._error = error

    def _reach(self):
        self._away -= 1
        if self._away >= 0:
            raise self._error("the metadata root does not answer")

    def catch_up(self):
        self._reach()
        return super().catch_up()

    def submit_queued(self, decide, *, queued, timeout_ms):
        self._reach()
        return super().submit_queued(decide, queued=queued, timeout_ms=timeout_ms)


# Of the only metadata root, and of a majority of several.
ROOT_ERRORS = pytest.mark.parametrize("error", [KafkaStorageError, QuorumUnavailableError])


@ROOT_ERRORS
@pytest.mark.parametrize("acks", ["1", "all"])
def test_an_append_whose_metadata_root_stays_away_is_unknown_and_never_called_not_written(
    roots, appender, acks, error
):
    images = AwayImages(IN_SYNC, away=999, error=error)
    part = StagedPart(key=KEY, batch=staged("a", epoch=5), holders=(address(1), address(2)))

    [outcome] = appender(images).append([part], acks=acks, timeout_ms=1000)

    assert type(outcome.error) is RequestTimedOutError
    assert "the metadata root does not answer" in str(outcome.error)
    assert "whether it will be committed is unknown" in str(outcome.error)
    [batch] = MemoryReplicaStore(roots).open(address(1)).load().batches
    assert batch.base_offset == 0


def test_an_append_that_was_never_tried_is_called_not_written(roots, appender):
    part = StagedPart(key=KEY, batch=staged("a"), holders=(address(1),))

    with pytest.raises(NotEnoughReplicasError):
        appender(Images(ALONE)).append([part], acks="all", timeout_ms=1000)


UNLED = image_of(partition("1 2", isr="1", leader=None, version=2))


def test_a_conditional_append_waits_for_a_leader_to_say_where_the_log_ends(appender):
    part = StagedPart(key=KEY, batch=staged("a", epoch=5), holders=(address(1),), expected_offset=0)

    [outcome] = appender(Images(UNLED, UNLED, IN_SYNC)).append([part], acks="1", timeout_ms=9000)

    assert (outcome.error, outcome.base_offset) == (None, 0)


@pytest.mark.parametrize("acks", ["0", "1"])
def test_a_conditional_append_without_a_leader_appends_nothing_elsewhere(roots, appender, acks):
    """That the other partition ends at 0 is not known: it may have records."""
    other = KEY._replace(partition=1)
    unled = image_of(partition("1 2"), partition("1 2", isr="1", leader=None))
    part = StagedPart(key=KEY, batch=staged("a", epoch=5), holders=(address(1),))

    with pytest.raises(NotLeaderOrFollowerError, match="orders-1 has no leader"):
        appender(Images(unled)).append([part], acks=acks, timeout_ms=1000, other_ends={other: 0})

    assert MemoryReplicaStore(roots).open(address(1)).load().batches == ()


def test_a_conditional_append_that_may_not_read_the_metadata_ends_its_wait(appender):
    images = AwayImages(UNLED, away=999, error=RootAccessDeniedError)
    part = StagedPart(key=KEY, batch=staged("a", epoch=5), holders=(address(1),), expected_offset=0)

    with pytest.raises(RootAccessDeniedError):
        appender(images).append([part], acks="1", timeout_ms=9000)


# fmt: off
TAKEN_OVER = [  # whether the next leader has the records, what is told, where its log ends
    pytest.param(False, ProducerFencedError,  0, id="it lacks them"),
    pytest.param(True,  RequestTimedOutError, 1, id="it has them"),
]
# fmt: on


@pytest.mark.parametrize("has_fetched, told, log_end", TAKEN_OVER)
def test_a_run_that_was_taken_over_from_appends_nothing_a_second_time(
    roots, appender, has_fetched, told, log_end
):
    """A leader elected since has never seen the newer run; on an expanded topic, the records
    that it lacks may stand in another partition by now (found by simulation)."""
    if not has_fetched:
        roots[address(2).root].faults.append(Fault.OFFLINE)
    part = StagedPart(
        key=KEY,
        batch=staged("a", epoch=5, producer=stamp(0)),
        holders=(address(1), address(2)),
    )
    for holder in part.holders:
        for each in part.batch.segments:
            MemorySegmentStore(roots).put(holder, each)
    elected = partition("2 1", isr="2", leader=2, epoch=6, version=2)
    images = Images(
        image_of(partition("1 2", version=1), producers={"p": 0}),
        image_of(elected, producers={"p": 1}),
    )

    [outcome] = appender(images).append([part], acks="all", timeout_ms=200)

    log = MemoryReplicaStore(roots).open(address(2)).load()
    assert (type(outcome.error), log.log_end_offset) == (told, log_end)


def test_an_append_that_stands_already_is_a_duplicate_and_a_retry_of_its_own_is_none(
    roots, appender
):
    """Of a lost answer it is the same append: it was not there before."""
    batch = staged("a", epoch=5, producer=stamp(0, producer="p", epoch=0))
    part = StagedPart(key=KEY, batch=batch, holders=(address(1), address(2)))
    for segment in batch.segments:
        MemorySegmentStore(roots).put(address(1), segment)
        MemorySegmentStore(roots).put(address(2), segment)

    [first] = appender(Images(IN_SYNC)).append([part], acks="1", timeout_ms=1000)
    [second] = appender(Images(IN_SYNC)).append([part], acks="1", timeout_ms=1000)

    assert (first.error, second.error) == (None, None)
    assert (first.is_duplicate, second.is_duplicate) == (False, True)
    assert first.base_offset == second.base_offset == 0


@ROOT_ERRORS
@pytest.mark.parametrize("away", [1, 2, 3])
def test_an_append_waits_for_a_metadata_root_that_comes_back(appender, away, error):
    images = AwayImages(IN_SYNC, away=away, error=error)
    part = StagedPart(key=KEY, batch=staged("a", epoch=5), holders=(address(1),))

    [outcome] = appender(images).append([part], acks="1", timeout_ms=9000)

    assert (outcome.error, outcome.base_offset) == (None, 0)
