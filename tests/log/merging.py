"""A partition in memory whose replicas merge, are damaged, made anew, and fetch from each other."""

from dataclasses import replace
from types import SimpleNamespace

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.fetch import FetchOrder
from kafka_on_spark.log.merging import merge_replica
from kafka_on_spark.log.replica_upkeep import plan_upkeep
from kafka_on_spark.log.upkeep_work import Allowance
from tests.builders import address
from tests.controller.rounds import EPOCH, Rounds
from tests.fakes import MemoryReplicaFolders, folder

NEWEST = 10  # merge.min.lag.batches


class Merging(Rounds):
    """One partition of three replicas with `count` batches of one record, all committed."""

    def __init__(self, count=32 + NEWEST, **options):
        super().__init__(**options)
        self.append(0, "a", count)
        self.run()
        self.folders = MemoryReplicaFolders(self.roots)

    def table(self, broker_id):
        return self.replicas.open(address(broker_id, key=self.keys[0]))

    def order(self, broker_id, **fields):
        [order] = [
            each
            for each in plan_upkeep(self.metadata.image, self.keys)
            if each.address.broker_id == broker_id
        ]
        return replace(order, **fields)

    def worker(self):
        return SimpleNamespace(
            compactor=None,
            replicas=self.replicas,
            segments=self.segments,
            folders=self.folders,
            clock=self.clock,
        )

    def merge(self, broker_id=1, *, order=None, **fields):
        order = order or self.order(broker_id, **fields)
        return merge_replica(order, self.worker(), Allowance(order, self.clock))

    def write(self, broker_id, name, content):
        """Have a file in a replica's folder."""
        place = address(broker_id, key=self.keys[0])
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
        place = address(broker_id, key=self.keys[0])
        return set(self.roots[place.root].files[folder(place)])

    def named(self, broker_id):
        batches = self.table(broker_id).load().batches
        return {segment.file_name for each in batches for segment in each.segments}


def made_anew(cluster, broker_id, end=0):
    """Make a replica again that has the log up to `end`, taken before its leader merged."""
    place = address(broker_id, key=cluster.keys[0])
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


def fetch_out_of_sync(cluster, broker_id):
    """Have a follower outside the ISR fetch; return its report."""
    order = cluster.order(broker_id)
    [result] = cluster._run_fetches(
        [
            FetchOrder(
                key=order.key,
                partition=replace(order.partition, isr=frozenset({1}), elr=frozenset()),
                leader=order.leader,
                follower=order.address,
                fetch_bytes_max=10**6,
            )
        ]
    )
    [report] = result.report.followers
    return report
