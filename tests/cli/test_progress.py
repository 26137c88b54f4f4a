"""Progress of what takes long: at a terminal, once it has lasted, and beside no output."""

import io
import os
import threading
from contextlib import contextmanager

import pytest
from rich.console import Console

from kafka_on_spark.cli.call import output, session
from kafka_on_spark.cli.cluster import clusters, quorum
from kafka_on_spark.cli.consume import consume as consume_verb
from kafka_on_spark.cli.groups import group_resets
from kafka_on_spark.cli.produce import produce as produce_verb


class Screen(io.StringIO):
    """What a terminal shows; tells when something is written."""

    def __init__(self):
        super().__init__()
        self.is_written = threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        count = super().write(text)
        self.is_written.set()
        return count


def standard_error(monkeypatch):
    """Make standard error a terminal; return what it shows. No fixture: pytest puts its own
    standard error in place between a fixture and its test."""
    screen = Screen()

    def console(**_):
        return Console(file=screen, force_terminal=True, width=80, _environ={"TERM": "xterm"})

    monkeypatch.setattr("rich.console.Console", console)
    monkeypatch.setattr("sys.stderr", screen)
    return screen


def test_what_lasts_shows_how_far_it_is(monkeypatch):
    screen = standard_error(monkeypatch)
    monkeypatch.setattr(output, "PROGRESS_AFTER_S", 0)

    with output.progress("comparing replicas", 2) as steps:
        steps.advance(2)
        assert screen.is_written.wait(60)

    assert "comparing replicas" in screen.getvalue()
    assert "2/2" in screen.getvalue()


def test_what_is_soon_done_or_must_not_be_seen_shows_nothing(monkeypatch):
    screen = standard_error(monkeypatch)
    monkeypatch.setattr(output, "PROGRESS_AFTER_S", 3_600)
    with output.progress("comparing replicas", 2) as steps:
        steps.advance(2)
    monkeypatch.setattr(output, "PROGRESS_AFTER_S", 0)
    with output.progress("appending", is_shown=False) as steps:
        steps.advance(2)

    assert screen.getvalue() == ""


def test_what_is_soon_done_does_not_even_import_what_would_show_it(monkeypatch):
    made = []
    standard_error(monkeypatch)
    monkeypatch.setattr(output, "_bar", made.append)
    monkeypatch.setattr(output, "PROGRESS_AFTER_S", 3_600)

    with output.progress("opening the cluster") as steps:
        steps.advance()

    assert made == []


def test_what_was_done_before_it_is_shown_counts(monkeypatch):
    screen = standard_error(monkeypatch)
    monkeypatch.setattr(output, "PROGRESS_AFTER_S", 3_600)

    with output.progress("comparing replicas", 5) as steps:
        steps.advance(2)
        steps.draw("comparing replicas", are_bytes=False)
        steps.advance()

    assert "2/5" in screen.getvalue()
    assert "3/5" in screen.getvalue()


