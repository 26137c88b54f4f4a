"""One-shot commands: alone, asked for in the log, decided once, withdrawn, and refused."""

from functools import partial

import pytest

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    KafkaOnSparkError,
    NotControllerError,
    TopicAlreadyExistsError,
)
from kafka_on_spark.controller.commands import (
    ALTER_TOPIC_CONFIGS,
    COMMANDS,
    DELETE_TOPIC,
    Command,
    Request,
    request_record,
    withdraw,
)
from kafka_on_spark.controller.one_shot_commands import CommandRunner
from kafka_on_spark.metadata.records import AdminRequestRecord, AdminResultRecord
from kafka_on_spark.metadata.result import ControllerResult
from tests.controller.controlled import create, pending, run
from tests.fakes import Fault


def test_alone_a_command_is_claim_decision_and_resignation_in_one_commit(world):
    topic_id = run(world.process("me"), create("orders"))

    assert world.kinds() == [
        ["ControllerRecord", "TopicRecord", "PartitionRecord", "ControllerRecord"]
    ]
    assert world.image.topic_ids == {"orders": topic_id}
    assert world.image.controller.controller_id is None


def test_what_is_so_already_is_answered_at_once_and_writes_nothing(world):
    run(world.process("me"), create("orders", **{"retention.ms": 5}))
    world.controller()
    before = world.log.end_offset

    run(world.process("me"), ALTER_TOPIC_CONFIGS.order(name="orders", configs={"retention.ms": 5}))

    assert world.log.end_offset == before


def test_a_refusal_at_the_controller_is_raised_at_the_caller_as_the_same_error(world):
    """Two ask for the same topic at once; the controller decides in the order of the log."""
    active = world.controller()
    pending(world, create("orders"), asked_by="the faster one")
    world.while_waiting(lambda: active.serve_requests(world.id_source))
    slower = CommandRunner(
        world.metadata(), world.clock, controller_id="slower", id_source=world.id_source
    )

    with pytest.raises(TopicAlreadyExistsError, match="'orders' exists already: choose another"):
        run(slower, create("orders"))

    assert len(world.image.topics) == 1
    assert world.image.requests == ()


def test_a_request_is_decided_once_however_often_it_is_inspected(world):
    active = world.controller()
    record = pending(world, create("orders"))

    active.serve_requests(world.id_source)
    decided = len(world.log.batches)
    active.serve_requests(world.id_source)
    stale = world.metadata()
    world.metadata().submit(lambda image: ControllerResult([record], None), timeout_ms=1000)
    # The same text again, as a commit whose answer was lost would not be: decided anew, refused.
    active.serve_requests(world.id_source)

    assert stale.image.requests == ()
    assert world.kinds(since=decided) == [["AdminRequestRecord"], ["AdminResultRecord"]]
    assert len(world.image.topics) == 1


def test_a_request_that_is_withdrawn_while_it_is_decided_is_not_run(world):
    """The controller's commit loses to the withdrawal; decided again, there is nothing to do."""
    active = world.controller()
    record = pending(world, create("orders"))
    asker, append = world.metadata(), world.log.append

    def withdraw_first(*arguments, **named):
        world.log.append = append
        asker.submit(partial(withdraw, record=record, timeout_ms=1), timeout_ms=1000)
        return append(*arguments, **named)

    world.log.append = withdraw_first

    active.serve_requests(world.id_source)

    assert (world.image.topics, world.image.requests) == ({}, ())
    assert world.kinds(since=3) == [["AdminResultRecord"]]


def test_a_request_that_lay_there_past_its_deadline_is_not_run(world):
    pending(world, create("orders"), timeout_ms=5_000)
    world.clock.advance(5_001)

    world.controller().serve_requests(world.id_source)

    assert (world.image.topics, world.image.requests) == ({}, ())
    assert '"code": 7' in world.log.batches[-1].records[-1].result


@pytest.mark.parametrize("skew_ms", [-3_600_000, 3_600_000])
def test_a_request_that_has_just_come_is_run_whatever_two_clocks_say(world, skew_ms):
    active = world.controller()
    active.serve_requests(world.id_source)
    request = Request(
        order=create("orders"),
        asked_by="me",
        timeout_ms=5_000,
        deadline_at_ms=world.clock.now_ms() + skew_ms,
    )
    record = request_record(request, "id")
    world.metadata().submit(lambda image: ControllerResult([record], None), timeout_ms=1000)

    active.serve_requests(world.id_source)

    assert world.image.topic_ids.keys() == {"orders"}


def test_a_zombie_commits_nothing_no_matter_what_it_holds(world):
    zombie = world.controller("zombie")
    pending(world, create("orders"))
    zombie._metadata.catch_up()
    world.controller("new")
    before = world.log.end_offset

    with pytest.raises(NotControllerError, match="taken over by new in epoch 1"):
        zombie.answer_requests(world.id_source)
    with pytest.raises(NotControllerError):
        zombie.serve_requests(world.id_source)
    zombie.resign()

    assert world.log.end_offset == before


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_BEFORE])
def test_an_answer_whose_commit_is_unknown_ends_the_term_and_the_next_one_knows(world, fault):
    first = world.controller("first")
    pending(world, create("orders"))
    id_source = world.id_source
    world.log.faults.append(fault)
    with pytest.raises(CommitOutcomeUnknownError):
        first.serve_requests(id_source)

    world.controller("second").serve_requests(world.id_source)

    assert list(world.image.topic_ids) == ["orders"]
    assert [kinds.count("TopicRecord") for kinds in world.kinds()].count(1) == 1


def test_a_request_that_breaks_its_decision_is_answered_and_harms_nobody_after_it(world):
    def broken(image):
        raise ZeroDivisionError("a bug")

    active = world.controller()
    COMMANDS["broken"] = Command("broken", broken)
    try:
        pending(world, COMMANDS["broken"].order())
        pending(world, create("orders"))
        active.serve_requests(world.id_source)
    finally:
        del COMMANDS["broken"]

    assert world.image.topic_ids.keys() == {"orders"}
    results = [
        record.result
        for batch in world.log.batches
        for record in batch.records
        if isinstance(record, AdminResultRecord)
    ]
    assert '"code": -1, "error": "ZeroDivisionError: a bug"' in results[0]


@pytest.mark.parametrize(
    "text", ["", "3", "{}", "[]", '{"command": "fly"}', '{"command": "create_topic"}', "not json"]
)
def test_a_request_that_is_none_is_refused(world, text):
    world.metadata().submit(
        lambda image: ControllerResult([AdminRequestRecord(request=text)], None), timeout_ms=1000
    )

    world.controller().serve_requests(world.id_source)

    assert world.image.requests == ()
    assert '"code": 42' in world.log.batches[-1].records[-1].result


def test_what_has_no_code_is_raised_as_an_error_of_the_package(world):
    active = world.controller()

    def answer():
        [record] = world.image.requests
        text = '{"code": -1, "error": "KeyError: 3"}'
        active.submit(
            lambda image: ControllerResult(
                [AdminResultRecord(request=record.request, result=text)], None
            )
        )

    world.while_waiting(answer)

    with pytest.raises(KafkaOnSparkError, match="could not decide: KeyError: 3"):
        run(world.process("me"), create("orders"))


def test_an_argument_that_no_request_can_carry_is_refused_before_anything_is_written():
    with pytest.raises(InvalidRequestError, match="can't be given <object object"):
        DELETE_TOPIC.order(name=object())
