"""Groups with members, against a real cluster and with real processes: killed, frozen, added."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.errors import (
    ClusterClosedError,
    FencedInstanceIdError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    NonEmptyGroupError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)
from kafka_on_spark.service.control.silent_groups import SILENCE_MS, SilentGroups
from tests.cluster.disks import FAST, new_disks
from tests.cluster.folders import quick_folder, roots_in
from tests.cluster.mortal import KilledError, make_mortal
from tests.fakes import FakeClock

SETTINGS = {
    # Nobody is fenced by chance: a machine under load keeps a thread waiting for seconds.
    "group.consumer.session.timeout.ms": "60000",
    "group.consumer.heartbeat.interval.ms": "250",
    "delivery.timeout.ms": "120000",
}
SHORT_SESSION = {"group.consumer.session.timeout.ms": 3000}
"""For groups of which somebody is to be fenced."""

SILENT = {
    "group.consumer.session.timeout.ms": str(SILENCE_MS),
    "group.consumer.heartbeat.interval.ms": str(SILENCE_MS // 4),
}
"""For members that beat as they join, and then no more but by request."""

WAIT_S = 240
"""Within which anything must come, processes on a busy machine too."""


@pytest.fixture
def disks():
    with new_disks(1, configs=SETTINGS) as disks:
        disks.cluster.create_topic("orders", partitions=4)
        yield disks


@pytest.fixture
def cluster(disks):
    return disks.cluster


@pytest.fixture
def short_session(cluster):
    cluster.alter_cluster_configs(SHORT_SESSION)


def append(cluster, first, count):
    cluster.append("orders", [(str(each), str(each)) for each in range(first, first + count)])


def member(cluster, group="g", **options):
    return cluster.consumer("orders", group=group, **({"auto_offset_reset": "earliest"} | options))


def values(table):
    return [int(each) for each in table.column("value").to_pylist()]


def polled(until, *consumers):
    """Have consumers poll in turns until something holds; return what they have handed out."""
    found = [[] for _ in consumers]
    last = time.monotonic() + WAIT_S
    while not until():
        assert time.monotonic() < last, "it takes too long"
        for place, consumer in enumerate(consumers):
            found[place] += values(consumer.poll(20))
    return found


def lag_of(*consumers):
    return sum(one.current_lag(name) for one in consumers for name in one.assignment())


def shares(*consumers):
    return [len(each.assignment()) for each in consumers]


def test_two_members_share_the_partitions_and_one_takes_over_what_the_other_leaves(disks):
    cluster = disks.cluster
    append(cluster, 0, 40)
    told = []
    first = member(
        cluster,
        on_assigned=lambda names: told.append(("+", names)),
        on_revoked=lambda names: told.append(("-", names)),
    )
    with first:
        early = values(first.poll(0))
        with member(cluster) as second:
            polled(lambda: shares(first, second) == [2, 2], first, second)
            assert not set(first.assignment()) & set(second.assignment())
            append(cluster, 40, 40)
            late = polled(lambda: lag_of(first, second) == 0, first, second)
            assert sorted([*early, *late[0], *late[1]]) == list(range(80)), (
                "each is handed out once"
            )
        polled(lambda: shares(first) == [4], first)
    assert [kind for kind, _ in told] == ["+", "-", "+", "-"]
    assert cluster.describe_group_members("g").members == ()
    assert os.listdir(disks.metadata_root / "groups") == []
    assert sum(each.lag for each in cluster.describe_group("g")) == 0


def test_a_group_is_described_and_left_alone_while_it_has_members(cluster):
    append(cluster, 0, 4)
    with pytest.raises(GroupIdNotFoundError):
        cluster.describe_group_members("g")
    with member(cluster) as consumer:
        consumer.poll(0)
        described = cluster.describe_group_members("g")
        assert described.state == "Stable"
        [only] = described.members
        assert only.partitions == only.target == tuple(consumer.assignment())
        assert cluster.list_groups() == ["g"]
        with pytest.raises(NonEmptyGroupError, match="end its consumers first"):
            cluster.alter_group_offsets("g", {("orders", 0): 0})
        with (
            cluster.consumer(
                partitions=[("orders", 0)], group="g", enable_auto_commit=False
            ) as other,
            pytest.raises(UnknownMemberIdError, match="has members, which alone save"),
        ):
            other.commit({("orders", 0): 0})

        assert cluster.remove_group_members("g") == [only.member_id]
        assert cluster.describe_group_members("g").state == "Empty"
        with pytest.raises(UnknownMemberIdError):
            consumer.commit()
        consumer.poll(0)
        [again] = cluster.describe_group_members("g").members
        assert again.member_id != only.member_id


def test_a_callback_commits_what_is_given_up_and_asks_for_no_records(cluster):
    append(cluster, 0, 40)
    refused = []

    def give_up(names):
        first.commit({name: first.position(name) for name in names})
        with pytest.raises(InvalidRequestError, match="do it after the poll") as error:
            first.poll(0)
        refused.append(error)

    options = {"enable_auto_commit": False}
    with member(cluster, on_revoked=give_up, **options) as first, member(cluster, **options) as two:
        early = polled(lambda: first.current_lag(("orders", 0)) == 0, first)[0]
        found = polled(lambda: shares(first, two) == [2, 2], first, two)
        later = polled(lambda: lag_of(first, two) == 0, first, two)
        assert sorted([*early, *found[0], *found[1], *later[0], *later[1]]) == list(range(40))
    assert refused


def test_who_asks_for_the_assignment_as_partitions_are_lost_has_none_and_joins_after_that(cluster):
    told = []

    def lose(names):
        told.append(("lost", len(names), consumer.assignment()))
        told.append(("committed", consumer.committed(names[:1])))

    with member(
        cluster, on_assigned=lambda names: told.append(("assigned", len(names))), on_lost=lose
    ) as consumer:
        consumer.poll(0)
        cluster.remove_group_members("g")
        consumer.poll(0)

    committed = ("committed", {("orders", 0): 0})
    assert told == [("assigned", 4), ("lost", 4, []), committed, ("assigned", 4)]


def test_an_error_of_a_callback_is_told_once_and_the_member_goes_on(cluster):
    def fail(names):
        raise RuntimeError("the callback fails")

    append(cluster, 0, 4)
    with member(cluster, on_assigned=fail) as consumer:
        with pytest.raises(RuntimeError, match="the callback fails"):
            consumer.poll(0)
        # A poll goes on to the next partition for some moments only.
        assert sorted(polled(lambda: lag_of(consumer) == 0, consumer)[0]) == [0, 1, 2, 3]


def test_a_static_member_comes_back_to_its_partitions_and_has_one_place(cluster):
    append(cluster, 0, 8)
    with member(cluster) as other, ExitStack() as stack:
        static = stack.enter_context(member(cluster, group_instance_id="one"))
        polled(lambda: shares(static, other) == [2, 2], static, other)
        mine = static.assignment()
        stack.close()
        before = cluster.describe_group_members("g")
        assert [each.is_away for each in before.members if each.instance_id == "one"] == [True]

        with member(cluster, group_instance_id="one") as again:
            again.poll(0)
            assert again.assignment() == mine
            assert cluster.describe_group_members("g").group_epoch == before.group_epoch
            with (
                member(cluster, group_instance_id="one") as third,
                pytest.raises(UnreleasedInstanceIdError),
            ):
                polled(lambda: False, third)


def test_a_static_member_that_was_fenced_is_told_who_has_its_place(cluster):
    static = {"group_instance_id": "one"}
    with member(cluster, **static) as first, member(cluster, **static) as second:
        first.poll(0)
        cluster.remove_group_members("g")
        second.poll(0)

        with pytest.raises(FencedInstanceIdError, match="'one' of group 'g' runs as"):
            polled(lambda: False, first)
        assert first.assignment() == []


def test_a_group_that_is_full_takes_nobody(cluster):
    cluster.alter_cluster_configs({"group.consumer.max.size": 1})
    with member(cluster) as one, member(cluster) as two:
        one.poll(0)
        with pytest.raises(GroupMaxSizeReachedError):
            two.poll(0)


def test_partitions_and_topics_that_come_and_go_are_taken_and_given_up(cluster):
    cluster.create_topic("returns", partitions=1)
    with cluster.consumer(pattern="orders|ret.*", group="g") as one:
        one.poll(0)
        assert len(one.assignment()) == 5
        cluster.add_partitions("orders", to=6)
        cluster.append("orders", [{"key": None, "value": b"1", "partition": 5}])
        assert polled(lambda: len(one.assignment()) == 7, one) in ([[]], [[1]])
        cluster.delete_topic("returns")
        polled(lambda: len(one.assignment()) == 6, one)
        cluster.create_topic("retained", partitions=2)
        polled(lambda: len(one.assignment()) == 8, one)
        one.commit()
    [place] = [each for each in cluster.describe_group("g") if each.name == ("orders", 5)]
    assert place.offset == 1


def test_who_asks_for_nothing_for_too_long_leaves(cluster):
    append(cluster, 0, 4)
    with member(cluster, max_poll_interval_ms=300) as busy, member(cluster) as other:
        handed_out = set()
        wait_until(lambda: handed_out.update(values(busy.poll(0))) or handed_out == set(range(4)))
        polled(lambda: shares(other) == [4], other)
        with pytest.raises(UnknownMemberIdError):
            busy.commit()


PROGRAM = """
import json, sys
from kafka_on_spark import Cluster

