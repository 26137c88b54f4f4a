"""Histories on the disk, what a killed client goes on with, disks, the report."""

import json
import os
import random
import shutil

import pytest

from kafka_on_spark.audit.findings import Finding, Place
from kafka_on_spark.errors import (
    DuplicateSequenceError,
    KafkaStorageError,
    NotEnoughReplicasError,
    ProducerFencedError,
)
from kafka_on_spark.ids import TopicPartition
from kafka_on_spark.service.append.plan.append_results import AppendResult, PartitionAppend
from tests.torture.harness.checks.anomalies import CHECKS, Anomaly
from tests.torture.harness.checks.facts import outcomes_of
from tests.torture.harness.clients.appending import AppendingClient, last_work
from tests.torture.harness.ending import is_rolled_back, longest_silence_s
from tests.torture.harness.faults import disks as disks_module
from tests.torture.harness.faults.disks import Disks, stray_commits, wrong_strays
from tests.torture.harness.folder import TortureFolder
from tests.torture.harness.history import (
    APPEND,
    FAIL,
    INFO,
    INVOKE,
    OK,
    POLL,
    HistoryWriter,
    read_client,
    read_history,
)
from tests.torture.harness.report import ALIKE_MAX
from tests.torture.reports import report_of
from tests.torture.stories import SECOND_NS, Story

# Histories


def test_a_history_is_read_as_it_was_written(tmp_path):
    writer = HistoryWriter(tmp_path, "a.1")
    index = writer.invoke(APPEND, parts={"orders/0": ["é"]}, acks="all")
    writer.complete(index, APPEND, OK, bases={"orders/0": 7})

    invoked, completed = read_history(tmp_path)

    assert (invoked.kind, invoked.call, invoked.index, invoked.client) == (INVOKE, APPEND, 0, "a")
    assert invoked.fields == {"parts": {"orders/0": ["é"]}, "acks": "all"}
    assert (completed.kind, completed.fields["bases"]) == (OK, {"orders/0": 7})
    assert invoked.at_ns <= completed.at_ns


def test_a_line_that_a_kill_has_cut_off_is_no_event(tmp_path):
    writer = HistoryWriter(tmp_path, "a.1")
    writer.invoke(APPEND)
    with (tmp_path / "a.1.jsonl").open("ab") as file:
        file.write(b'{"kind":"ok","ca')

    assert [event.kind for event in read_history(tmp_path)] == [INVOKE]


def test_a_damaged_line_in_the_middle_is_not_passed_over(tmp_path):
    (tmp_path / "a.1.jsonl").write_bytes(b"garbage\n")

    with pytest.raises(json.JSONDecodeError):
        read_history(tmp_path)


def test_a_client_reads_the_history_of_its_own_earlier_processes_only(tmp_path):
    for process in ("a-1.1", "a-1.2", "a-10.1", "b.1"):
        HistoryWriter(tmp_path, process).invoke(POLL)

    assert [event.process for event in read_client(tmp_path, "a-1")] == ["a-1.1", "a-1.2"]


def test_calls_are_counted_by_outcome_and_open_ones_are_unknown():
    story = Story()
    story.append("a0")
    story.append("a1", kind=FAIL)
    story.append("a2", kind=INFO)
    story.send("a3")
    story.crash("a.1")

    assert outcomes_of(story.events) == {APPEND: {OK: 1, FAIL: 1, INFO: 2}}


def test_silence_is_the_longest_time_between_acknowledgements_ends_included():
    story = Story()
    for at_s in (1, 2, 6):
        story.at_ns = at_s * SECOND_NS - 2000
        story.append(f"a{at_s}")

    silence_s, by_key = longest_silence_s(story.facts, 0, 7 * SECOND_NS)

    assert silence_s == pytest.approx(4.0)
    assert by_key == {"orders/0": pytest.approx(4.0)}


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


def test_a_client_that_was_taken_over_ends(tmp_path):
    appending = client(tmp_path, Log(ProducerFencedError("newer")), "a.1")

    with pytest.raises(ProducerFencedError):
        appending.once()


def test_a_client_without_a_producer_never_repeats(tmp_path):
    log = Log(*[KafkaStorageError("no")] * 20)
    appending = client(tmp_path, log, "a.1", producer_id=None)

    for _ in range(20):
        appending.once()

    values = [value for _, rows, _ in log.asked for value, _ in rows]
    assert len(values) == len(set(values))


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


# Disks


def commit(table, *versions):
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    for version in versions:
        (log / f"{version:020d}.json").write_text(str(version))


@pytest.fixture
def disks(tmp_path):
    folder = TortureFolder.begin(tmp_path / "run")
    made = Disks(folder, {"full": "not in this test"})
    made.prepare(0.1)
    (folder.root(1) / "meta.properties").write_text("mine")
    return made


