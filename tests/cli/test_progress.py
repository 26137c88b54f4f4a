"""Progress of what takes long: at a terminal, once it has lasted, and beside no output."""

import io
import os
import threading
from contextlib import contextmanager

import pytest

from kafka_on_spark.cli import clusters, groups, output, quorum, session
from kafka_on_spark.cli import consume as consume_verb
from kafka_on_spark.cli import produce as produce_verb


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


def standard_error(monkeypatch, *, after_s, screen=None):
    """Make standard error a terminal, or `screen`. No fixture: pytest puts its own standard error
    in place between a fixture and its test."""
    screen = screen or Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(output, "PROGRESS_AFTER_S", after_s)
    return screen


def test_what_lasts_shows_how_far_it_is_until_it_is_over(monkeypatch):
    screen = standard_error(monkeypatch, after_s=0)

    with output.progress("comparing replicas", 3, done=1) as steps:
        steps.advance()
        assert screen.is_written.wait(60)

    _, *shown, blank, end = screen.getvalue().split("\r")
    assert shown[0] in ("comparing replicas: 1 of 3", "comparing replicas: 2 of 3")
    assert (blank, end) == (" " * len(shown[0]), "")


def test_what_is_soon_done_shows_nothing(monkeypatch):
    screen = standard_error(monkeypatch, after_s=3_600)

    with output.progress("comparing replicas", 2) as steps:
        steps.advance(2)

    assert screen.getvalue() == ""


@pytest.mark.parametrize("how", ["not shown", "a pipe", "dumb"])
def test_what_nobody_can_watch_has_no_thread_that_draws_it(monkeypatch, how):
    standard_error(monkeypatch, after_s=0, screen=io.StringIO() if how == "a pipe" else None)
    if how == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    threads = threading.active_count()

    with output.progress("appending", is_shown=how != "not shown"):
        assert threading.active_count() == threads


class Seen:
    """Stands in for `progress`: remembers what it would show."""

    def __init__(self):
        self.words, self.total, self.is_shown, self.done = None, None, None, 0
        self.all_words = []

    @contextmanager
    def progress(self, words, total=None, *, done=0, is_shown=True):
        if not words:  # rows that are not worth it
            yield Seen()
            return
        self.words, self.total, self.is_shown = words, total, is_shown
        self.all_words.append(words)
        yield self

    def advance(self, count=1):
        self.done += count


@pytest.fixture
def seen(monkeypatch):
    """What calls show that write into a file, unless a test says otherwise."""
    seen = Seen()
    for module in (output, session, clusters, quorum, groups, consume_verb, produce_verb):
        monkeypatch.setattr(module, "progress", seen.progress)
    monkeypatch.setattr(output, "is_into_file", lambda: True)
    monkeypatch.setattr(consume_verb, "is_into_file", lambda: True)
    return seen


def test_appends_of_files_show_how_much_of_them_is_appended(call, new_topic, seen, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a\nbc\n")
    two.write_bytes(b"d\n")

    call("produce", "--topic", new_topic(), "--lines", one, two)

    assert (seen.words, seen.total, seen.done, seen.is_shown) == ("appending bytes", 7, 7, True)


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


def test_a_deed_that_is_confirmed_is_checked_and_changes_are_counted(call, new_topic, seen):
    call("topics", "--delete", "--topic", new_topic(), "--yes")

    assert seen.all_words[1:] == ["checking the change", "changing the cluster"]
    assert (seen.total, seen.done) == (1, 1)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_rows_of_a_terminal_are_counted_until_a_part_of_them_is_written(seen, monkeypatch):
    monkeypatch.setattr(output, "is_into_file", lambda: False)
    monkeypatch.setattr("sys.stdout", Terminal())
    rows = [{"name": each} for each in range(1_500)]

    output.write_rows(output.Output.TABLE, "name", rows, words="reading")

    assert seen.done == 1_500
    assert seen.all_words == ["reading"] * 3