def test_output_of_a_pipe_shows_nothing(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr("sys.stderr", file)
    monkeypatch.setattr(output, "PROGRESS_AFTER_S", 0)

    with output.progress("comparing replicas", 2) as steps:
        steps.advance(2)

    assert file.getvalue() == ""


class Seen:
    """Stands in for `progress`: remembers what it would show."""

    def __init__(self):
        self.words, self.total, self.is_shown, self.done = None, None, None, 0
        self.all_words = []

    @contextmanager
    def progress(self, words, total=None, *, are_bytes=False, is_shown=True):
        self.words, self.total, self.is_shown = words, total, is_shown
        self.all_words.append(words)
        yield self

    def advance(self, count=1):
        self.done += count


@pytest.fixture
def seen(monkeypatch):
    """What calls show that write into a file, unless a test says otherwise."""
    seen = Seen()
    for module in (output, session, clusters, quorum, group_resets, consume_verb, produce_verb):
        monkeypatch.setattr(module, "progress", seen.progress)
    monkeypatch.setattr(output, "is_into_file", lambda: True)
    monkeypatch.setattr(consume_verb, "is_into_file", lambda: True)
    return seen


def test_appends_of_files_show_how_much_of_them_is_appended(call, new_topic, seen, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a\nbc\n")
    two.write_bytes(b"d\n")

    call("produce", "--topic", new_topic(), "--lines", one, two)

    assert (seen.words, seen.total, seen.done, seen.is_shown) == ("appending", 7, 7, True)


def test_appends_of_a_pipe_show_what_was_appended_and_those_of_a_terminal_nothing(
    call, new_topic, seen
):
    topic = new_topic()
    source, sink = os.pipe()
    os.write(sink, b"a\n")
    os.close(sink)
    ours, theirs = os.openpty()
    os.write(ours, b"typed\n\x04")

    call("produce", "--topic", topic, "--lines", f"/dev/fd/{source}")
    assert (seen.total, seen.done, seen.is_shown) == (None, 2, True)
    call("produce", "--topic", topic, "--lines", os.ttyname(theirs))
    assert not seen.is_shown

    for each in (source, ours, theirs):
        os.close(each)


@pytest.mark.parametrize(
    "ends, total, done",
    [
        (("-e",), 3, 3),
        (("--offset", "1", "-e"), 2, 2),
        (("--offset", "0", "--max-messages", 2), 2, 2),
    ],
)
def test_printing_into_a_file_up_to_an_end_shows_how_far_it_is(
    call, new_topic, seen, ends, total, done
):
    call("consume", "--topic", new_topic(b"a", b"b", b"c"), *ends)

    assert (seen.words, seen.total, seen.done, seen.is_shown) == ("printing", total, done, True)


def test_printing_without_an_end_or_to_others_shows_nothing(call, new_topic, seen, monkeypatch):
    topic = new_topic(b"a")

    call("consume", "--topic", topic, "--timeout-ms", 1)
    assert not seen.is_shown
    monkeypatch.setattr(consume_verb, "is_into_file", lambda: False)
    call("consume", "--topic", topic, "-e")

    assert not seen.is_shown


@pytest.mark.parametrize("form", ["table", "json"])
def test_rows_that_are_read_one_by_one_are_counted(call, new_topic, seen, form):
    topic = new_topic(b"a", b"b")

    call("dump-log", "--topic", topic, "--verify", "--output", form)

    assert (seen.words, seen.done) == ("checking batches", 2)
    call("metadata", "--log", "--limit", 2, "--output", form)
    assert (seen.words, seen.done) == ("reading the metadata log", 4)


def test_a_voter_that_is_added_shows_that_the_log_is_copied(call, seen, tmp_path):
    call("metadata-quorum", "add-controller", tmp_path / "voter", "--dry-run")

    assert seen.words == "copying the metadata log"


CHANGES = [
    ("topics", "--alter", "--topic", "{topic}", "--partitions", 2),
    ("topics", "--delete", "--topic", "{topic}", "--yes"),
    ("brokers", "--drain", "--broker", 4, "--dry-run"),
    ("brokers", "--resume", "--broker", 4, "--dry-run"),
    ("leader-election", "--election-type", "preferred", "--topic", "{topic}"),
    ("metadata-quorum", "elect", "--dry-run"),
]


@pytest.mark.parametrize("words", CHANGES, ids=[" ".join(each[:2]) for each in CHANGES])
def test_a_change_shows_that_it_is_made_and_before_it_that_the_cluster_is_opened(
    call, new_topic, seen, words
):
    topic = new_topic()

    call(*(str(word).format(topic=topic) for word in words))

    assert seen.all_words[0] == "opening the cluster"
    assert seen.words in ("changing the cluster", "electing")


def test_a_deed_that_is_confirmed_is_checked_and_changes_are_counted(call, new_topic, seen):
    call("topics", "--delete", "--topic", new_topic(), "--yes")

    assert seen.all_words[1:] == ["checking the change", "changing the cluster"]
    assert (seen.total, seen.done) == (1, 1)


def test_a_cluster_that_is_created_or_forced_on_shows_it(call, seen, tmp_path):
    root = tmp_path / "metadata"

    call("cluster", "--create", "--cluster", root, "--broker", f"1={tmp_path / 'disk'}")
    call("metadata-quorum", "force", "--from", 1, code=2)

    assert seen.all_words == ["creating the cluster", "asking voters"]


def test_offsets_that_are_reset_to_a_time_are_counted_by_partition(call, new_topic, seen):
    topic = new_topic(b"a", partitions=3)
    moment = ("--to-datetime", "2020-01-01T00:00:00.000")

    call("consumer-groups", "--reset-offsets", "--group", "g", "--topic", topic, *moment)

    assert "looking for times" in seen.all_words
    assert seen.done == 3


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_rows_of_a_terminal_are_counted_until_a_part_of_them_is_drawn(seen, monkeypatch):
    drawn = []
    monkeypatch.setattr(output, "is_into_file", lambda: False)
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setattr(output, "_draw", lambda columns, rows, is_first: drawn.append(len(rows)))
    rows = [{"name": each} for each in range(1_500)]

    output.write_rows(output.Output.TABLE, {"name": "name"}, rows, words="reading")

    assert (drawn, seen.done) == ([1_000, 500], 1_500)
