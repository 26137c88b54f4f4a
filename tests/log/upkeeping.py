"""A partition of three replicas in memory, of which one kind of upkeep is done to one replica."""

from dataclasses import replace
from types import SimpleNamespace

from kafka_on_spark.log.replica_upkeep import plan_upkeep
from kafka_on_spark.log.upkeep_work import Allowance
from tests.builders import address
from tests.controller.rounds import Rounds
from tests.fakes import MemoryReplicaFolders


class Upkeeping(Rounds):
    """One partition with `count` batches of one record, all committed."""

    compactor = None

    def __init__(self, count=1, **options):
        super().__init__(**options)
        if count:
            self.append(0, "a", count)
            self.run()
        self.folders = MemoryReplicaFolders(self.roots)

    def place(self, broker_id=1):
        return address(broker_id, key=self.keys[0])

    def table(self, broker_id=1):
        return self.replicas.open(self.place(broker_id))

    def order(self, broker_id=1, **fields):
        orders = plan_upkeep(self.metadata.image, self.keys)
        [order] = [each for each in orders if each.address.broker_id == broker_id]
        return replace(order, **fields)

    def worker(self):
        names = ("compactor", "replicas", "segments", "folders", "clock")
        return SimpleNamespace(**{name: getattr(self, name) for name in names})

    def do(self, work, broker_id=1, *, order=None, **fields):
        """Do one kind of work, by the order of an image or by one that is given."""
        order = order or self.order(broker_id, **fields)
        return work(order, self.worker(), Allowance(order, self.clock))
