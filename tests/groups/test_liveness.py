"""What members do for each other, and when: looks, fences, sharing out, roots that are away."""

import pytest

from kafka_on_spark.base.errors import ClusterClosedError, KafkaStorageError
from kafka_on_spark.groups.liveness import Liveness, Observed
from kafka_on_spark.groups.membership import join
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.records import RemoveGroupMemberRecord, TopicRecord
from tests.builders import TOPIC, TOPIC_ID
from tests.fakes import FakeClock, MemoryHeartbeats, MemoryMetadataLog

SESSION_MS, INTERVAL_MS = 45_000, 5_000


class Members:
    """A group's members that share a log and heartbeats, each with a clock of its own."""

    def __init__(self, *names):
        self.log, self.heartbeats = MemoryMetadataLog(), MemoryHeartbeats()
        self.clocks, self.livenesses, self.services = {}, {}, {}
        for name in names:
            self.clocks[name] = FakeClock()
            self.services[name] = service = MetadataService(
                self.log, self.clocks[name], random=lambda: 0.0
            )
            self.livenesses[name] = Liveness(
                service,
                self.heartbeats,
                self.clocks[name],
                group="g",
                max_poll_interval_ms=300_000,
                timeout_ms=1_000,
                new_id=lambda: "unused",
            )
            if name == names[0]:
                self.commit(name, lambda _: ControllerResult([_TOPIC], None))
            self.commit(name, lambda image, name=name: _join(image, name))
            self.livenesses[name].begin(name)

    def commit(self, name, decide):
        self.services[name].catch_up()
        self.services[name].submit(decide, timeout_ms=1_000)

    def pass_turns(self, count, *names):
        """Let turns pass in which these beat and look; the clocks of all go on."""
        for _ in range(count):
            for each in self.clocks.values():
                each.advance(INTERVAL_MS)
            for name in names:
                self.livenesses[name].polled_at_ms = self.clocks[name].monotonic_ms()
                self.livenesses[name].beat()
                self.livenesses[name].check()

    @property
    def names(self):
        any_of = next(iter(self.services.values()))
        return set(any_of.catch_up().consumer_groups["g"].members)


_TOPIC = TopicRecord(topic=TOPIC, topic_id=TOPIC_ID)


def _join(image, name):
    return join(image, "g", member_id=name, topics=[TOPIC])


def test_who_falls_silent_is_fenced_once_and_its_heartbeat_goes():
    members = Members(*"abcd")
    members.pass_turns(3, *"abcd")
    batches = len(members.log.batches)

    members.pass_turns(9, *"ad")
    assert members.names == set("abcd")
    # A member that listens to b comes to hear c once b is silent.
    members.pass_turns(6, *"ad")

    assert members.names == set("ad")
    assert {name for _, name in members.heartbeats.counts} == set("ad")
    fences = [
        record.member_id
        for batch in members.log.batches[batches:]
        for record in batch.records
        if isinstance(record, RemoveGroupMemberRecord)
    ]
    assert fences == ["b", "c"]


def test_a_group_at_rest_commits_nothing():
    members = Members(*"abc")
    members.pass_turns(3, *"abc")
    batches = len(members.log.batches)

    members.pass_turns(40, *"abc")

    assert len(members.log.batches) == batches


def test_two_that_fence_the_same_one_do_it_once():
    members = Members(*"abc")
    batches = len(members.log.batches)
    for each in members.services.values():
        each.catch_up()
    silent = Observed({"memory": b"c"}, 0, SESSION_MS, members.clocks["a"].monotonic_ms())

    members.livenesses["a"].fence({"c": silent})
    members.livenesses["b"].fence({"c": silent})

    assert members.names == set("ab")
    assert len(members.log.batches) == batches + 1


def test_a_member_that_can_not_write_its_first_heartbeat_is_told():
    members = Members("a")
    members.heartbeats.is_offline = True

    with pytest.raises(KafkaStorageError):
        members.livenesses["a"].begin("another")


def test_who_is_asked_for_nothing_for_long_stops_to_beat_and_leaves():
    members = Members("a", "b")
    members.clocks["a"].advance(300_000)
    count = members.heartbeats.counts["g", "a"]

    members.livenesses["a"].beat()
    assert members.heartbeats.counts["g", "a"] == count
    members.livenesses["a"].check()

    assert members.names == {"b"}
    assert ("g", "a") not in members.heartbeats.counts


def test_nobody_beats_for_a_closed_cluster():
    members = Members("a")
    members.services["a"].close()

    for turn in (members.livenesses["a"].beat, members.livenesses["a"].check):
        with pytest.raises(ClusterClosedError):
            turn()
