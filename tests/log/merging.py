"""A partition in memory whose replicas merge, are damaged, made anew, and fetch from each other."""

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.merging import merge_replica
from tests.controller.rounds import EPOCH
from tests.fakes import folder
from tests.log.upkeeping import Upkeeping

NEWEST = 10  # merge.min.lag.batches


class Merging(Upkeeping):
    """What is merged, and what lies in the replicas' folders."""

    def __init__(self, count=32 + NEWEST, **options):
        super().__init__(count, **options)

    def merge(self, broker_id=1, **fields):
        return self.do(merge_replica, broker_id, **fields)

    def write(self, broker_id, name, content):
        """Have a file in a replica's folder."""
        place = self.place(broker_id)
        self.roots[place.root].files[folder(place)][name] = content

    def damage(self, broker_id, number):
        """Damage the file of a batch; return its name."""
        name = self.table(broker_id).load().batches[number].segments[0].file_name
        self.write(broker_id, name, b"x")
        return name

    def spans(self, broker_id):
        batches = self.table(broker_id).load().batches
        return [(each.base_offset, each.end_offset) for each in batches if each.producer is None]

    def files(self, broker_id):
        place = self.place(broker_id)
        return set(self.roots[place.root].files[folder(place)])

    def named(self, broker_id):
        batches = self.table(broker_id).load().batches
        return {segment.file_name for each in batches for segment in each.segments}


def made_anew(cluster, broker_id, end=0):
    """Make a replica again that has the log up to `end`, taken before its leader merged."""
    place = cluster.place(broker_id)
    leader = cluster.table(1).load()
    root = cluster.roots[place.root]
    root.tables.pop(folder(place))
    cluster.replicas.create(place)
    log = cluster.table(broker_id)
    state = log.load()
    state = log.commit(
        state,
        operations.adopt(state, leader_epoch=EPOCH, truncate_to=None, floor=Offset(0)),
    )
    parts = [each for each in leader.batches if each.end_offset <= end]
    if parts:
        log.commit(state, operations.append_fetched(state, parts, leader_epoch=EPOCH))
