"""The contract of Heartbeats, for the fake and for the files, and names that people give."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.groups.liveness import HeartbeatFiles, name_in_path, observe
from kafka_on_spark.store.root_identity import META_PROPERTIES
from tests.fakes import MemoryHeartbeats
from tests.hints import hint_roots, make_roots


@pytest.fixture(params=["memory", "files"])
def heartbeats(request, tmp_path):
    if request.param == "memory":
        return MemoryHeartbeats()
    return HeartbeatFiles(hint_roots(*make_roots(tmp_path)))


def stands(content):
    return any(content.values())


class Hearer:
    """Looks at member `a` of group `g`, every 5 s."""

    def __init__(self, *roots):
        self.heartbeats, self.heard, self.now_ms = HeartbeatFiles(hint_roots(*roots)), None, 0

    def look(self):
        """Return what is known of the member after one more look."""
        [content] = self.heartbeats.contents("g", ["a"])
        self.heard = observe(self.heard, content, self.now_ms, self.now_ms, 45_000)
        self.now_ms += 5_000
        return self.heard


def test_each_beat_is_another_and_stays_until_the_next(heartbeats):
    heartbeats.beat("g", "a", 1)
    [first] = heartbeats.contents("g", ["a"])
    assert heartbeats.contents("g", ["a"]) == [first]

    heartbeats.beat("g", "a", 2)

    [second] = heartbeats.contents("g", ["a"])
    assert None not in (*first.values(), *second.values())
    assert first != second


def test_a_group_without_heartbeats_has_no_folder_and_takes_the_next(tmp_path):
    make_roots(tmp_path)
    one, two = [HeartbeatFiles(hint_roots(tmp_path)) for _ in range(2)]
    one.beat("g", "a", 1)
    two.beat("g", "b", 1)
    [folder] = (tmp_path / "groups").iterdir()

    one.stop("g", "a")
    assert folder.exists()
    two.stop("g", "b")

    assert not folder.exists()
    one.beat("g", "a", 2)
    assert two.contents("g", ["a"]) == one.contents("g", ["a"])
    assert stands(*two.contents("g", ["a"]))


def test_a_root_that_does_not_answer_is_said_to(heartbeats, tmp_path):
    if isinstance(heartbeats, MemoryHeartbeats):
        heartbeats.is_offline = True
    else:
        heartbeats = HeartbeatFiles(hint_roots(tmp_path / "gone"))

    with pytest.raises(KafkaStorageError):
        heartbeats.beat("g", "a", 1)
    with pytest.raises(KafkaStorageError):
        heartbeats.contents("g", ["a"])


@pytest.fixture
def voters(tmp_path):
    return make_roots(*(tmp_path / name for name in ("one", "two", "three")))


def test_a_member_beats_on_other_roots_while_one_is_away(tmp_path, voters):
    mine, other = HeartbeatFiles(hint_roots(*voters)), Hearer(*voters)
    mine.beat("g", "a", 1)
    other.look()

    voters[0].rename(tmp_path / "away")
    mine.beat("g", "a", 2)
    assert other.look().has_beaten
    (tmp_path / "away").rename(voters[0])
    mine.beat("g", "a", 3)

    assert other.look().has_beaten


@pytest.mark.parametrize("seen", [(0, 1), (0, 2), (1, 2)])
@pytest.mark.parametrize("beaten", [(0, 1), (0, 2), (1, 2)])
def test_who_reaches_any_two_of_three_roots_hears_who_reaches_any_two(
    tmp_path, voters, seen, beaten
):
    """The third one is an empty mount point, for each of them."""

    def reaching(places, name):
        empty = tmp_path / name
        empty.mkdir()
        return [each if at in places else empty for at, each in enumerate(voters)]

    member = HeartbeatFiles(hint_roots(*reaching(beaten, "of member")))
    other = Hearer(*reaching(seen, "of other"))
    heard = []
    for count in range(3):
        member.beat("g", "a", count)
        heard.append(other.look().has_beaten)

    assert heard == [False, True, True]
    assert os.listdir(tmp_path / "of member") == os.listdir(tmp_path / "of other") == []


def test_what_stands_on_one_root_of_three_is_no_evidence(tmp_path, voters):
    member, other = [HeartbeatFiles(hint_roots(*voters)) for _ in range(2)]
    member.beat("g", "a", 1)
    for root in voters[1:]:
        root.rename(root.with_suffix(".away"))

    with pytest.raises(KafkaStorageError):
        other.contents("g", ["a"])
    with pytest.raises(KafkaStorageError):
        other.contents("g", ["b"])
    with pytest.raises(KafkaStorageError):
        member.beat("g", "a", 2)


HOSTILE = [
    "../../x",
    "/etc/passwd",
    "..",
    ".",
    "a/b",
    "a\\b",
    "a\0b",
    "A",
    "a",
    "é" * 300,
    "*",
    "%2e",
]


def test_names_of_groups_never_lead_out_of_their_folder(tmp_path):
    heartbeats = HeartbeatFiles(hint_roots(*make_roots(tmp_path)))

    for group in HOSTILE:
        heartbeats.beat(group, "a", 1)
        heartbeats.beat("g", group, 1)

    assert sorted(os.listdir(tmp_path)) == ["groups", META_PROPERTIES]
    folders = os.listdir(tmp_path / "groups")
    assert len(folders) == len(HOSTILE) + 1
    assert all(map(stands, heartbeats.contents("g", HOSTILE)))
    assert all(len(os.listdir(tmp_path / "groups" / each)) >= 1 for each in folders)
    assert len(os.listdir(tmp_path / "groups" / name_in_path("g"))) == len(HOSTILE)


@given(st.text(max_size=300))
def test_a_name_in_a_path_is_short_and_of_harmless_characters(name):
    given_ = name_in_path(name)

    assert len(given_) <= 80
    assert given_.isascii()
    assert set(given_) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")
