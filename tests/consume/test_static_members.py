"""Static members that wait for the end of their life before: a process that was killed."""

import pytest

from kafka_on_spark.base.errors import RootAccessDeniedError, UnreleasedInstanceIdError
from kafka_on_spark.consume.member import Listeners, Member
from kafka_on_spark.consume.settings import ConsumerSettings
from kafka_on_spark.consume.subscription import Subscribe
from kafka_on_spark.groups.liveness import Liveness
from kafka_on_spark.groups.membership import join, leave
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.records import TopicRecord
from tests.builders import TOPIC, TOPIC_ID
from tests.fakes import FakeClock, MemoryHeartbeats, MemoryMetadataLog

TIMEOUT_MS = 1_000


class Place:
    """The place of static member "one", which its life "before" has, and the member that waits for
    it."""

    def __init__(self):
        self.log, self.clock = MemoryMetadataLog(), FakeClock()
        self.heartbeats = MemoryHeartbeats()
        self.metadata = MetadataService(self.log, self.clock, random=lambda: 0.0)
        self.commit(lambda _: ControllerResult([TopicRecord(topic=TOPIC, topic_id=TOPIC_ID)], None))
        self.commit(
            lambda image: join(image, "g", member_id="before", topics=[TOPIC], instance_id="one")
        )
        self.liveness = Liveness(
            self.metadata,
            self.heartbeats,
            self.clock,
            group="g",
            max_poll_interval_ms=300_000,
            timeout_ms=TIMEOUT_MS,
            new_id=lambda: "after",
        )
        self.member = Member(
            self.metadata,
            self.liveness,
            lambda keys: {},
            lambda keys: None,
            Listeners(),
            settings=ConsumerSettings(
                group="g",
                auto_offset_reset="earliest",
                max_poll_records=100,
                enable_auto_commit=False,
                auto_commit_interval_ms=5_000,
                client_rack=None,
                group_instance_id="one",
            ),
            subscription=Subscribe((TOPIC,)),
        )

    def commit(self, decide):
        self.metadata.catch_up()
        self.metadata.submit(decide, timeout_ms=TIMEOUT_MS)

    @property
    def names(self):
        group = self.metadata.catch_up().consumer_groups.get("g")
        return set() if group is None else set(group.members)


@pytest.fixture
def place():
    return Place()


def test_a_holder_that_leaves_while_its_place_is_refused_is_no_error(place):
    """The process may have seen the holder's last commit since the join was refused."""
    submit = place.metadata.submit

    def refused_and_left(decide, *, timeout_ms):
        place.metadata.submit = submit
        try:
            submit(decide, timeout_ms=timeout_ms)
        except UnreleasedInstanceIdError:
            place.commit(lambda image: leave(image, "g", "before", 0))
            raise

    place.metadata.submit = refused_and_left
    place.member.follow()
    assert place.names == set()

    place.clock.advance(5_000)
    place.member.follow()

    assert place.names == {"after"}


def poll_seldom(place):
    """Poll each half a minute, for two minutes; the liveness looks each five seconds."""
    for _ in range(4):
        place.member.follow()
        for _ in range(6):
            place.clock.advance(5_000)
            place.liveness.beat()
            place.liveness.check()


def test_a_member_that_may_write_nothing_is_told_so_and_joins_nothing(place, monkeypatch):
    def refuse(self):
        raise RootAccessDeniedError("read-only")

    monkeypatch.setattr(MemoryMetadataLog, "check_writable", refuse)

    with pytest.raises(RootAccessDeniedError):
        place.member.follow()
    assert (place.names, place.heartbeats.counts) == ({"before"}, {})


def test_a_holder_that_was_killed_is_fenced_though_its_successor_polls_seldom(place):
    """Looks by the polls alone were too far apart: each began anew."""
    poll_seldom(place)

    assert place.names == {"after"}


def test_a_holder_that_was_killed_does_not_live_as_another_root_is_read(place):
    """A root that failed once, or its return, counted as a heartbeat."""
    stands = {"r0": b"before 1", "r1": b"before 1", "r2": None}
    read = [("r1", "r2"), ("r0", "r2"), ("r0", "r1")]

    def contents(group, members):
        roots = read.pop() if read else ("r0", "r1")
        return [{each: stands[each] for each in roots} for _ in members]

    place.heartbeats.contents = contents
    poll_seldom(place)

    assert place.names == {"after"}


def test_a_holder_that_lives_keeps_its_place_and_its_successor_is_told(place):
    place.member.follow()
    for count in (1, 2):
        place.heartbeats.beat("g", "before", count)
        place.liveness.check()
        place.clock.advance(5_000)

    with pytest.raises(UnreleasedInstanceIdError):
        place.member.follow()

    for _ in range(20):
        place.clock.advance(5_000)
        place.liveness.check()
    assert place.names == {"before"}, "who gave up looks no more"
