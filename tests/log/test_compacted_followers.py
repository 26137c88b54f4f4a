"""A follower that lacks nothing but compaction is compacted by the round, which has it join."""

import pytest

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.controller.election import change_record
from kafka_on_spark.log import operations
from kafka_on_spark.log.compaction import CompactionProgress
from kafka_on_spark.metadata.partition import Compaction, PartitionChange
from tests.builders import address
from tests.controller.rounds import EPOCH, Rounds

DECIDED = Compaction(compacted_below=Offset(2), cleaned_below=Offset(2))
FINISHED = CompactionProgress(compacted_below=Offset(2), finished_below=Offset(2))


class Compacted(Rounds):
    """Partitions of three replicas each; what they have committed must be compacted below 2."""

    def __init__(self, partition_count=1, **fields):
        super().__init__(partition_count)
        for number in range(partition_count):
            self.append(number, "a", count=3)
        self.run()
        self.leave(**fields)

    def leave(self, *, isr="1 2", decided=DECIDED):
        """Have the third leave every ISR, after a decision that only the first two have finished."""
        for key in self.keys:
            for broker_id in (1, 2):
                self.finish(key, broker_id)
            self.change(key, compaction=decided)
            self.change(key, isr=frozenset(map(int, isr.split())))

    def change(self, key, **fields):
        image = self.metadata.catch_up()
        change = PartitionChange(**fields)
        self.submit([change_record(image, key, image.partition(key), change, "a test")])

    def finish(self, key, broker_id):
        replica = self.replicas.open(address(broker_id, key=key))
        state = replica.load()
        replica.commit(state, operations.set_compaction(state, FINISHED, leader_epoch=EPOCH))

    def finish_all(self, followers):
        for key, broker_ids in followers.items():
            for each in broker_ids:
                self.finish(key, each)
        return True

    def isr(self, number=0):
        return sorted(self.metadata.catch_up().partition(self.keys[number]).isr)


@pytest.mark.parametrize("is_sweep", [False, True])
def test_it_joins_in_the_round_that_has_it_compacted(is_sweep):
    rounds = Compacted(2)
    rounds.compact_followers = rounds.finish_all

    report = rounds.run(is_sweep=is_sweep)

    assert rounds.waited == [{0: [3], 1: [3]}]
    assert [rounds.isr(0), rounds.isr(1)] == [[1, 2, 3], [1, 2, 3]]
    assert report.isr_changes == 2
    assert report.is_caught_up
