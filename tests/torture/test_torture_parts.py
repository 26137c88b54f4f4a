"""Histories on the disk, what a killed client goes on with, what fsck may find."""

import random

import pytest

from kafka_on_spark.base.errors import (
    DuplicateSequenceError,
    KafkaStorageError,
    NotEnoughReplicasError,
)
from kafka_on_spark.base.ids import TopicPartition
from kafka_on_spark.fsck.findings import Finding, Place
from kafka_on_spark.produce.append import AppendResult, PartitionAppend
from tests.rigs.torturing.clients.appending import AppendingClient, last_work
from tests.rigs.torturing.ending import is_rolled_back
from tests.rigs.torturing.history import (
    APPEND,
    FAIL,
    INFO,
    INVOKE,
    HistoryWriter,
    read_client,
    read_history,
)

# Histories


def test_a_line_that_a_kill_has_cut_off_is_no_event(tmp_path):
    writer = HistoryWriter(tmp_path, "a.1")
    writer.invoke(APPEND)
    with (tmp_path / "a.1.jsonl").open("ab") as file:
        file.write(b'{"kind":"ok","ca')

    assert [event.kind for event in read_history(tmp_path)] == [INVOKE]


# Clients


class Log:
    """A log that answers as told, and remembers what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def append(self, topic, rows, **options):
        self.asked.append((topic, list(rows), options["sequence"]))
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        parts = {
            number: PartitionAppend(base_offset=0, record_count=1, is_duplicate=False)
            for _, number in rows
        }
        return AppendResult(topic=topic, partitions=parts)


def client(folder, log, process, producer_id="p"):
    before = read_client(folder, process.rpartition(".")[0])
    writer = HistoryWriter(folder, process)
    return AppendingClient(
        log.append, writer, random.Random(1), producer_id=producer_id, before=before
    )


def test_a_producer_repeats_an_append_until_it_is_acknowledged(tmp_path):
    log = Log(KafkaStorageError("no"), NotEnoughReplicasError("no"))
    appending = client(tmp_path, log, "a.1")

    for _ in range(4):
        appending.once()

    first, second, third, fourth = log.asked
    assert first == second == third != fourth
    assert (first[2], fourth[2]) == (0, 1)


def test_a_producer_that_was_killed_goes_on_with_what_was_under_way(tmp_path):
    log = Log(None, SystemExit())  # it ends in the middle of its second append
    killed = client(tmp_path, log, "a.1")
    killed.once()
    with pytest.raises(SystemExit):
        killed.once()

    after = client(tmp_path, log, "a.2")
    after.once()
    after.once()

    assert log.asked[2] == log.asked[1]
    assert log.asked[3][2] == 2
    values = [value for _, rows, _ in log.asked for value, _ in rows]
    assert {value.partition(":")[0] for value in values} == {"a.1", "a.2"}


def test_a_sequence_that_another_run_has_taken_is_given_up(tmp_path):
    log = Log(DuplicateSequenceError("another run's"))
    appending = client(tmp_path, log, "a.1")

    appending.once()
    appending.once()

    assert [sequence for _, _, sequence in log.asked] == [0, 1]
    assert last_work(read_client(tmp_path, "a")) == (2, None)


def test_a_refusal_of_one_partition_is_certain_and_of_two_is_not(tmp_path):
    appending = client(tmp_path, Log(*[NotEnoughReplicasError("no")] * 60), "a.1", producer_id=None)

    for _ in range(60):
        appending.once()

    events = read_history(tmp_path)
    sizes = {event.index: len(event.fields["parts"]) for event in events if event.kind == INVOKE}
    outcomes = {(sizes[event.index], event.kind) for event in events if event.kind != INVOKE}
    assert outcomes == {(1, FAIL), (2, INFO)}


def test_a_refusal_after_a_try_that_may_be_committed_is_not_certain(tmp_path):
    error = NotEnoughReplicasError("no", may_be_committed=True)
    appending = client(tmp_path, Log(*[error] * 20), "a.1", producer_id=None)

    for _ in range(20):
        appending.once()

    assert {event.kind for event in read_history(tmp_path)} == {INVOKE, INFO}


# Tables that are rolled back


@pytest.mark.parametrize(
    "invariant, version, is_explained",
    [("I1", 57, True), ("I9", 57, True), ("I1", 58, False), ("I2", 57, False), (None, 57, False)],
)
def test_fsck_may_find_that_a_table_ended_early_where_it_was_rolled_back(
    invariant, version, is_explained
):
    place = Place(partition=TopicPartition("orders", 0), broker_id=2, version=version, offset=400)
    finding = Finding(invariant=invariant, place=place, sentence="it ended at 368")

    assert is_rolled_back(finding, {(2, "orders", 0, 57)}) is is_explained
