"""Errors travel: as codes in rows, as pickles between processes, as sentences to people."""

import pickle

import pytest

from kafka_on_spark.base import errors
from kafka_on_spark.base.errors import (
    ERROR_BY_CODE,
    ERROR_NAME_BY_CODE,
    CommitConflictError,
    CorruptLogError,
    KafkaOnSparkError,
    ProtocolError,
    RequestTimedOutError,
)

EVERY = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, KafkaOnSparkError)
]


def test_every_code_is_one_error_and_has_a_name():
    coded = [
        each for each in EVERY if issubclass(each, ProtocolError) and each is not ProtocolError
    ]

    assert {each.code: each for each in coded} == ERROR_BY_CODE
    assert len({each.code for each in coded}) == len(coded)
    assert len(set(ERROR_NAME_BY_CODE.values())) == len(coded) + 2
    assert ERROR_NAME_BY_CODE[0] == "NONE"


@pytest.mark.parametrize("kind", EVERY)
def test_error_survives_its_way_between_processes(kind):
    error = pickle.loads(pickle.dumps(kind("a sentence", offset=3, broker_id=1)))

    assert type(error) is kind
    assert (error.message, error.context) == ("a sentence", {"offset": 3, "broker_id": 1})
    assert str(error) == "a sentence [broker_id=1 offset=3]"


def test_error_without_context_is_its_sentence():
    assert str(CorruptLogError("a sentence")) == "a sentence"


def test_caller_may_catch_what_python_calls_it():
    assert issubclass(RequestTimedOutError, TimeoutError)
    assert CommitConflictError.is_retriable
    assert not CorruptLogError.is_retriable
