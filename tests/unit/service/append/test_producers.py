"""Runs of producers, and writers: each takes the epoch after the newest, and no other."""

import pytest

from kafka_on_spark.controller.commands.expiry import expire
from kafka_on_spark.errors import InvalidRequestError, ProducerFencedError, UnknownProducerIdError
from kafka_on_spark.service.append.produce.producers import ProducerRuns, check_transactional_id
from tests.unit.service.controlled import World


@pytest.fixture
def world():
    return World()


def runs(world):
    """Return the runs of another process."""
    return ProducerRuns(world.metadata(), world.clock, timeout_ms=1000)


def test_the_first_run_has_epoch_0_and_each_later_one_the_next(world):
    epochs = [runs(world).begin("p", None, 1).producer_epoch for _ in range(3)]

    assert epochs == [0, 1, 2]
    assert world.image.producers == {"p": 2}


def test_a_process_goes_on_under_its_run(world):
    mine = runs(world)

    assert [mine.begin("p", None, sequence).producer_epoch for sequence in (1, 2)] == [0, 0]
    assert [mine.begin("p", None, sequence).sequence for sequence in (3, 4)] == [3, 4]
    assert mine.begin("q", None, 1).producer_epoch == 0


def test_an_epoch_that_is_given_is_taken_if_it_is_new(world):
    assert runs(world).begin("p", 5, 1).producer_epoch == 5
    assert runs(world).begin("p", None, 1).producer_epoch == 6
    assert runs(world).begin("p", 6, 2).producer_epoch == 6

    with pytest.raises(ProducerFencedError):
        runs(world).begin("p", 5, 2)
    assert world.image.producers == {"p": 6}


def test_a_run_that_was_taken_over_from_is_fenced(world):
    mine = runs(world)
    mine.begin("p", None, 1)
    runs(world).begin("p", None, 1)
    mine._metadata.catch_up()

    with pytest.raises(ProducerFencedError):
        mine.begin("p", None, 2)


def test_the_newest_writer_under_a_transactional_id_fences_the_others(world):
    first, second = runs(world), runs(world)
    assert first.take_over("t").epoch == 0
    assert first.take_over("t").epoch == 0
    assert second.take_over("t").epoch == 1
    first._metadata.catch_up()

    with pytest.raises(ProducerFencedError):
        first.take_over("t")
    assert runs(world).take_over("u").epoch == 0
    assert runs(world).take_over(None) is None


@pytest.mark.parametrize("given", [("p", None, None), (None, 1, None), (None, None, 1)])
def test_a_producer_and_its_sequence_are_given_together(world, given):
    with pytest.raises(InvalidRequestError):
        runs(world).begin(*given)


@pytest.mark.parametrize("producer_id", ["", 7])
def test_a_producer_has_a_text_for_a_name(world, producer_id):
    with pytest.raises(InvalidRequestError, match="give a text of your own"):
        runs(world).begin(producer_id, None, 1)


def test_epochs_count_from_0_on(world):
    assert runs(world).begin("p", 0, 1).producer_epoch == 0
    with pytest.raises(InvalidRequestError, match="from 0 on, or none"):
        runs(world).begin("p", -1, 1)


@pytest.mark.parametrize("transactional_id", ["", 7])
def test_a_writer_has_a_text_for_a_name(transactional_id):
    with pytest.raises(InvalidRequestError, match="give a text that only this writer"):
        check_transactional_id(transactional_id)


def test_without_a_producer_there_is_no_run(world):
    assert runs(world).begin(None, None, None) is None


DAY_MS = 24 * 3600 * 1000


def expire_all(world):
    metadata = world.metadata()
    metadata.submit(lambda image: expire(image, world.clock.now_ms()), timeout_ms=1000)


def test_a_run_renews_its_id_when_half_of_its_time_is_over(world):
    mine = runs(world)
    mine.begin("p", None, 1)
    offset = world.image.offset

    mine.begin("p", None, 2)
    assert world.image.offset == offset
    world.clock.advance(DAY_MS // 2)
    assert mine.begin("p", None, 3).producer_epoch == 0

    assert world.image.offset == offset + 1
    assert world.image.producers == {"p": 0}
    world.clock.advance(DAY_MS - 1)
    expire_all(world)
    assert world.image.producers == {"p": 0}


def test_a_run_whose_id_has_expired_is_refused_once_and_the_next_begins_above_all_that_have(world):
    """A retry of what it appended before would be appended a second time."""
    mine = runs(world)
    runs(world).begin("q", 5, 1)
    mine.begin("p", None, 1)
    world.clock.advance(DAY_MS + 1)
    expire_all(world)
    mine._metadata.catch_up()

    with pytest.raises(UnknownProducerIdError, match="then begin another run"):
        mine.begin("p", None, 1)

    assert mine.begin("p", None, 2).producer_epoch == 6


def test_an_epoch_that_is_given_must_be_above_those_that_have_expired(world):
    """Else an older run of an id that has expired could come back unknown."""
    runs(world).begin("q", 5, 1)
    world.clock.advance(DAY_MS + 1)
    expire_all(world)

    with pytest.raises(UnknownProducerIdError, match="give producer_epoch 6, or none"):
        runs(world).begin("q", 5, 2)
    assert runs(world).begin("q", 6, 2).producer_epoch == 6
