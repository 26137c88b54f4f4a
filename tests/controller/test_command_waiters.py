"""A process that waits for its command claims the lease of a dead controller, withdraws its request,
and tells the answer; what it can't tell is unknown, and no call that failed."""

from itertools import count

import pytest

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    KafkaStorageError,
)
from kafka_on_spark.controller.one_shot_commands import CommandRunner
from kafka_on_spark.metadata.records import (
    AdminRequestRecord,
    AdminResultRecord,
    ControllerRecord,
)
from tests.controller.controlled import LEASE_MS, TIMEOUT_MS, create, pending, run
from tests.fakes import Fault


def test_a_waiter_that_sees_no_renewal_for_a_lease_claims_and_runs_all_that_is_pending(world):
    dead = world.controller("dead")
    pending(world, create("first"))
    pending(world, create("second"))
    began_ms = world.clock.monotonic_ms()

    run(world.process("me"), create("third"))

    assert LEASE_MS <= world.clock.monotonic_ms() - began_ms < LEASE_MS + 1000
    assert list(world.image.topic_ids) == ["first", "second", "third"]
    assert world.image.controller.controller_id is None
    assert world.image.controller.controller_epoch == dead.epoch + 1


def conflicts_for_long(world, is_it, meanwhile=lambda: None):
    """Have the first commit for which `is_it` holds of its records conflict, and its process stand
    still for longer than anybody has time. `meanwhile`: what others do."""
    append = world.log.append

    def late(records, *arguments, **named):
        if not is_it(records):
            return append(records, *arguments, **named)
        world.log.append = append
        meanwhile()
        world.clock.advance(TIMEOUT_MS + 1)
        raise CommitConflictError("another commit was faster")

    world.log.append = late


def is_result(records):
    return isinstance(records[0], AdminResultRecord)


def test_a_request_whose_withdrawal_loses_against_its_answer_was_answered_however_late(world):
    active = world.controller()
    conflicts_for_long(world, is_result, lambda: active.serve_requests(world.id_source))

    topic_id = run(world.process("me"), create("orders"), timeout_ms=0)

    assert world.image.topic_ids == {"orders": topic_id}


def fail_reads(world, times):
    """Have reads fail so many times, once a request is in the log; return those left to fail."""
    read = world.log.read
    left = [KafkaStorageError("the metadata root does not answer")] * times

    def failing(**named):
        if left and isinstance(world.log.batches[-1].records[0], AdminRequestRecord):
            raise left.pop()
        return read(**named)

    world.log.read = failing
    return left


def test_a_request_may_be_run_yet_if_the_metadata_root_stays_away(world):
    world.controller()
    fail_reads(world, 1000)

    with pytest.raises(
        CommitOutcomeUnknownError, match=r"does not answer.*it may be run yet: look"
    ):
        run(world.process("me"), create("orders"))

    assert len(world.image.requests) == 1


@pytest.mark.parametrize("fault", [Fault.OFFLINE, Fault.LOST_BEFORE, Fault.LOST_ANSWER])
def test_a_waiter_whose_claim_fails_claims_again(world, fault):
    world.controller("dead")
    process = world.process("me")
    world.log.faults.extend([None, fault])

    topic_id = run(process, create("orders"))

    assert world.image.topic_ids == {"orders": topic_id}


def test_a_request_that_is_answered_while_it_is_withdrawn_was_answered(world):
    active = world.controller()
    caller = world.metadata()
    runner = CommandRunner(caller, world.clock, controller_id="me", id_source=world.id_source)
    # The last catch-up was before the answer; the withdrawal loses its race.
    world.clock.on_sleep = lambda: None
    catch_up, calls = caller.catch_up, count()

    def late():
        image = catch_up()
        if next(calls) == 1:
            active.serve_requests(world.id_source)
        return image

    caller.catch_up = late

    topic_id = run(runner, create("orders"), timeout_ms=0)

    assert world.image.topic_ids == {"orders": topic_id}


def test_a_waiter_whose_claim_is_taken_over_waits_for_the_new_controller(world):
    """Between its claim and its first answer another process claims."""
    world.controller("dead")
    metadata = world.metadata()
    runner = CommandRunner(metadata, world.clock, controller_id="me", id_source=world.id_source)
    rivals = []
    append = world.log.append

    def race(records, stamp, *, expected_offset):
        batch = append(records, stamp, expected_offset=expected_offset)
        is_mine = any(
            isinstance(each, ControllerRecord) and each.controller_id == "me" for each in records
        )
        if is_mine and not rivals:
            rivals.append(world.controller("rival"))
            world.while_waiting(lambda: rivals[0].serve_requests(world.id_source))
        return batch

    world.log.append = race

    run(runner, create("orders"))

    assert [batch.stamp.controller_id for batch in world.log.batches][-1] == "rival"
    assert world.image.topic_ids.keys() == {"orders"}
