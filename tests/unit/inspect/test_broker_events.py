"""What happened to brokers, off a table whose root may hang."""

import threading

import pytest

from kafka_on_spark.inspect import history
from kafka_on_spark.storage.calls import deadlines


def test_broker_events_do_not_hang_with_the_metadata_root(monkeypatch):
    hang = threading.Event()
    monkeypatch.setattr(deadlines, "LONG_CALL_SECONDS", 0.2)
    monkeypatch.setattr(history, "DeltaTable", lambda *args, **named: hang.wait())

    with pytest.raises(deadlines.RootHangsError, match="does not answer"):
        history.broker_events("/no/such/table")

    hang.set()
