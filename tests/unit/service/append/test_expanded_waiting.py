"""How long an append waits until an expanded topic tells how it is split."""

import pytest

from kafka_on_spark.errors import (
    KafkaStorageError,
    NotEnoughReplicasError,
    QuorumUnavailableError,
    RootAccessDeniedError,
)
from kafka_on_spark.service.append.plan.stage_plan import ProducerRun
from kafka_on_spark.service.append.waiting.append_watch import WatchPorts
from kafka_on_spark.service.append.waiting.expanded_waiting import wait_for_split
from tests.builders import image_of, partition
from tests.fakes import FakeClock

IMAGE = image_of(partition("1 2"))
[TOPIC] = IMAGE.topics.values()
RUN = ProducerRun(producer_id="p", producer_epoch=0, sequence=0)


class Answers:
    """A call that raises the errors of a list, one each time, and then returns a value."""

    def __init__(self, value, *errors):
        self._value = value
        self._errors = list(errors)

    def __call__(self, *asked):
        if self._errors:
            raise self._errors.pop(0)
        return self._value


class Metadata:
    image = IMAGE

    def __init__(self, *errors):
        self.catch_up = Answers(IMAGE, *errors)


class Expanded:
    def __init__(self, *errors):
        self.split = Answers(2, *errors)


def wait(expanded, metadata, timeout_ms=1000):
    ports = WatchPorts(
        metadata=metadata,
        clock=FakeClock(),
        run_probes=lambda orders: [],
        find_whole=lambda image, keys: [],
        controller_id="me",
        caller="process 1 on here",
    )
    return wait_for_split(expanded, TOPIC, RUN, ports, may_decide=False, timeout_ms=timeout_ms)


@pytest.mark.parametrize("error", [KafkaStorageError, QuorumUnavailableError])
def test_an_append_waits_for_metadata_roots_that_are_away(error):
    absent = NotEnoughReplicasError("a replica is away")
    away = error("the metadata root does not answer")

    assert wait(Expanded(absent, absent), Metadata(away)) == 2
    assert wait(Expanded(away), Metadata()) == 2


def test_an_append_tells_of_metadata_roots_that_stay_away():
    away = [QuorumUnavailableError("no majority answers") for _ in range(99)]

    with pytest.raises(QuorumUnavailableError, match="no majority answers"):
        wait(Expanded(*away), Metadata(*away))


def test_a_metadata_root_that_denies_access_is_not_waited_for():
    absent = NotEnoughReplicasError("a replica is away")
    denied = RootAccessDeniedError("no permission")

    with pytest.raises(RootAccessDeniedError):
        wait(Expanded(absent), Metadata(denied))
