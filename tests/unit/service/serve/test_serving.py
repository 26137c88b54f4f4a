"""The loops of a serving process: what fails is told once, and tried again until the end."""

import logging

import pytest

from kafka_on_spark.controller.commands import lease
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import ClusterClosedError, KafkaStorageError
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.metadata.metadata_service import MetadataService
from kafka_on_spark.service.replicate.replication_report import ReplicationReport
from kafka_on_spark.service.serve.looks import METADATA, ROUND, ROUNDS, Looks, Role
from kafka_on_spark.service.serve.serving import Serving
from kafka_on_spark.service.serve.watched import WatchedMetadata
from tests.fakes import FakeClock, MemoryMetadataLog


class Ending:
    """An Event that is set once loops have waited so often; meanwhile the clock goes on."""

    def __init__(self, clock, waits):
        self._clock = clock
        self._waits = waits

    def is_set(self):
        return self._waits <= 0

    def set(self):
        self._waits = 0

    def wait(self, duration_s):
        self._clock.advance(duration_s * 1000)
        self._waits -= 1
        return self.is_set()


LEASE_MS = 10_000


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def looks(clock):
    looks = Looks(clock)
    looks.hold("a", clock.monotonic_ms() + LEASE_MS)
    return looks


def serving(clock, looks, run_round, waits):
    return Serving(
        MetadataService(MemoryMetadataLog(), clock, random=lambda: 0.0),
        clock,
        looks=looks,
        ending=Ending(clock, waits),
        controller_id="a",
        make_controller=None,
        run_round=run_round,
    )


@pytest.mark.parametrize("error", [OSError("the disk is full"), ZeroDivisionError("a bug")])
def test_a_round_that_keeps_failing_is_told_once_and_so_is_its_end(clock, looks, caplog, error):
    caplog.set_level(logging.INFO)
    rounds = [error, error, error, ReplicationReport(copied_records=7), ReplicationReport()]

    def run_round():
        clock.advance(2000)
        ended = rounds.pop(0)
        if isinstance(ended, Exception):
            raise ended
        return ended

    serving(clock, looks, run_round, waits=len(rounds)).replicate()

    told = [each for each in caplog.records if "a round has" in each.getMessage()]
    assert [each.getMessage() for each in told] == [
        f"a round has failed, and is tried again: {error}",
        "a round has come to its end again",
    ]
    assert told[0].levelno == logging.WARNING
    assert bool(told[0].exc_info) == isinstance(error, ZeroDivisionError)
    look = looks.seen.looks[ROUND]
    assert (look.failed_count, look.count, look.error, look.took_ms) == (3, 2, None, 2000)


def test_a_round_under_way_is_seen_with_its_beginning_and_the_loop_moves_at_both_ends(clock, looks):
    seen = []

    def run_round():
        began_ms = clock.monotonic_ms()
        clock.advance(5000)
        seen.append((looks.seen.began_at_ms, looks.seen.moved_at_ms[ROUNDS], began_ms))
        return ReplicationReport()

    loop = serving(clock, looks, run_round, waits=1)
    clock.advance(100)
    loop.replicate()

    assert seen == [({ROUND: 100}, 100, 100)]
    assert looks.seen.began_at_ms == {}
    assert looks.seen.moved_at_ms[ROUNDS] == 5100


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda watched: watched.catch_up(), id="catch_up"),
        pytest.param(lambda watched: watched.has_next(), id="has_next"),
        pytest.param(lambda watched: watched.submit(None, timeout_ms=1), id="submit"),
        pytest.param(lambda watched: watched.conclude((), timeout_ms=1), id="conclude"),
    ],
)
def test_a_call_to_the_metadata_is_seen_with_its_beginning_for_as_long_as_it_takes(
    clock, looks, call
):
    class SlowMetadata:
        image = MetadataImage()

        def catch_up(self, *given, **named):
            clock.advance(5000)
            seen.append(looks.seen.began_at_ms)
            return self.image

        submit = conclude = has_next = catch_up

    seen = []
    clock.advance(100)

    call(WatchedMetadata(SlowMetadata(), looks, "a"))

    assert seen == [{METADATA: 100}]
    assert looks.seen.began_at_ms == {}


def test_a_look_that_fails_says_nothing_and_has_the_log_read_which_notes_why(clock, looks):
    memory = MemoryMetadataLog()
    watched = WatchedMetadata(MetadataService(memory, clock, random=lambda: 0.0), looks, "a")
    memory.is_offline = True

    assert watched.has_next()

    assert METADATA not in looks.seen.looks
    with pytest.raises(KafkaStorageError):
        watched.catch_up()
    assert looks.seen.looks[METADATA].error == "the metadata root does not answer"


def test_a_controller_that_reads_and_can_not_commit_is_none_once_its_lease_is_over(clock, looks):
    """As where the writes of a disk hang: all can be read, and nobody knows of a renewal."""
    memory = MemoryMetadataLog()
    watched = WatchedMetadata(MetadataService(memory, clock, random=lambda: 0.0), looks, "a")
    lease_ms = lease.lease_ms(watched.image)

    def holds_lease_after(decide, elapsed_ms, took_ms=0):
        def decide_slowly(image):
            clock.advance(took_ms)
            return decide(image)

        watched.submit(decide_slowly, timeout_ms=0)
        clock.advance(elapsed_ms)
        watched.catch_up()
        return looks.seen.holds_lease(clock.monotonic_ms())

    assert holds_lease_after(lambda image: lease.claim(image, "a", "t", seen=None), lease_ms)
    assert holds_lease_after(lambda image: lease.renew(image, "a", 0), lease_ms)
    assert not holds_lease_after(lambda image: ControllerResult([], None), 1)
    assert holds_lease_after(lambda image: lease.renew(image, "a", 0), lease_ms - 9, took_ms=9)
    assert not holds_lease_after(lambda image: lease.renew(image, "a", 0), lease_ms - 8, took_ms=9)


def test_a_look_of_a_process_that_has_closed_the_cluster_says_so(clock, looks):
    service = MetadataService(MemoryMetadataLog(), clock, random=lambda: 0.0)
    service.close()

    with pytest.raises(ClusterClosedError):
        WatchedMetadata(service, looks, "a").has_next()


def test_the_loop_of_a_standby_moves_without_rounds(clock, looks):
    looks.become(Role.STANDBY, "b")

    serving(clock, looks, None, waits=3).replicate()

    assert looks.seen.moved_at_ms[ROUNDS] == 200