def test_a_copy_of_a_root_ends_where_its_commits_have_a_gap(disks):
    table = disks.folder.root(1) / "orders-1" / "0-1"
    commit(table, 10, 11, 12, 14)
    (table / "_delta_log" / f"{10:020d}.checkpoint.parquet").touch()
    (table / "_delta_log" / f"{14:020d}.checkpoint.parquet").touch()
    (table / "_delta_log" / "_last_checkpoint").touch()
    (table / "segment.parquet").write_text("rows")

    copy = disks.copy(1)

    names = sorted(os.listdir(copy / "orders-1" / "0-1" / "_delta_log"))
    assert [name.lstrip("0") for name in names] == [
        "10.checkpoint.parquet",
        "10.json",
        "11.json",
        "12.json",
    ]
    assert (copy / "orders-1" / "0-1" / "segment.parquet").read_text() == "rows"
    assert (copy / "meta.properties").read_text() == "mine"


def test_a_table_that_goes_while_its_root_is_copied_keeps_no_other_from_being_copied(
    disks, monkeypatch
):
    going, staying = (disks.folder.root(1) / "orders-1" / name for name in ("0-1", "1-1"))
    commit(going, 0)
    commit(staying, 0)
    link = disks_module._link

    def link_late(source, target):
        shutil.rmtree(going, ignore_errors=True)
        link(source, target)

    monkeypatch.setattr(disks_module, "_link", link_late)

    copy = disks.copy(1)

    assert (copy / "orders-1" / "1-1" / "_delta_log" / f"{0:020d}.json").read_text() == "0"


@pytest.mark.parametrize("library", [None, object()], ids=["in one step", "in three steps"])
def test_a_root_that_is_rolled_back_has_what_it_had_when_it_was_copied(disks, monkeypatch, library):
    if library is not None:
        monkeypatch.setattr(
            "tests.torture.harness.faults.disks.ctypes.CDLL", lambda *_, **__: library
        )
    root = disks.folder.root(1)
    commit(root / "orders-1" / "0-1", 0)
    copy = disks.copy(1)
    commit(root / "orders-1" / "0-1", 1)

    disks.roll_back(1, copy)

    assert os.listdir(root / "orders-1" / "0-1" / "_delta_log") == [f"{0:020d}.json"]
    assert disks.rolled_back == {(1, "orders", 0, 0)}


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


def test_a_root_that_is_wiped_is_empty_and_one_that_is_emptied_knows_whose_it_is(disks):
    commit(disks.folder.root(1) / "orders-1" / "0-1", 0)
    (disks.folder.root(2) / "meta.properties").write_text("its")
    commit(disks.folder.root(2) / "orders-1" / "0-1", 0)

    disks.wipe(1)
    disks.empty(2)

    assert os.listdir(disks.folder.root(1)) == []
    assert os.listdir(disks.folder.root(2)) == ["meta.properties"]


def test_a_root_that_is_taken_away_comes_back_as_it_was(disks):
    root = disks.folder.root(1)

    give_back = disks.take_away(1)
    is_away = not root.exists()
    give_back()

    assert is_away
    assert (root / "meta.properties").read_text() == "mine"


def test_a_commit_that_was_under_way_is_noted_where_a_root_was_away_and_a_second_is_wrong(disks):
    give_back = disks.take_away(1)
    commit(disks.folder.root(1) / "orders-1" / "0-1", 7)
    give_back()
    give_back = disks.take_away(1)
    commit(disks.folder.root(1) / "orders-1" / "0-1", 7, 8)
    commit(disks.folder.root(1) / "orders-1" / "0-2", 0)
    strays = stray_commits(disks.folder.root(1))
    give_back()

    assert disks.stray_commits == 4
    assert len(disks.wrong_strays) == len(wrong_strays(strays)) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="the owner's own permissions stop no one else")
def test_a_read_only_root_takes_no_writes_until_it_is_undone(disks):
    if "read-only" in disks.why_not:
        pytest.skip(disks.why_not["read-only"])
    root = disks.folder.root(1)

    undo = disks.set_read_only(1)
    with pytest.raises(OSError, match=r"Read-only|not permitted"):
        (root / "new").touch()
    undo()

    (root / "new").touch()


# Report


def test_a_report_without_anomalies_is_a_success_and_names_every_check():
    assert report_of().exit_code == 0
    assert report_of().as_dict()["anomaly_counts"] == dict.fromkeys(CHECKS, 0)


def test_a_report_with_anomalies_is_a_failure_that_counts_all_and_shows_some():
    alike = [Anomaly("gap", "orders/0", str(number)) for number in range(ALIKE_MAX + 5)]

    found = report_of(*alike).as_dict()

    assert (found["exit_code"], found["anomaly_counts"]["gap"]) == (1, ALIKE_MAX + 5)
    assert len(found["anomalies"]) == ALIKE_MAX
