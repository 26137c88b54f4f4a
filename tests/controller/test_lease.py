"""The controllership: each claim is a higher epoch, and a deposed controller stops."""

import pytest

from kafka_on_spark.base.errors import NotControllerError
from kafka_on_spark.controller.lease import (
    check_controls,
    claim,
    is_held_by,
    next_controller_epoch,
    resign,
)
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


@pytest.mark.parametrize("newest, may_go_on", [(None, True), (3, True), (4, True), (5, False)])
def test_controller_stops_when_a_later_one_has_claimed(newest, may_go_on):
    if may_go_on:
        check_controls(image(newest), 4)
        return
    with pytest.raises(NotControllerError, match="other in epoch 5"):
        check_controls(image(newest), 4)


@pytest.mark.parametrize("newest", [None, 5])
def test_deposed_controller_resigns_nothing(newest):
    assert resign(image(newest), "me", 4).records == []
