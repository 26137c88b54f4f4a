"""Commands: as JSON, decided here or by request, withdrawn, and what of them is not known."""

import json
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    InvalidRequestError,
    KafkaOnSparkError,
    KafkaStorageError,
    ProtocolError,
    TopicAlreadyExistsError,
)
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.commands import (
    ALTER_TOPIC_CONFIGS,
    COMMANDS,
    Command,
    answer,
    from_json,
    refusal_text,
    response_of,
    serve_requests,
    to_json,
)
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.metadata.records import AdminRequestRecord, AdminResultRecord, ControllerRecord
from kafka_on_spark.metadata.reports import ReplicaInspection
from tests.controller.controlled import LEASE_MS, TIMEOUT_MS, create, pending, run
from tests.examples import many
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

    run(
        world.process("me"),
        (ALTER_TOPIC_CONFIGS, {"name": "orders", "configs": {"retention.ms": 5}}),
    )

    assert world.log.end_offset == before


def test_a_refusal_at_the_controller_is_raised_at_the_caller_as_the_same_error(world):
    """Two ask for the same topic at once; the controller decides in the order of the log."""
    active = world.controller()
    pending(world, create("orders"), asked_by="the faster one")
    world.while_waiting(lambda: serve_requests(active, world.id_source))
    slower = world.process("slower")

    with pytest.raises(TopicAlreadyExistsError, match="'orders' exists already: choose another"):
        run(slower, create("orders"))

    assert len(world.image.topics) == 1
    assert world.image.requests == ()


def test_a_request_that_is_withdrawn_while_it_is_decided_is_not_run(world):
    """The controller's commit loses to the withdrawal; decided again, there is nothing to do."""
    active = world.controller()
    record = pending(world, create("orders"))
    asker, append = world.metadata(), world.log.append

    def withdraw_first(*arguments, **named):
        world.log.append = append
        asker.submit(
            partial(answer, record=record, id_source=None, is_withdrawn=True), timeout_ms=1000
        )
        return append(*arguments, **named)

    world.log.append = withdraw_first

    serve_requests(active, world.id_source)

    assert (world.image.topics, world.image.requests) == ({}, ())
    assert world.kinds(since=3) == [["AdminResultRecord"]]


@pytest.mark.parametrize(
    "asker_ms, controller_ms", [(-3_600_000, 0), (3_600_000, 0), (0, 50_000), (-50_000, 50_000)]
)
def test_a_request_that_has_just_come_is_run_whatever_two_clocks_say(
    world, asker_ms, controller_ms
):
    world.log.ask_root_ms = now_ms = world.clock.now_ms

    def skewed(skew_ms):
        return SimpleNamespace(
            now_ms=lambda: now_ms() + skew_ms,
            monotonic_ms=world.clock.monotonic_ms,
            sleep_ms=world.clock.sleep_ms,
        )

    active = world.controller(clock=skewed(controller_ms))
    world.clock.advance(LEASE_MS // 2)  # so that it commits before it decides
    world.while_waiting(lambda: serve_requests(active, world.id_source))
    process = world.process_with(world.metadata(skewed(asker_ms)))

    run(process, create("orders"), timeout_ms=5_000)

    assert world.image.topic_ids.keys() == {"orders"}


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_BEFORE])
def test_an_answer_whose_commit_is_unknown_ends_the_term_and_the_next_one_knows(world, fault):
    first = world.controller("first")
    pending(world, create("orders"))
    id_source = world.id_source
    world.log.faults.append(fault)
    with pytest.raises(CommitOutcomeUnknownError):
        serve_requests(first, id_source)

    serve_requests(world.controller("second"), world.id_source)

    assert list(world.image.topic_ids) == ["orders"]
    assert [kinds.count("TopicRecord") for kinds in world.kinds()].count(1) == 1


def test_a_request_that_breaks_its_decision_is_answered_and_harms_nobody_after_it(world):
    def broken(image):
        raise ZeroDivisionError("a bug")

    active = world.controller()
    COMMANDS["broken"] = Command("broken", broken)
    try:
        pending(world, (COMMANDS["broken"], {}))
        pending(world, create("orders"))
        serve_requests(active, world.id_source)
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

    serve_requests(world.controller(), world.id_source)

    assert world.image.requests == ()
    assert '"code": 42' in world.log.batches[-1].records[-1].result


