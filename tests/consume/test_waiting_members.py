"""Consumers that end when there is no record for a while, next to members that were killed."""

import pytest

from kafka_on_spark.consume import consuming
from tests.groups.readers import Reader

TIMEOUT_MS = 10_000


@pytest.fixture
def loop(monkeypatch):
    """Returns what a loop over a reader's consumer does: offsets, until the timeout."""
    monkeypatch.setattr(consuming, "records_of", lambda rows: iter(range(rows.start, rows.end)))

    def loop(reader):
        found = []
        while (record := reader.consuming.next_record(TIMEOUT_MS)) is not None:
            reader.consuming.hand_out(1, record + 1)
            found.append(record)
        return found

    return loop


@pytest.mark.parametrize("ends", [(3,), (3, 3), (3, 3, 3)])
@pytest.mark.parametrize("killed", [("a",), ("x",), ("a", "b", "x")])
def test_a_loop_waits_until_members_that_were_killed_are_fenced(loop, ends, killed):
    """It ended before: no process of short life ever read what they had."""
    reader = Reader(*ends, is_member=True)
    for name in killed:
        reader.give_all_to(name)
    reader.have_turns()

    assert loop(reader) == [0, 1, 2] * len(ends)


@pytest.mark.parametrize("ends", [(3,), (3, 3)])
def test_a_loop_next_to_a_member_that_lives_and_keeps_all_ends_in_the_end(loop, ends):
    reader = Reader(*ends, is_member=True)
    reader.give_all_to("living")
    reader.have_turns("living")

    assert loop(reader) == []

    assert "living" in reader.metadata.catch_up().consumer_groups["g"].members
    assert not reader.consuming.is_waiting


def test_a_loop_waits_for_the_end_of_the_member_behind_it_though_one_further_behind_lives(loop):
    """It ended once it had heard any other: what it had seen of the one that was killed was lost."""
    reader = Reader(3, 3, 3, is_member=True)
    reader.give_all_to("a")
    reader.share_with("x")
    for name in ("a", "x"):
        reader.follow_target(name)
    reader.have_turns("a", each_turn=lambda: reader.follow_target("a"))

    found = loop(reader)
    reader.follow_target("a")

    # Each of those that live has at least one partition, and one of them what x had.
    members = reader.metadata.catch_up().consumer_groups["g"].members
    assert set(members) == {"a", "m"}
    assert found == [0, 1, 2] * len(members["m"].owned)
    assert len(members["a"].owned | members["m"].owned) == 3
