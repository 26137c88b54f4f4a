"""Commands as requests carry them: what goes into JSON comes out as it was, errors included."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_on_spark.base.errors import ProtocolError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.commands import (
    COMMANDS,
    CREATE_TOPIC,
    Request,
    from_json,
    refusal_text,
    request_of,
    request_record,
    response_of,
    to_json,
)
from kafka_on_spark.metadata.records import AdminResultRecord
from kafka_on_spark.metadata.reports import ReplicaInspection
from tests.examples import many

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


def test_every_command_goes_by_its_name():
    assert COMMANDS
    assert {name: command.name for name, command in COMMANDS.items()} == {n: n for n in COMMANDS}


def test_a_request_is_read_back_from_its_record():
    request = Request(
        order=CREATE_TOPIC.order(name="orders", replica_assignment={0: [1, 2]}),
        asked_by="me",
        timeout_ms=5,
        deadline_at_ms=7,
    )

    record = request_record(request, "id")

    assert request_of(record) == request
    assert record.cause == "create_topic asked for by me"
    assert request_record(request, "other id") != record


@pytest.mark.parametrize("kind", CODED, ids=lambda kind: kind.__name__)
def test_a_refusal_is_raised_at_the_caller_as_the_same_class(kind):
    text = refusal_text(kind("a sentence", offset=3))

    with pytest.raises(kind) as caught:
        response_of(AdminResultRecord(request="", result=text))

    assert type(caught.value) is kind
    assert str(caught.value) == "a sentence [offset=3]"
    assert json.loads(text)["code"] == kind.code