def tell(what, *rest):
    print(json.dumps([what, *rest]), flush=True)

with Cluster.open(sys.argv[1]) as cluster:
    options = json.loads(sys.argv[2])
    consumer = cluster.consumer(
        "orders", group="g", auto_offset_reset="earliest", auto_commit_interval_ms=100,
        on_assigned=lambda names: tell("assigned", [each.partition for each in names]),
        on_lost=lambda names: tell("lost", [each.partition for each in names]),
        **options,
    )
    for record in consumer:
        tell("record", int(record.value))
        if record.value == b"-1":
            break
    consumer.close()
"""


class Member:
    """A process that is a member, and what it has told."""

    def __init__(self, disks, path, **options):
        self.path = path
        with path.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(disks.metadata_root), json.dumps(options)],
                stdout=out,
            )

    def told(self, kind):
        lines = self.path.read_text().splitlines()
        return [each[1] for line in lines if (each := json.loads(line))[0] == kind]

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()


@pytest.fixture
def start(disks, tmp_path):
    members = []

    def start(**options):
        members.append(Member(disks, tmp_path / f"told-{len(members)}", **options))
        return members[-1]

    yield start
    for each in members:
        each.end()


def wait_until(condition):
    last = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < last, "it takes too long"
        time.sleep(0.02)


def owners(cluster):
    """Return how many partitions each member has."""
    try:
        members = cluster.describe_group_members("g").members
    except GroupIdNotFoundError:
        return []
    return sorted(len(each.partitions) for each in members)


@pytest.mark.usefixtures("short_session")
def test_members_are_killed_frozen_and_added_and_nothing_is_skipped(disks, start):
    cluster = disks.cluster
    first, second = start(), start()
    wait_until(lambda: owners(cluster) == [2, 2])
    append(cluster, 0, 200)
    # A member that is starved for a session is fenced, and what it had in hand comes twice.
    wait_until(lambda: set(first.told("record") + second.told("record")) >= set(range(200)))

    second.process.kill()
    append(cluster, 200, 200)
    wait_until(lambda: owners(cluster) == [4])
    third = start()
    wait_until(lambda: owners(cluster) == [2, 2])

    first.process.send_signal(signal.SIGSTOP)
    append(cluster, 400, 200)
    wait_until(lambda: owners(cluster) == [4])
    told, losses = len(first.told("record")), len(first.told("lost"))
    wait_until(lambda: set(range(400, 600)) <= set(third.told("record") + first.told("record")))
    first.process.send_signal(signal.SIGCONT)
    wait_until(lambda: len(first.told("lost")) > losses)
    wait_until(lambda: owners(cluster) == [2, 2])
    # The one that it may have been at when it was frozen; then it asked.
    kinds = [json.loads(line)[0] for line in first.path.read_text().splitlines()]
    lost_at = [place for place, kind in enumerate(kinds) if kind == "lost"][losses]
    assert kinds[:lost_at].count("record") <= told + 1
    append(cluster, 600, 200)

    everybody = [first, second, third]
    wait_until(
        lambda: {each for one in everybody for each in one.told("record")} >= set(range(800))
    )
    wait_until(lambda: sum(each.lag for each in cluster.describe_group("g")) == 0)
    twice = [each for one in everybody for each in one.told("record")]
    assert len(twice) - len(set(twice)) < 200, "what was committed is handed out once"
    assert cluster.fsck().findings == ()


@pytest.mark.usefixtures("short_session")
def test_a_static_member_that_was_killed_alone_comes_back_once_it_is_silent(disks, start):
    cluster = disks.cluster
    first = start(group_instance_id="one")
    wait_until(lambda: owners(cluster) == [4])
    first.process.kill()
    first.process.wait()

    again = start(group_instance_id="one")

    wait_until(lambda: again.told("assigned"))
    assert owners(cluster) == [4]
    assert len(cluster.describe_group_members("g").members) == 1


def test_a_killed_group_is_emptied_by_request(disks, start):
    cluster = disks.cluster
    lonely = start()
    wait_until(lambda: owners(cluster) == [4])
    lonely.process.kill()
    lonely.process.wait()
    with pytest.raises(NonEmptyGroupError, match="--remove-members"):
        cluster.delete_group("g")

    assert len(cluster.remove_group_members("g")) == 1

    assert cluster.delete_group("g") != []


def test_others_go_on_for_a_consumer_whose_cluster_was_closed(disks):
    append(disks.cluster, 0, 4)
    other = Cluster.open(disks.metadata_root)
    with member(disks.cluster) as first:
        second = member(other)
        polled(lambda: shares(first, second) == [2, 2], first, second)
        other.close()  # it can't say that it leaves, and beats no more
        with pytest.raises(ClusterClosedError):
            second.poll(0)
        disks.cluster.alter_cluster_configs(SHORT_SESSION)
        polled(lambda: shares(first) == [4], first)


def test_a_member_that_can_not_leave_says_so_and_is_fenced(disks):
    append(disks.cluster, 0, 4)
    cluster = disks.open()
    with member(disks.cluster) as first:
        second = member(cluster)
        polled(lambda: shares(first, second) == [2, 2], first, second)
        log = make_mortal(cluster, 1, is_after=False)
        with pytest.raises(KilledError):
            second.close()
        assert log.is_dead
        disks.cluster.alter_cluster_configs(SHORT_SESSION)
        polled(lambda: shares(first) == [4], first)


@pytest.fixture
def given_one_root_each():
    """A cluster of three metadata roots, opened by the first and by the second of them."""
    with quick_folder() as folder, ExitStack() as stack:
        roots = roots_in(folder)
        configs = {**FAST, **SILENT}
        created = stack.enter_context(Cluster.create(roots, {1: folder / "1"}, configs=configs))
        created.create_topic("orders", partitions=4)
        yield roots, [stack.enter_context(Cluster.open(each)) for each in roots[:2]]


def test_members_that_were_given_different_roots_hear_each_other(given_one_root_each):
    roots, clusters = given_one_root_each
    heartbeats = [each._services.heartbeats for each in clusters]
    with member(clusters[0]) as first, member(clusters[1]) as second:
        for consumer in (first, second):
            consumer.poll(0)
        ids = [each.member_id for each in clusters[0].describe_group_members("g").members]
        assert len(ids) == 2
        for each in heartbeats:
            assert all(each.listen("g", ids))

        roots[0].rename(roots[0].with_name("away"))
        heartbeats[0].beat("g", ids[0], 1_000_000)

        [found] = heartbeats[1].listen("g", ids[:1])
        assert b" 1000000\n" in found[0]
        roots[0].with_name("away").rename(roots[0])


def test_a_controller_that_was_given_another_root_fences_nobody_who_beats(given_one_root_each):
    _, clusters = given_one_root_each
    clock, fenced = FakeClock(), []
    silent_groups = SilentGroups(clusters[1]._services.heartbeats, clock)
    with member(clusters[0]) as consumer:
        consumer.poll(0)
        clusters[1].describe_group_members("g")
        [member_id] = clusters[1].image.consumer_groups["g"].members

        for count in range(2 * SILENCE_MS // 60_000):
            clusters[0]._services.heartbeats.beat("g", member_id, 1_000_000 + count)
            silent_groups.run(clusters[1].image, fenced.append)
            clock.advance(60_000)

    assert not fenced
