"""`produce` with files: what becomes of their lines, and what is refused."""

import json
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


def _rows(cluster, topic):
    table = cluster.read(topic)
    return [
        (row["key"], row["value"], [(each["key"], each["value"]) for each in row["headers"] or ()])
        for row in table.to_pylist()
    ]


def _values(cluster, topic):
    return cluster.read(topic).column("value").to_pylist()


def test_lines_of_files_are_records_in_their_order(call, new_topic, cluster, file):
    topic = new_topic()

    said = call("produce", "--topic", topic, file(b"a\n\nb\xff\r\n", "1"), file(b"c", "2"))

    assert said == f"Appended 4 records to {topic}.\n"
    assert _values(cluster, topic) == [b"a", b"", b"b\xff", b"c"]


def test_properties_are_those_of_kafkas_reader(call, new_topic, cluster, file):
    topic = new_topic()
    given = ("parse.key=true", "key.separator= ", "null.marker=-")
    properties = [each for one in given for each in ("--property", one)]

    call("produce", "--topic", topic, *properties, file(b"a 1\nb -\n- 3\n"))

    assert _rows(cluster, topic) == [(b"a", b"1", []), (b"b", None, []), (None, b"3", [])]


def test_json_says_all_of_a_record_and_where_it_goes(call, new_topic, cluster, file):
    topic = new_topic(partitions=3)
    record = {"key": {"base64": "/w=="}, "value": None, "headers": {"h": "1"}}
    lines = [{**record, "partition": 2, "timestamp": 1_700_000_000_000}, {"value": "v"}]
    content = "\n".join(map(json.dumps, lines)).encode()

    answer = call.json("produce", "--topic", topic, "--json", file(content))

    rows = cluster.read(topic, start={2: 0}).to_pylist()
    [row] = [each for each in rows if each["partition"] == 2 and each["key"] == b"\xff"]
    assert (row["value"], row["headers"]) == (None, [{"key": "h", "value": b"1"}])
    assert row["timestamp"].timestamp() == 1_700_000_000
    assert answer["record_count"] == 2
    assert sum(each["record_count"] for each in answer["partitions"]) == 2


def test_the_partition_of_a_call_holds_for_all(call, new_topic, cluster, file):
    topic = new_topic(partitions=3)

    answer = call.json("produce", "--topic", topic, "-p", 1, file(b"a\nb\n"))

    assert cluster.read(topic).column("partition").to_pylist() == [1, 1]
    part = {"partition": 1, "record_count": 2, "first_offset": 0, "last_offset": 1}
    assert answer == {"topic": topic, "record_count": 2, "partitions": [part]}


def test_bad_line_is_named_and_those_before_it_stand(call, new_topic, cluster, file):
    topic = new_topic()
    path = file(b"a\t1\nb\t2\nc\nd\t4\n")

    why = call.refused("produce", "--topic", topic, "--property", "parse.key=true", path)

    assert why.startswith(f'line 3 of {path} has no key separator ("\\x09"): "c"')
    assert why.endswith("; appended before: 2 records")
    assert _values(cluster, topic) == [b"1", b"2"]


def test_record_that_the_topic_refuses_is_named_and_those_before_it_stand(
    call, new_topic, cluster, file
):
    topic = new_topic(configs={"max.message.bytes": 1000})
    path = file(b"".join(b"%d\n" % each for each in range(20)) + b"x" * 1001 + b"\nlast\n")

    why = call.refused("produce", "--topic", topic, path)

    assert why.startswith(f"line 21 of {path}: a record has 1001 bytes")
    assert "appended before: 20 records" in why
    assert _values(cluster, topic) == [b"%d" % each for each in range(20)]


def test_line_that_can_be_no_record_is_not_read_to_its_end(
    call, new_topic, cluster, file, monkeypatch
):
    monkeypatch.setattr("kafka_on_spark.cli.produce.CHUNK_BYTES", 10_000)
    topic = new_topic(configs={"max.message.bytes": 1000})
    path = file(b"a\n" + b"x" * 10_000_000)

    why = call.refused("produce", "--topic", topic, path)

    assert why.startswith(f"line 2 of {path} has more than 66,536 bytes")
    assert _values(cluster, topic) == [b"a"]


REFUSED = [
    (("--json", "--property", "parse.key=true"), "give one of --json, --property"),
    (("--property", "parse.keys=true"), "did you mean 'parse.key'"),
    (("--acks", "0"), "waits for no answer"),
    (("--producer-property", "acks=0"), "waits for no answer"),
    (("--producer-property", "retries=3"), "unknown property 'retries'"),
    (("--producer-property", "linger.ms=soon"), "linger.ms can't be 'soon'"),
    (("--producer-property", "linger.ms=3000000000"), "linger.ms can't be '3000000000'"),
    (("--compression-codec", "gzip"), "No such option: --compression-codec"),
    (("-p", "3000000000"), "--partition"),
    (("/nowhere",), "/nowhere can't be read: No such file or directory"),
    (("/",), "/ can't be read: Is a directory"),
]


@pytest.mark.parametrize("arguments, why", REFUSED)
def test_options_that_mean_nothing_are_refused_before_anything_is_read(
    call, new_topic, cluster, file, arguments, why
):
    topic = new_topic()

    assert why in call.refused("produce", "--topic", topic, *arguments, file(b"a\n"))
    assert cluster.offsets(topic)[0].high_watermark == 0


def test_unknown_topic_is_refused(call, file):
    assert "nowhere" in call.refused("produce", "--topic", "nowhere", file(b"a\n"))


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
