"""`produce` with files: what becomes of their lines, and what is refused."""

from types import SimpleNamespace

import pytest

from kafka_on_spark.base.errors import (
    ClusterClosedError,
    InvalidRequestError,
    KafkaStorageError,
    RootFullError,
)
from kafka_on_spark.cli.lines import line_parser
from kafka_on_spark.cli.produce import FIRST_TRY_MS, Appends, Chunk
from kafka_on_spark.metadata.metadata_service import MetadataService
from tests.fakes import FakeClock

LED = SimpleNamespace(leader=1)


@pytest.fixture
def file(tmp_path):
    """Writes a file; returns its path."""

    def write(content, name="given"):
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return write


def _values(cluster, topic):
    return cluster.read(topic).column("value").to_pylist()


def test_line_that_can_be_no_record_is_not_read_to_its_end(
    call, new_topic, cluster, file, monkeypatch
):
    monkeypatch.setattr("kafka_on_spark.cli.produce.CHUNK_BYTES", 10_000)
    topic = new_topic(configs={"max.message.bytes": 1000})
    path = file(b"a\n" + b"x" * 10_000_000)

    why = call.refused("produce", "--topic", topic, path)

    assert why.startswith(f"line 2 of {path} has more than 66,536 bytes")
    assert _values(cluster, topic) == [b"a"]


def test_metadata_root_that_is_away_for_a_moment_before_a_chunk_ends_nothing(
    call, new_topic, cluster, file, monkeypatch
):
    topic = new_topic()
    append, catch_up = type(cluster).append, MetadataService.catch_up
    failing = []

    def fails_then(*arguments, **options):
        result = append(*arguments, **options)
        failing[:] = [KafkaStorageError("the metadata root is away")] * 2
        return result

    def fails(self):
        if failing:
            raise failing.pop()
        return catch_up(self)

    monkeypatch.setattr(type(cluster), "append", fails_then)
    monkeypatch.setattr(MetadataService, "catch_up", fails)
    monkeypatch.setattr("kafka_on_spark.cli.produce.PAUSE_MS_MIN", 1)
    monkeypatch.setattr("kafka_on_spark.cli.produce.READ_BYTES", 2)

    small = ("--producer-property", "batch.size=1")

    call("produce", "--topic", topic, *small, file(b"a\nb\n"))
    failing.clear()

    assert _values(cluster, topic) == [b"a", b"b"]


def test_unknown_outcome_has_an_exit_code_of_its_own_and_names_its_lines(
    call, new_topic, cluster, file, monkeypatch
):
    topic = new_topic()
    append = type(cluster).append

    def loses_second(self, topic, batch, *, sequence, **options):
        if sequence:
            raise ClusterClosedError("no answer")
        return append(self, topic, batch, sequence=sequence, **options)

    monkeypatch.setattr(type(cluster), "append", loses_second)
    path = file(b"a\nb\nc\n")
    monkeypatch.setattr("kafka_on_spark.cli.produce.CHUNK_BYTES", 1)

    monkeypatch.setattr("kafka_on_spark.cli.produce.READ_BYTES", 2)
    result = call._run("produce", "--topic", topic, path)

    assert (result.code, result.out) == (3, "")
    assert result.complaint == (
        f"kafka-on-spark: line 2 of {path}: whether it was appended is unknown (no answer); read the"
        " topic before you append it again; appended before: 1 record\n"
    )


def test_a_chunk_that_takes_long_says_why_once_and_ends_in_time(capsys):
    """As where the metadata root is full."""
    clock, tries = FakeClock(), []

    class FullCluster:
        def __init__(self):
            image = SimpleNamespace(topic=lambda name: SimpleNamespace(partitions={0: LED}))
            self._node = SimpleNamespace(metadata=SimpleNamespace(image=image))

        def append(self, topic, batch, *, timeout_ms, **others):
            tries.append(timeout_ms)
            clock.advance(timeout_ms)
            raise RootFullError("no space is left")

    appends = Appends(FullCluster(), "t", parse=line_parser({}), delivery_timeout_ms=10_000)
    appends.clock = clock
    began_ms = clock.monotonic_ms()

    with pytest.raises(InvalidRequestError, match="line 1 of standard input: no space is left"):
        appends.append_chunk(Chunk([b"x"]))

    assert tries[0] == FIRST_TRY_MS
    assert capsys.readouterr().err.count("no space is left") == 1
    assert clock.monotonic_ms() - began_ms == 10_000
