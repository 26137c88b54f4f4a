"""Inspections of replicas without a leader, and of those that are marked as lost."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from kafka_on_spark.base.ids import LOST, BrokerId, Offset
from kafka_on_spark.controller.election import (
    WholeReplica,
    change_record,
    lost_change,
    recreate_lost,
    take_back_lost,
)
from kafka_on_spark.controller.inspections import (
    REINSPECT_MS,
    InspectionOrder,
    LostReplicaInspector,
    inspect_lost,
    inspect_replica,
)
from kafka_on_spark.log import truncation
from kafka_on_spark.log.operations import append
from kafka_on_spark.log.producer_state import fence_producer
from kafka_on_spark.metadata.partition import PartitionChange
from tests.builders import address, log, partition, staged, uuid_on
from tests.controller.rounds import EPOCH, Rounds
from tests.fakes import folder
from tests.log.test_reading import replicas_of
from tests.nodes import node_of


@pytest.mark.parametrize("high_watermark, epoch", [(1, 0), (2, 1), (3, 1), (4, 2)])
def test_an_inspection_says_the_epoch_of_the_last_committed_record(high_watermark, epoch):
    state = log("0:a 1:bb 2:c")
    order = InspectionOrder(address=address(1), partition=partition("1", hw=high_watermark))

    inspected = inspect_replica(order, SimpleNamespace(replicas=replicas_of(on_1="0:a 1:bb 2:c")))

    assert inspected.epoch_below_high_watermark == epoch
    assert inspected.chain_at_high_watermark == state.chain_at(Offset(high_watermark))
    assert (inspected.log_end_offset, inspected.last_epoch) == (4, 2)


THIRD = BrokerId(3)


class Lives(Rounds):
    """Rounds with a record that all three have, after which the third replica is called lost."""

    def __init__(self, **given):
        super().__init__(**given)
        self.append(0, "a")
        self.run(is_sweep=True)
        self.lost_inspector = LostReplicaInspector(
            node_of(self.metadata, self.clock, given={inspect_lost: self._restores})
        )
        self.inspected = 0

    def _restores(self, orders):
        self.inspected += len(orders)
        return [inspect_lost(order, self) for order in orders]

    @property
    def now(self):
        return self.metadata.catch_up().partition(self.keys[0])

    def decide(self, change, cause):
        image = self.metadata.catch_up()
        self.submit([change_record(image, self.keys[0], self.now, change, cause)])

    def lose(self, broker_id):
        image = self.metadata.catch_up()
        self.decide(lost_change(image, self.now, BrokerId(broker_id)), "called lost")

    def renew(self):
        self.metadata.submit(lambda image: recreate_lost(image, lambda: "another"), timeout_ms=1)

    def restore(self):
        whole = self.lost_inspector.inspect(self.metadata.catch_up())
        return self.metadata.submit(lambda image: take_back_lost(image, whole), timeout_ms=1)


@pytest.fixture
def lives():
    return Lives()


def append_beside_its_leader(lives, broker_id, name="b"):
    """Append a batch that no other replica has, as if the leader's table had been rolled back."""
    place = address(broker_id, key=lives.keys[0])
    replica = lives.replicas.open(place)
    batch = staged(name, epoch=EPOCH)
    for segment in batch.segments:
        lives.segments.put(place, segment)
    state = replica.load()
    replica.commit(state, append(state, batch, leader_epoch=EPOCH, now_ms=0))


def append_more_than_can_be_cut(lives, monkeypatch):
    """Give the third replica more above the high watermark than it can give up."""
    monkeypatch.setattr(truncation, "SEGMENTS_A_BATCH_MAX", 2)
    for name in "bcd":
        append_beside_its_leader(lives, 3, name)


def test_a_replica_that_gave_up_more_than_one_commit_can_name_is_made_again_and_joins(
    lives, monkeypatch
):
    """Taken back, it would be lost with the next round, and the copy that was made meanwhile too."""
    append_more_than_can_be_cut(lives, monkeypatch)
    lives.decide(PartitionChange(leader=BrokerId(2)), "a later leadership")

    for _ in range(4):
        lives.run(is_sweep=True)
        assert lives.restore() == []

    assert (sorted(lives.now.isr), lives.now.replica_uuids[2]) == ([1, 2, 3], "another")


