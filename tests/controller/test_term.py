"""A term between its passes: what it looks at for requests, and how often it reads the log."""

import pytest

from kafka_on_spark.base.errors import NotControllerError
from tests.controller.controlled import create, pending


@pytest.fixture
def active(world):
    return world.controller()


class Looks:
    """Looks that tell a term whether something was committed: nothing, unless said."""

    def __init__(self, term):
        self.shows = False
        self.count = 0
        self.reads = 0
        self._catch_up = term._metadata.catch_up
        term._metadata.has_next, term._metadata.catch_up = self._look, self._read

    def _look(self):
        self.count += 1
        return self.shows

    def _read(self):
        self.reads += 1
        return self._catch_up()


def test_a_claim_that_no_look_shows_ends_the_term_within_a_second(world, active):
    Looks(active)
    world.controller("new")
    world.clock.advance(999)
    active.serve_requests(world.id_source)
    world.clock.advance(1)

    with pytest.raises(NotControllerError, match="taken over by new in epoch 1"):
        active.serve_requests(world.id_source)


def test_a_request_that_another_thread_has_read_does_not_make_an_older_one_a_new_one(world, active):
    looks = Looks(active)
    looks.shows = True
    active.serve_requests(world.id_source)
    looks.shows = False
    pending(world, create("orders"))
    looks._catch_up()  # by a thread that makes rounds
    world.clock.advance(100)
    pending(world, create("late"), timeout_ms=600)
    world.clock.advance(400)
    active.serve_requests(world.id_source)  # answers what that thread has read
    world.clock.advance(500)

    active.serve_requests(world.id_source)

    assert (world.image.topic_ids.keys(), world.image.requests) == ({"orders"}, ())
