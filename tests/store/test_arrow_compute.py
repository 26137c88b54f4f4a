"""What is imported in the middle of a call, and may fail there."""

import builtins

import pytest

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.store import arrow_compute


def test_an_import_that_fails_in_the_middle_of_a_call_is_a_sentence(monkeypatch):
    original = builtins.__import__

    def full(name, *given, **named):
        if name == "pyarrow.compute":
            raise OSError(24, "Too many open files")
        return original(name, *given, **named)

    monkeypatch.delitem(vars(arrow_compute), "is_valid", raising=False)
    monkeypatch.setattr(builtins, "__import__", full)

    with pytest.raises(
        KafkaOnSparkError, match=r"can't be imported .* Too many open files.* call again"
    ):
        _ = arrow_compute.is_valid
