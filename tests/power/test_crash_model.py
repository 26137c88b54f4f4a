"""The model of a disk that loses its power: what may be there, and what must be."""

import random

import pytest

from tests.power.states.changes import ROOT, Entry, Flush, Write
from tests.power.states.crashes import Record, crash_states, with_trees

FILE, FOLDER = 7, 8


def trees(*changes, folders=(), begins_at=0):
    """Return what may be on a disk after a cut, at any moment, temporary files included."""
    record = Record(changes, frozenset(folders), begins_at)
    states = crash_states(record, random.Random(0), drawn=20)
    return [tree for _, tree in with_trees(states, record)]


MADE = Entry(ROOT, "a", FILE)
WRITTEN = Write(FILE, b"bytes")


def test_what_was_not_flushed_is_there_wholly_in_part_as_zeros_or_not_at_all():
    assert sorted(map(str, trees(MADE, WRITTEN))) == sorted(
        map(str, ({}, {"a": b""}, {"a": b"by"}, {"a": bytes(5)}, {"a": b"bytes"}))
    )


def test_bytes_that_were_flushed_are_there_if_the_name_is():
    found = trees(MADE, WRITTEN, Flush(FILE, ""), begins_at=0)

    assert {} in found
    at_the_end = trees(MADE, WRITTEN, Flush(FILE, ""), Flush(ROOT, ""))
    assert {"a": b"bytes"} in at_the_end


def test_a_name_that_was_flushed_stays_whatever_its_bytes_are():
    states = trees(MADE, Flush(ROOT, ""), WRITTEN, begins_at=2)

    assert {} not in states
    assert {"a": b""} in states


def test_all_is_durable_where_the_record_begins():
    assert trees(MADE, WRITTEN, Flush(ROOT, ""), begins_at=2) == [{"a": b"bytes"}]


def test_a_later_deletion_may_be_kept_and_an_earlier_one_lost():
    made = [Entry(ROOT, name, number) for name, number in (("a", 1), ("b", 2))]
    found = trees(*made, Entry(ROOT, gone="a"), Entry(ROOT, gone="b"), begins_at=2)

    assert {"a": b""} in found
    assert {"b": b""} in found


def test_a_rename_leaves_the_old_name_the_new_one_or_both_and_never_none():
    found = trees(MADE, Entry(ROOT, "b", FILE, gone="a"), begins_at=1)

    assert sorted(map(sorted, found)) == [["a"], ["a", "b"], ["b"]]


def test_what_is_in_a_folder_goes_with_its_name():
    changes = (Entry(ROOT, "f", FOLDER), Entry(FOLDER, "a", FILE), WRITTEN, Flush(FILE, ""))
    found = trees(*changes, Flush(FOLDER, ""), folders=[FOLDER])

    assert {} in found
    assert {"f": None, "f/a": b"bytes"} in found


@pytest.mark.parametrize("name", [f"_{'a' * 32}.tmp", "_last_checkpoint#1"])
def test_states_that_differ_in_temporary_files_are_one(name):
    changes = (Entry(ROOT, name, FILE), WRITTEN)

    assert len(trees(*changes)) == 1
