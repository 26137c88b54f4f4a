"""Notes of who waits for a turn: read while their owner lives and waits, and never after."""

import os
import threading
import time
from contextlib import ExitStack

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.ports import NO_TURN
from kafka_on_spark.storage import turns
from kafka_on_spark.storage.delta_files import log_folder
from kafka_on_spark.storage.handed_in import FOLDER, NOTE_BYTES_MAX, HandedIn, read_notes
from kafka_on_spark.storage.turns import take_turn


@pytest.fixture(autouse=True)
def nobody_is_frozen(monkeypatch):
    """Wait for a turn for as long as it takes: these tests are not about giving up."""
    monkeypatch.setattr(turns, "WAIT_S", 60.0)


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path)


def wait_until(is_so):
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.001)


def start(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_notes_are_read_while_their_owners_wait_and_leave_nothing_behind(uri):
    notes = [HandedIn(uri, content) for content in (b"a", b"b")]

    assert sorted(note for _, note in read_notes(uri)) == [b"a", b"b"]
    notes[0].take_back()
    assert [note for _, note in read_notes(uri)] == [b"b"]
    notes[1].take_back()
    assert os.listdir(f"{uri}/{FOLDER}") == []


def test_an_owner_sees_that_its_note_was_taken_and_may_take_it_back_then(uri):
    mine = HandedIn(uri, b"a")
    assert not mine.is_taken
    [(path, _)] = read_notes(uri)

    os.unlink(path)

    assert mine.is_taken
    mine.take_back()
    assert not mine.is_taken


@pytest.mark.parametrize("note", [None, b"x" * (NOTE_BYTES_MAX + 1)])
def test_who_has_nothing_to_hand_in_or_too_much_only_waits(uri, note):
    mine = HandedIn(uri, note)

    assert read_notes(uri) == []
    assert not mine.is_taken
    mine.take_back()


def test_the_longest_note_is_read_as_a_whole(uri):
    mine = HandedIn(uri, b"x" * NOTE_BYTES_MAX)

    assert read_notes(uri) == [(mine._path, b"x" * NOTE_BYTES_MAX)]
    mine.take_back()


def test_a_folder_that_takes_no_notes_costs_nothing_but_time(tmp_path):
    (tmp_path / FOLDER).write_text("a file")
    mine = HandedIn(str(tmp_path), b"a")

    assert read_notes(str(tmp_path)) == []
    assert not mine.is_taken
    mine.take_back()


def test_note_of_a_process_that_died_is_never_read_and_removed(uri):
    """It would outlive a power loss, and with it what it says may be lost that was not flushed."""
    mine = HandedIn(uri, b"of a process that died")
    os.close(mine._descriptor)  # as the system does when a process ends

    assert read_notes(uri) == []
    assert os.listdir(f"{uri}/{FOLDER}") == []


def test_a_note_that_is_being_written_is_not_read(uri):
    mine = HandedIn(uri, b"a")
    os.rename(mine._path, f"{mine._path}.tmp")

    assert read_notes(uri) == []
    os.rename(f"{mine._path}.tmp", mine._path)
    assert len(read_notes(uri)) == 1
    mine.take_back()


def test_who_has_the_turn_takes_what_was_handed_in_and_its_owner_waits_no_longer(uri):
    found = []

    def wait():
        with take_turn(uri, lambda: b"mine") as turn:
            found.append((turn is not NO_TURN, turn.has_news, list(turn.handed_in())))

    with take_turn(uri, lambda: pytest.fail("nobody is waited for")) as turn:
        thread = start(wait)
        wait_until(lambda: read_notes(uri))
        assert list(turn.handed_in()) == [b"mine"]
        assert found == []
        turn.done()
        thread.join(60)
        assert found == [(True, True, [])]
    assert os.listdir(f"{uri}/{FOLDER}") == []


def test_who_was_not_served_has_a_turn_of_its_own_afterwards(uri):
    found = []

    def wait():
        with take_turn(uri, lambda: b"mine") as turn:
            found.append(turn.has_news)

    with take_turn(uri) as turn:
        thread = start(wait)
        wait_until(lambda: read_notes(uri))
        assert list(turn.handed_in()) == [b"mine"]
    thread.join(60)

    assert found == [True]
    assert os.listdir(f"{uri}/{FOLDER}") == []


def commit_count(uri):
    return sum(name.endswith(".json") for name in os.listdir(log_folder(uri)))


def test_appends_that_wait_for_one_turn_are_committed_together(tmp_path):
    """Each to a topic of its own, by a cluster of its own, as processes have."""
    roots = {number: tmp_path / f"broker-{number}" for number in (1, 2)}
    metadata = tmp_path / "metadata"
    for each in (metadata, *roots.values()):
        each.mkdir()
    names = [f"own-{number}" for number in range(3)]
    with Cluster.create(metadata, brokers=roots) as cluster, ExitStack() as opened:
        for name in names:
            cluster.create_topic(name, partitions=1, replication_factor=2)
            cluster.append(name, [(b"k", b"first")])
        clusters = [opened.enter_context(Cluster.open(metadata)) for _ in names]
        table = clusters[0].metadata_table
        commits = commit_count(table)
        with take_turn(table):
            threads = [
                start(lambda each=each, name=name: each.append(name, [(b"k", b"v")]))
                for each, name in zip(clusters, names, strict=True)
            ]
            wait_until(lambda: len(read_notes(table)) == len(names))
        for thread in threads:
            thread.join(60)

        assert commit_count(table) == commits + 1
        assert [cluster.offsets(name)[0].high_watermark for name in names] == [2, 2, 2]
