"""Groups whose members were all killed: the controller fences them, and no other."""

import pytest

from kafka_on_spark.groups.liveness import SILENCE_MS, SilentGroups
from kafka_on_spark.groups.membership import join, leave
from kafka_on_spark.metadata.image import MetadataImage
from tests.builders import TOPIC
from tests.committing import replay
from tests.fakes import FakeClock, MemoryHeartbeats


class World:
    """A group, its heartbeats, and a controller that comes by every few seconds."""

    def __init__(self, *names):
        self.clock, self.heartbeats = FakeClock(), MemoryHeartbeats()
        self.silent_groups = SilentGroups(self.heartbeats, self.clock)
        self.image = MetadataImage()
        for name in names:
            self.join(name)
            self.heartbeats.beat("g", name, 1)

    def join(self, name):
        self.image = replay(self.image, join(self.image, "g", member_id=name, topics=[TOPIC]))

    def submit(self, decide):
        self.image = replay(self.image, decide(self.image))

    def pass_by(self, duration_ms, *beating):
        for count in range(duration_ms // 5_000):
            self.clock.advance(5_000)
            for name in beating:
                self.heartbeats.beat("g", name, count + 2)
            self.silent_groups.run(self.image, self.submit)

    @property
    def names(self):
        group = self.image.consumer_groups.get("g")
        return set() if group is None else set(group.members)


def test_members_that_were_all_killed_are_fenced_after_minutes_in_one_commit():
    world = World("a", "b", "c")

    world.pass_by(SILENCE_MS - 5_000)
    assert world.names == {"a", "b", "c"}
    world.pass_by(SILENCE_MS)

    assert world.names == set()
    assert world.heartbeats.counts == {}
    assert world.image.offset == 3 + 3


@pytest.mark.parametrize("living", ["a", "b"])
def test_while_one_lives_the_members_see_to_it_themselves(living):
    world = World("a", "b", "c")

    world.pass_by(4 * SILENCE_MS, living)

    assert world.names == {"a", "b", "c"}


def test_who_comes_and_goes_delays_nothing():
    """As runs by cron do: each was the first, by chance, and the others began anew."""
    world = World("b", "c")
    world.pass_by(SILENCE_MS // 2)

    world.join("a")
    world.pass_by(SILENCE_MS // 4, "a")
    world.submit(lambda image: leave(image, "g", "a", 0))
    world.pass_by(SILENCE_MS * 3 // 4)

    assert world.names == set()


def test_a_controller_that_was_frozen_begins_again():
    world = World("a")
    world.pass_by(SILENCE_MS // 2)
    world.clock.advance(SILENCE_MS)

    world.pass_by(SILENCE_MS // 2)

    assert world.names == {"a"}


def test_a_root_that_is_away_fences_nobody_and_is_looked_at_again():
    world = World("a")
    world.heartbeats.is_offline = True
    world.pass_by(4 * SILENCE_MS)
    assert world.names == {"a"}
    world.heartbeats.is_offline = False

    world.pass_by(2 * SILENCE_MS)

    assert world.names == set()