def test_an_argument_that_no_request_can_carry_is_refused_before_anything_is_written():
    with pytest.raises(InvalidRequestError, match="can't be given <object object"):
        to_json({"name": object()})


def test_a_waiter_that_sees_no_renewal_for_a_lease_decides_its_own_request(world):
    dead = world.controller("dead")
    pending(world, create("another's"))
    began_ms = world.clock.monotonic_ms()

    run(world.process("me"), create("mine"))

    assert LEASE_MS <= world.clock.monotonic_ms() - began_ms < LEASE_MS + 1000
    assert list(world.image.topic_ids) == ["mine"]
    assert world.image.controller.controller_id is None
    assert world.image.controller.controller_epoch == dead.epoch + 1


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


LOOK = ReplicaInspection(
    key=PartitionKey("id", 3),
    broker_id=1,
    partition_epoch=4,
    high_watermark=5,
    log_start_offset=0,
    log_end_offset=9,
    last_epoch=None,
    epoch_below_high_watermark=2,
    chain_digest="c" * 32,
    chain_at_high_watermark=None,
)

keys = st.builds(PartitionKey, st.text(max_size=4), st.integers(0, 9))

atoms = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | keys | st.just(LOOK)

values = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.integers() | keys, inner, max_size=3)
    ),
    max_leaves=8,
)

CODED = [each for each in ProtocolError.__subclasses__()]


@settings(max_examples=many(150))
@given(value=values)
def test_a_value_comes_out_of_json_as_it_went_in(value):
    assert from_json(json.loads(json.dumps(to_json(value)))) == value


def test_a_tuple_comes_out_as_a_list_and_a_whole_number_of_numpy_as_python_has_it():
    numpy = pytest.importorskip("numpy", reason="only pyarrow and pandas bring it")

    plain = to_json((numpy.int64(3), [numpy.int32(4)]))

    assert plain == [3, [4]]
    assert {type(plain[0]), type(plain[1][0])} == {int}


@pytest.mark.parametrize("kind", CODED, ids=lambda kind: kind.__name__)
def test_a_refusal_is_raised_at_the_caller_as_the_same_class(kind):
    text = refusal_text(kind("a sentence", offset=3))

    with pytest.raises(kind) as caught:
        response_of(AdminResultRecord(request="", result=text))

    assert type(caught.value) is kind
    assert str(caught.value) == "a sentence [offset=3]"
    assert json.loads(text)["code"] == kind.code


def test_what_has_no_code_is_raised_as_an_error_of_the_package():
    with pytest.raises(KafkaOnSparkError, match="could not decide: KeyError: 3"):
        response_of(AdminResultRecord(request="", result='{"code": -1, "error": "KeyError: 3"}'))


def test_a_request_whose_withdrawal_loses_against_its_answer_was_answered_however_late(world):
    active, append = world.controller(), world.log.append

    def late(records, *arguments, **named):
        if not isinstance(records[0], AdminResultRecord):
            return append(records, *arguments, **named)
        world.log.append = append
        serve_requests(active, world.id_source)
        world.clock.advance(TIMEOUT_MS + 1)
        raise CommitConflictError("another commit was faster")

    world.log.append = late
    topic_id = run(world.process("me"), create("orders"), timeout_ms=0)

    assert world.image.topic_ids == {"orders": topic_id}


@pytest.mark.parametrize("fault", [Fault.OFFLINE, Fault.LOST_BEFORE, Fault.LOST_ANSWER])
def test_a_waiter_whose_decision_fails_decides_again(world, fault):
    world.controller("dead")
    process = world.process("me")
    world.log.faults.extend([None, fault])

    topic_id = run(process, create("orders"))

    assert world.image.topic_ids == {"orders": topic_id}


def test_a_waiter_that_another_claim_overtakes_waits_for_the_new_controller(world):
    """Before it decides its request another process claims."""
    world.controller("dead")
    append = world.log.append

    def race(records, stamp, *, expected_offset):
        is_mine = any(
            isinstance(each, ControllerRecord) and each.controller_id == "me" for each in records
        )
        if is_mine:
            world.log.append = append
            rival = world.controller("rival")
            world.while_waiting(lambda: serve_requests(rival, world.id_source))
        return append(records, stamp, expected_offset=expected_offset)

    world.log.append = race

    run(world.process("me"), create("orders"))

    assert [batch.stamp.controller_id for batch in world.log.batches][-1] == "rival"
    assert world.image.topic_ids.keys() == {"orders"}
