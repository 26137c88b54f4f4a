"""The controllership: each claim is a higher epoch, a deposed controller stops, and what a term reads."""

import pytest

from kafka_on_spark.base.errors import NotControllerError
from kafka_on_spark.controller.commands import serve_requests
from kafka_on_spark.controller.lease import claim, is_held_by, next_controller_epoch
from kafka_on_spark.metadata.image import ControllerLease, MetadataImage
from kafka_on_spark.metadata.records import ControllerRecord


def image(epoch, controller_id="other"):
    lease = ControllerLease(controller_id=controller_id, controller_epoch=epoch, offset=1)
    return MetadataImage(controller=None if epoch is None else lease)


# fmt: off
CLAIMS = [  # before      epoch
    pytest.param(image(None),    0, id="first"),
    pytest.param(image(4),       5, id="takes-over"),
    pytest.param(image(4, None), 5, id="after-a-resignation-the-epoch-stays-taken"),
]

# fmt: on


@pytest.mark.parametrize(
    "known, is_it",
    [(image(4, "me"), True), (image(4), False), (image(4, None), False), (image(None), False)],
)
def test_who_claimed_last_and_has_not_resigned_holds_the_lease(known, is_it):
    assert is_held_by(known, "me") is is_it


@pytest.mark.parametrize("before, epoch", CLAIMS)
def test_claim_takes_the_next_epoch(before, epoch):
    result = claim(before, "me", "why", seen=before.controller)

    assert result.records == [
        ControllerRecord(controller_id="me", controller_epoch=epoch, cause="why")
    ]
    assert result.response == next_controller_epoch(before) == epoch


def test_claim_of_a_lease_that_somebody_else_took_meanwhile_is_none():
    result = claim(image(5), "me", "why", seen=image(4).controller)

    assert (result.records, result.response) == ([], None)


@pytest.mark.parametrize("newest, may_go_on", [(None, True), (0, True), (1, False)])
def test_controller_stops_when_a_later_one_has_claimed(active, newest, may_go_on):
    if may_go_on:
        active.check(image(newest))
        return
    with pytest.raises(NotControllerError, match="other in epoch 1"):
        active.check(image(newest))


@pytest.fixture
def active(world):
    return world.controller()


class Looks:
    """Looks that tell a term whether something was committed: nothing, unless said."""

    def __init__(self, term):
        self.shows = False
        self.count = 0
        self.reads = 0
        self._catch_up = term.metadata.catch_up
        term.metadata.has_next, term.metadata.catch_up = self._look, self._read

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
    serve_requests(active, world.id_source)
    world.clock.advance(1)

    with pytest.raises(NotControllerError, match="taken over by new in epoch 1"):
        serve_requests(active, world.id_source)