def test_without_a_leader_a_replica_is_taken_back_however_much_it_has(lives, monkeypatch):
    append_more_than_can_be_cut(lives, monkeypatch)
    lives.decide(PartitionChange(isr=frozenset({THIRD}), leader=THIRD), "the others are away")
    lives.lose(3)
    assert lives.now.leader is None

    assert lives.restore() == lives.keys


def test_a_replica_that_has_another_log_than_its_leader_is_not_taken_back(lives):
    append_beside_its_leader(lives, 3)
    lives.lose(3)

    assert lives.restore() == []

    lives.restore()
    assert lives.inspected == 1  # it is known to be bad, and is created again meanwhile


def damage_file(lives):
    files = lives.roots["memory://3"].files[folder(address(3, key=lives.keys[0]))]
    for name in files:
        files[name] = b"x"


def remove_file(lives):
    lives.roots["memory://3"].files[folder(address(3, key=lives.keys[0]))].clear()


def remove_table(lives):
    lives.roots["memory://3"].tables.clear()


@pytest.mark.parametrize("damage", [damage_file, remove_file, remove_table])
def test_a_replica_that_is_not_whole_stays_lost_whatever_its_labels_say(lives, damage):
    damage(lives)
    lives.lose(3)

    assert lives.restore() == []

    assert lives.now.directories[2] == LOST


@pytest.mark.parametrize("later_ms", [0, 1, REINSPECT_MS])
def test_what_was_found_wrong_is_left_alone_for_a_while(lives, later_ms):
    damage_file(lives)
    lives.lose(3)
    for _ in range(3):
        lives.restore()
    assert lives.inspected == 1

    lives.clock.advance(REINSPECT_MS + later_ms)
    lives.restore()

    assert lives.inspected == 2


def test_a_lost_replica_that_a_cleaner_may_remove_is_never_taken_back(lives):
    lives.lose(3)
    lives.renew()
    whole = lives.lost_inspector.inspect(lives.metadata.catch_up())
    assert len(whole) == 1
    for _ in range(3):
        lives.run(is_sweep=True)

    assert take_back_lost(lives.metadata.image, whole).records == []
    place = replace(whole[0].address, replica_uuid=uuid_on(3))
    now = WholeReplica(place, lives.now.partition_epoch)
    assert take_back_lost(lives.metadata.image, [now]).records == []


def test_a_replica_that_changes_while_its_files_are_read_is_not_whole(lives, monkeypatch):
    lives.lose(3)
    check = lives.segments.check

    def change_and_check(place, segment):
        replica = lives.replicas.open(place)
        state = replica.load()
        replica.commit(state, fence_producer(state, "p", 1, leader_epoch=state.leader_epoch))
        return check(place, segment)

    monkeypatch.setattr(lives.segments, "check", change_and_check)
    assert lives.restore() == []

    monkeypatch.undo()
    assert lives.restore() == lives.keys


@pytest.mark.parametrize("disk_found", ["", "~"], ids=["less", "more"])
def test_a_replica_that_names_another_disk_is_not_taken_back(lives, disk_found):
    lives.lose(3)
    [whole] = lives.lost_inspector.inspect(lives.metadata.catch_up())

    assert take_back_lost(lives.metadata.image, [whole]).response == lives.keys
    other = replace(whole, address=replace(whole.address, directory_id=disk_found))
    assert take_back_lost(lives.metadata.image, [other]).response == []


def test_while_the_leader_can_not_be_read_nothing_is_said_of_a_lost_replica(lives):
    lives.lose(3)
    lives.roots["memory://1"].is_offline = True

    assert lives.restore() == []

    lives.roots["memory://1"].is_offline = False
    assert lives.restore() == lives.keys


def test_a_replica_that_lacks_what_was_committed_since_stays_lost(lives):
    lives.lose(3)
    lives.append(0, "b")
    lives.run(is_sweep=True)

    assert lives.restore() == []
