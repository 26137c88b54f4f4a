"""L8: in the end no folder has more files that its log does not name than orphan.bytes.max allows."""

from kafka_on_spark.log.batch import epoch_in_name
from kafka_on_spark.log.unnamed_files import files_of
from tests.simulation.checks.ledger import Ledger, require
from tests.simulation.world.processes import Driver
from tests.simulation.world.tidying import FILE_BYTES

GONE = "L8 orphans go"
ROUNDS_MAX = 3
"""A round begins a new epoch, the next has every replica adopt it, and then the files go."""


def orphans_go(driver: Driver, ledger: Ledger) -> None:
    """Do upkeep while nothing goes wrong any more, and look at what is left."""
    for _ in range(ROUNDS_MAX):
        driver.controller_loop().run(None)
        driver.replication_round().run(is_sweep=True)
        driver.upkeep.run_all()
    image = ledger.image
    limit = image.settings().integer("orphan.bytes.max")
    for key, partition in image.partitions():
        for broker_id in partition.replicas:
            table = ledger.disks.replica_table(partition, key, broker_id)
            if table is None:
                continue
            place = f"{key.topic_id}/{key.partition}-{partition.uuid_of(broker_id)}"
            there = ledger.disks.root_of(broker_id).files.get(place, {})
            left = sorted(
                {name for name in there if epoch_in_name(name) is not None} - files_of(table.state)
            )
            require(
                FILE_BYTES * len(left) <= limit,
                GONE,
                f"{key.partition} on {broker_id} at {partition.leader_epoch}: {left}",
            )
