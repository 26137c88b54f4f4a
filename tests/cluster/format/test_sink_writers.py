"""The sink's writers on a real cluster: topics by row, conditions, expansion, and fences."""

from contextlib import nullcontext

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType

from kafka_on_spark.errors import (
    CommitConflictError,
    DuplicateSequenceError,
    InvalidRecordError,
    KafkaStorageError,
    NotEnoughReplicasError,
    ProducerFencedError,
    UnexpectedOffsetError,
    UnknownProducerIdError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.log.merging.merge_plan import FAN_IN
from kafka_on_spark.spark.format import sink
from kafka_on_spark.spark.format.shared_runs import LOCAL_DIRS
from kafka_on_spark.spark.format.sink import BatchWriter
from tests.cluster.disks import PATIENCE_MS, isr_of, new_disks, values_of
from tests.cluster.format.sinks import TYPES, Query, options_of, schema_of, write_batch
from tests.fakes import FakeClock


@pytest.fixture
def disks():
    with new_disks() as disks:
        disks.cluster.create_topic("one", partitions=2, replication_factor=2)
        disks.cluster.create_topic("two", replication_factor=2)
        yield disks
        for each in sink._RUNS.values():
            each.close()
        sink._RUNS.clear()


def row(topic, value, key=b"k"):
    return {"topic": topic, "key": key, "value": value}


def both(first=0, count=3):
    """Return rows of two tasks for two topics, interleaved; values rise."""
    names = ["one", "two", "two"]
    rows = [row(names[n % 3], b"%03d" % n) for n in range(first, first + 2 * count)]
    return [rows[:count], rows[count:]]


def expected(tasks, topic):
    return [each["value"] for task in tasks for each in task if each["topic"] == topic]


def test_each_row_goes_to_its_topic_in_the_order_of_tasks(disks, monkeypatch):
    tasks = both()

    write_batch(disks, tasks, monkeypatch)

    for topic in ("one", "two"):
        assert values_of(disks.cluster, topic) == expected(tasks, topic)


def test_the_high_watermarks_of_all_topics_move_in_one_commit(disks, monkeypatch):
    write_batch(disks, both(), monkeypatch)
    before = len(disks.cluster._metadata.history())

    write_batch(disks, both(6), monkeypatch)

    assert len(disks.cluster._metadata.history()) == before + 1


def test_the_option_wins_over_a_column_of_any_type(disks, monkeypatch):
    write_batch(disks, [[{"partition": 0, "value": b"a"}]], monkeypatch, topic="two")
    monkeypatch.setitem(TYPES, "topic", (IntegerType(), pa.int32()))

    write_batch(disks, [[row(5, b"b")]], monkeypatch, topic="two")

    assert values_of(disks.cluster, "two") == [b"a", b"b"]


def test_the_option_wins_over_the_column(disks, monkeypatch):
    tasks = both()

    write_batch(disks, tasks, monkeypatch, topic="two")

    assert values_of(disks.cluster, "one") == []
    assert len(values_of(disks.cluster, "two")) == 6


# fmt: off
REFUSED = [
    pytest.param([row("two", b"a"), row(None, b"b")],   InvalidRecordError,           r"\[KAFKA_NULL_TOPIC_IN_DATA\] The Kafka message data sent to the producer contains a null topic. Use the `topic` option for setting a default topic.", id="null topic"),
    pytest.param([row("two", b"a"), row("tow", b"b")],  UnknownTopicOrPartitionError, "'tow'",                                                                                                                                  id="unknown topic"),
]
# fmt: on


@pytest.mark.parametrize("rows, error, words", REFUSED)
def test_a_row_that_goes_nowhere_takes_all_with_it(disks, monkeypatch, rows, error, words):
    before = disks.cluster.image.offset

    with pytest.raises(error, match=words):
        write_batch(disks, [both()[0], rows], monkeypatch)

    assert disks.cluster.image.offset == before
    assert [values_of(disks.cluster, name) for name in ("one", "two")] == [[], []]


def test_a_batch_of_a_producer_is_appended_to_all_its_topics_once(disks, monkeypatch):
    for _ in range(2):
        write_batch(disks, both(), monkeypatch, producer_id="p", sequence=4)

    assert len(values_of(disks.cluster, "one")) == 2
    assert len(values_of(disks.cluster, "two")) == 4


def test_what_is_expected_of_several_topics_is_checked_before_the_first_commit(disks, monkeypatch):
    disks.cluster.append("two", [("k", "first")])
    condition = '{"one":{"0":0,"1":0},"two":{"0":%d}}'

    with pytest.raises(UnexpectedOffsetError, match="ends at 1, not at the expected 0"):
        write_batch(disks, both(), monkeypatch, expected_offsets=condition % 0)
    assert values_of(disks.cluster, "one") == []

    write_batch(disks, both(), monkeypatch, expected_offsets=condition % 1)
    assert len(values_of(disks.cluster, "one")) == 2


def test_a_condition_on_a_topic_that_gets_no_row_counts(disks, monkeypatch):
    disks.cluster.append("two", [("k", "first")])
    only_one = [[row("one", b"a")]]

    with pytest.raises(UnexpectedOffsetError, match="ends at 1, not at the expected 0"):
        write_batch(disks, only_one, monkeypatch, expected_offsets='{"two":{"0":0}}')

    assert values_of(disks.cluster, "one") == []


def test_a_condition_counts_for_a_write_without_rows(disks, monkeypatch):
    writer = BatchWriter(
        options_of(disks, topic="one", expected_offsets='{"one":{"0":3}}'),
        schema_of([row("one", b"a")]),
        overwrite=False,
    )

    with pytest.raises(UnexpectedOffsetError, match="not at the expected 3"):
        writer.commit([])


@pytest.mark.parametrize("acks", ["0", "1"])
def test_an_absent_root_is_an_error_unless_acks_is_0(disks, monkeypatch, acks):
    disks.cluster.append("two", [("k", "first")])
    disks.take_away(1, 2, 3)
    try:
        with pytest.raises(KafkaStorageError) if acks == "1" else nullcontext():
            write_batch(disks, [[row("two", b"a")]], monkeypatch, acks=acks)
    finally:
        disks.give_back(1, 2, 3)

    assert values_of(disks.cluster, "two") == [b"first"]


@pytest.mark.parametrize("given", [{}, {"topic": "one"}], ids=["by row", "by option"])
def test_a_batch_that_runs_again_after_its_topic_was_expanded_is_the_same(
    disks, monkeypatch, given
):
    keys = [[row("one", b"%d" % n, key=b"key-%d" % n) for n in range(20)]]
    Query(disks, monkeypatch, run="first", **given).add(0, keys)
    disks.cluster.add_partitions("one", to=7)

    again = Query(disks, monkeypatch, run="second", **given)
    again.add(0, keys)
    assert len(values_of(disks.cluster, "one")) == 20
    again.add(1, keys)

    assert len(values_of(disks.cluster, "one")) == 40
    assert len(numbers_of(disks.cluster)) > 2


@pytest.mark.parametrize("given", [{}, {"topic": "one"}], ids=["by row", "by option"])
def test_a_batch_of_a_topic_that_grows_while_it_is_staged_is_appended_as_it_was_split(
    disks, monkeypatch, given
):
    keys = [[row("one", b"%d" % n, key=b"key-%d" % n) for n in range(20)]]
    query = Query(disks, monkeypatch, run="first", **given)
    messages = query.stage(0, keys)
    disks.cluster.add_partitions("one", to=7)

    query.commit(0, keys, messages)
    assert numbers_of(disks.cluster) == {0, 1}
    again = Query(disks, monkeypatch, run="second", **given)
    again.add(0, keys)
    assert len(values_of(disks.cluster, "one")) == 20
    again.add(1, keys)

    assert len(values_of(disks.cluster, "one")) == 40
    assert len(numbers_of(disks.cluster)) > 2


def test_a_batch_that_is_staged_otherwise_than_its_first_try_stands_is_not_appended(
    disks, monkeypatch
):
    """A task that could not read what the first try has left takes it for the first one."""
    keys = [[row("one", b"%d" % n, key=b"key-%d" % n) for n in range(20)]]
    query = Query(disks, monkeypatch, run="first")
    older = query.stage(0, keys)
    disks.cluster.add_partitions("one", to=7)
    newer = query.stage(0, keys)
    query.commit(0, keys, older)

    with pytest.raises(CommitConflictError, match=r"'one' was given partitions.*run it again"):
        Query(disks, monkeypatch, run="second").commit(0, keys, newer)

    assert len(values_of(disks.cluster, "one")) == 20


def numbers_of(cluster) -> set[int]:
    return set(cluster.read("one").column("partition").to_pylist())


# fmt: off
WAITS = [
    pytest.param({},                 True,  id="by row, while they are away"),
    pytest.param({"topic": "three"}, True,  id="by option, while they are away"),
    pytest.param({"topic": "three"}, False, id="staged before"),
]
# fmt: on


@pytest.mark.parametrize("given, is_away", WAITS)
def test_a_batch_waits_until_enough_replicas_are_in_sync(disks, monkeypatch, given, is_away):
    cluster, tasks, clock = disks.cluster, [[row("three", b"a")]], FakeClock()
    cluster.create_topic(
        "three", replica_assignment={0: [1, 2, 3]}, configs={"min.insync.replicas": 2}
    )
    cluster.alter_cluster_configs({"delivery.timeout.ms": PATIENCE_MS})
    query = Query(disks, monkeypatch, **given)
    query.services().clock = clock

    def come_back():
        clock.on_sleep = lambda: None
        disks.give_back(2, 3)
        cluster.run_controller()
        cluster.replicate()
        cluster.replicate()

    clock.on_sleep = come_back
    messages = None if is_away else query.stage(0, tasks)
    disks.take_down(2, 3)
    assert isr_of(cluster, "three") == [1]
    query.commit(0, tasks, messages or query.stage(0, tasks))

    assert clock.slept_ms
    assert values_of(cluster, "three") == [b"a"]


def test_a_batch_write_with_too_few_replicas_in_sync_is_refused_at_once(disks, monkeypatch):
    disks.cluster.alter_topic_configs("two", {"min.insync.replicas": 2})
    disks.cluster.append("two", [("k", "first")])
    disks.take_down(isr_of(disks.cluster, "two")[1])

    with pytest.raises(NotEnoughReplicasError):
        write_batch(disks, [[row("two", b"a")]], monkeypatch)

    assert values_of(disks.cluster, "two") == [b"first"]


def test_a_run_of_a_query_takes_its_epoch_once(disks, monkeypatch):
    query = Query(disks, monkeypatch)
    for number in range(3):
        query.add(number, both(6 * number))

    assert disks.cluster.image.producers == {"spark-q": 0}


@pytest.fixture
def local_dirs(tmp_path, monkeypatch):
    """The folder that the workers of one driver share."""
    monkeypatch.setenv(LOCAL_DIRS, f"{tmp_path},/another")


class Workers:
    """Processes that append a driver's batches, each with services of its own."""

    def __init__(self, monkeypatch):
        self._monkeypatch = monkeypatch
        self._runs = {}

    def use(self, name):
        """Append the next batch in the process `name`."""
        self._monkeypatch.setattr(sink, "_RUNS", self._runs.setdefault(name, {}))

    def close(self):
        for each in [services for runs in self._runs.values() for services in runs.values()]:
            each.close()


@pytest.fixture
def workers(monkeypatch):
    workers = Workers(monkeypatch)
    yield workers
    workers.close()


@pytest.mark.parametrize("given", [{}, {"transactional_id": "etl"}], ids=["query", "etl"])
def test_a_run_whose_batches_are_appended_by_several_workers_does_not_fence_itself(
    disks, monkeypatch, local_dirs, workers, given
):
    """Spark lends a driver's idle workers to all of its queries, in turn."""
    query = Query(disks, monkeypatch, **given)
    for number, worker in enumerate([1, 2, 1, 3, 2]):
        workers.use(worker)
        query.add(number, both(6 * number))

    assert set(disks.cluster.image.producers.values()) == {0}
    assert values_of(disks.cluster, "two") == [
        value for number in range(5) for value in expected(both(6 * number), "two")
    ]


def test_workers_of_a_run_go_on_together_after_its_id_has_expired(
    disks, monkeypatch, local_dirs, workers
):
    query = Query(disks, monkeypatch)
    workers.use(1)
    query.add(0, both())
    expire(disks)

    for number, worker in [(1, 2), (2, 1)]:
        workers.use(worker)
        query.add(number, both(6 * number))

    assert len(values_of(disks.cluster, "two")) == 12


@pytest.mark.parametrize("given", [{}, {"transactional_id": "etl"}], ids=["query", "etl"])
def test_workers_of_an_older_run_are_fenced_wherever_its_next_batch_is_appended(
    disks, monkeypatch, local_dirs, workers, given
):
    older, newer = (Query(disks, monkeypatch, run=run, **given) for run in "ab")
    workers.use(1)
    older.add(0, both())
    workers.use(2)
    newer.add(0, both())

    for worker in (1, 2, 3):
        workers.use(worker)
        with pytest.raises(ProducerFencedError):
            older.add(1, both(6))
    newer.add(1, both(6))

    assert len(values_of(disks.cluster, "two")) == 8


def test_a_run_whose_epochs_can_not_be_shared_goes_on_in_one_worker(
    disks, monkeypatch, local_dirs, tmp_path, caplog
):
    (tmp_path / "kafka_on_spark").write_text("no folder")
    query = Query(disks, monkeypatch)
    for number in range(2):
        query.add(number, both(6 * number))

    assert disks.cluster.image.producers == {"spark-q": 0}
    assert "the epochs of a query's run can't be stored" in caplog.text


@pytest.fixture
def merged(disks, monkeypatch):
    """The values of a query's batches, all merged: logs can compare those of the last one only."""
    disks.cluster.alter_cluster_configs({"merge.min.lag.batches": 0})
    values = [b"%d" % number for number in range(FAN_IN)]
    query = Query(disks, monkeypatch, run="a")
    for number, value in enumerate(values):
        query.add(number, [[row("two", value)]])
    merges = [each.count for each in disks.cluster.maintain().rows if each.kind == "merge"]
    assert merges == [1, 1]
    return values


def test_a_batch_of_an_older_checkpoint_is_refused_and_never_taken_for_the_one_of_its_number(
    disks, monkeypatch, merged
):
    """It was planned anew, over other records, and the headers of its number are merged."""
    again = Query(disks, monkeypatch, run="b")

    with pytest.raises(DuplicateSequenceError, match=r"batch 3 of query q .*checkpoint is older"):
        again.add(3, [[row("two", b"another")]])

    assert values_of(disks.cluster, "two") == merged


def test_the_last_batch_is_found_also_when_it_is_merged(disks, monkeypatch, merged):
    again = Query(disks, monkeypatch, run="b")

    again.add(FAN_IN - 1, [[row("two", merged[-1])]])
    again.add(FAN_IN, [[row("two", b"next")]])

    assert values_of(disks.cluster, "two") == [*merged, b"next"]


def test_an_older_run_of_the_same_query_is_fenced(disks, monkeypatch):
    older, newer = Query(disks, monkeypatch, run="a"), Query(disks, monkeypatch, run="b")
    older.add(0, both())
    newer.add(0, both())
    newer.add(1, both(6))

    with pytest.raises(ProducerFencedError):
        older.add(2, both(12))

    assert len(values_of(disks.cluster, "two")) == 8


def test_a_batch_under_a_query_id_that_has_expired_is_refused_until_the_query_is_told_to_go_on(
    disks, monkeypatch
):
    """Its first try may have been merged, and the log has forgotten it."""
    Query(disks, monkeypatch, run="a").add(0, both())
    expire(disks)
    above = disks.cluster.image.expired_epoch + 1

    with pytest.raises(UnknownProducerIdError, match=f"'spark-q' has expired.* {above} and"):
        Query(disks, monkeypatch, run="b").add(0, both())

    told = Query(disks, monkeypatch, run="c", producer_epoch=str(above))
    told.add(0, both())  # its header is there still
    told.add(1, both(6))
    assert values_of(disks.cluster, "two") == [
        value for first in (0, 6) for value in expected(both(first), "two")
    ]


def test_a_query_goes_on_with_its_next_batch_after_its_id_has_expired(disks, monkeypatch):
    query = Query(disks, monkeypatch)
    query.add(0, both())
    expire(disks)

    query.add(1, both(6))

    assert len(values_of(disks.cluster, "two")) == 8


def expire(disks):
    """Let all producer ids expire."""
    disks.cluster.alter_cluster_configs({"producer.id.expiration.ms": 1})
    disks.cluster.run_controller()
    disks.cluster.alter_cluster_configs({"producer.id.expiration.ms": None})
    assert disks.cluster.image.producers == {}


@pytest.mark.parametrize("name", ["transactional_id", "kafka__transactional__id"])
def test_the_older_of_two_queries_with_a_transactional_id_is_fenced(disks, monkeypatch, name):
    given = {name: "etl"}
    older = Query(disks, monkeypatch, query="a", run="a", **given)
    newer = Query(disks, monkeypatch, query="b", run="b", **given)
    older.add(0, both())
    newer.add(0, both(6))

    with pytest.raises(ProducerFencedError, match="'etl' was taken over by a newer writer"):
        older.add(1, both(12))
    newer.add(1, both(18))

    assert values_of(disks.cluster, "two") == [
        value for first in (0, 6, 18) for value in expected(both(first), "two")
    ]


def test_a_query_that_is_started_again_takes_over_and_its_last_batch_is_found(disks, monkeypatch):
    given = {"transactional_id": "etl"}
    first = Query(disks, monkeypatch, run="a", **given)
    first.add(0, both())

    again = Query(disks, monkeypatch, run="b", **given)
    again.add(0, both())
    again.add(1, both(6))

    assert values_of(disks.cluster, "two") == [
        value for place in (0, 6) for value in expected(both(place), "two")
    ]


def test_a_batch_write_with_a_transactional_id_fences_a_query_that_has_it(disks, monkeypatch):
    query = Query(disks, monkeypatch, transactional_id="etl")
    query.add(0, both())
    write_batch(disks, both(6), monkeypatch, transactional_id="etl")

    with pytest.raises(ProducerFencedError, match="'etl'"):
        query.add(1, both(12))
