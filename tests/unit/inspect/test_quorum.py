"""The metadata quorum for people: each voter has its role, and one that can't be read its reason."""

from dataclasses import replace

from kafka_on_spark.inspect.quorum import is_whole, quorum_text, quorum_words, role_of
from tests.unit.inspect.quorums import quorum_of


def following_nobody(quorum, number):
    """The quorum with one voter that answers and has marked no leader."""
    voters = [
        replace(each, lag=None) if each.voter.key.node_id == number else each
        for each in quorum.voters
    ]
    return replace(quorum, voters=tuple(voters))


def test_who_leads_and_how_far_each_voter_is_stand_in_a_table():
    assert quorum_text(quorum_of(0, 3, None)).splitlines() == [
        "voter 1 leads the metadata quorum in epoch 2; 2 of 3 voters answer",
        "voter · role    · epoch · log end · behind · metadata root",
        "    1 · leads   · 2     · 9       · 0      · /m1",
        "    2 · follows · 2     · 6       · 3      · /m2",
        "    3 · lost    · ?     · ?       · ?      · /m3",
        "voter 3 can't be read: it is away",
    ]


def test_a_line_names_only_voters_that_lack_something():
    whole = quorum_of(0, 0, 0)
    waiting = following_nobody(quorum_of(0, 4, 0), 3)

    assert quorum_words(whole) == (
        "voter 1 leads the metadata quorum in epoch 2; 3 of 3 voters answer"
    )
    assert quorum_words(waiting).split("; ")[2:] == [
        "voter 2 lacks 4 records",
        "voter 3 follows nobody",
    ]
    assert quorum_words(quorum_of(0, 0, None)).endswith("; voter 3 can't be read")


def test_a_quorum_is_whole_while_each_voter_follows_however_far_it_is():
    assert is_whole(quorum_of(0, 7, 0))
    assert not is_whole(quorum_of(0, 0, None))
    assert not is_whole(following_nobody(quorum_of(0, 0, 0), 2))


def test_each_voter_has_one_role():
    quorum = following_nobody(quorum_of(0, None, 0), 3)

    assert [role_of(each) for each in quorum.voters] == ["leads", "lost", "waits"]
