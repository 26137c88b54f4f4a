"""After the faults: a bounded healing, then what must be true of a cluster that is well again.

Run in a process of the cluster, with the production's own commands: what an operator would do.
"""

from contextlib import suppress

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import DirectoryId, PartitionKey
from kafka_on_spark.controller.commands import REGISTER_BROKER
from kafka_on_spark.log.read_order import plan_reads
from kafka_on_spark.metadata.records import BrokerState
from tests.simulation.checks import invariants
from tests.simulation.checks.checker import Checker
from tests.simulation.checks.expiry import nothing_silent_is_left
from tests.simulation.checks.ledger import records_of, require
from tests.simulation.programs.clients import read_all
from tests.simulation.programs.cluster import TOPIC
from tests.simulation.world.cleaning import left_over, nothing_is_left
from tests.simulation.world.processes import Driver

CLOCKS_WRONG_MS_MAX = 10 * 3_600_000
"""More than a node's clock is ahead of the healer's: skew and jumps."""

ROUNDS_MAX = 12
"""Passes of a controller, each with a sweep, until all replicas are in sync."""


def heal_and_read_back(driver: Driver, checker: Checker) -> None:
    for _ in range(ROUNDS_MAX):
        with suppress(KafkaOnSparkError):
            _replace_disks(driver)
            driver.controller_loop().run(None)
            driver.replication_round().run(is_sweep=True)
        if is_well(checker):
            break
        driver.clock.sleep_ms(1000)
    everything_is_in_sync(checker)
    _clean(driver, checker)
    invariants.no_acked_record_lost(checker.ledger)
    read_back(driver, checker)
    if driver.world.deletes:
        _delete_all(driver, checker)
    if driver.world.silent_ms is not None:
        driver.clock.sleep_ms(CLOCKS_WRONG_MS_MAX)
        driver.controller_loop().run(None)
        nothing_silent_is_left(driver.metadata.catch_up())


def _delete_all(driver: Driver, checker: Checker) -> None:
    """L6: what is too old by clocks that are right again is deleted, from every replica."""
    driver.clock.sleep_ms(CLOCKS_WRONG_MS_MAX)
    for _ in range(ROUNDS_MAX):
        driver.controller_loop().run(None)
        driver.replication_round().run(is_sweep=True)
    for key, partition in checker.ledger.image.partitions():
        for broker_id in partition.replicas:
            table = checker.ledger.disks.replica_table(partition, key, broker_id)
            require(
                table is None or table.state.log_start_offset == partition.high_watermark,
                "L6 what is too old is deleted",
                f"{key.partition} on {broker_id}: {partition}",
            )


def _replace_disks(driver: Driver) -> None:
    """Register what stands where a disk was wiped."""
    image = driver.metadata.catch_up()
    for broker in image.brokers.values():
        root = driver.world.disks.roots[broker.root]
        if root.directory_id == broker.directory_id or broker.state is not BrokerState.FENCED:
            continue
        if root.directory_id is None:
            root.directory_id = DirectoryId(f"healed{broker.broker_id}e{broker.broker_epoch}")
        driver.command(
            REGISTER_BROKER,
            broker_id=broker.broker_id,
            root=broker.root,
            rack=None,
            directory_id=root.directory_id,
        )


def _clean(driver: Driver, checker: Checker) -> None:
    """Have unassigned replicas removed, once the clocks of all committers have passed."""
    driver.clock.sleep_ms(CLOCKS_WRONG_MS_MAX)
    for _ in range(ROUNDS_MAX):
        if not left_over(checker.ledger):
            break
        with suppress(KafkaOnSparkError):
            driver.controller_loop().run(None)
    nothing_is_left(checker.ledger)


def is_well(checker: Checker) -> bool:
    """Return whether every partition has a leader, all replicas in sync and all committed."""
    ledger = checker.ledger
    for key, partition in ledger.image.partitions():
        if partition.leader is None or partition.isr != frozenset(partition.replicas):
            return False
        table = ledger.disks.replica_table(partition, key, partition.leader)
        if table is None:
            # Nothing was ever appended to it.
            if any(partition.directories):
                return False
        elif table.state.log_end_offset != partition.high_watermark:
            return False
    return True


def everything_is_in_sync(checker: Checker) -> None:
    """L2, L3, L5: leaders, ISRs and logs are whole, damaged disks included."""
    ledger = checker.ledger
    for key, partition in ledger.image.partitions():
        name = f"{key.partition}: {partition}"
        require(partition.leader is not None, "L5 a leader exists", name)
        everyone = frozenset(partition.replicas)
        require(partition.isr == everyone, "L3 the ISR returns to all replicas", name)
        log = ledger.log(key)
        for broker_id in partition.replicas:
            table = ledger.disks.replica_table(partition, key, broker_id)
            if table is None:
                require(not any(partition.directories), "L2 every record reaches all", name)
                continue
            start, mark = table.state.log_start_offset, partition.high_watermark
            found = records_of(table.state, start, mark)
            flaw = log.flaw_of(found, start, mark, table.state.compaction)
            require(
                table.state.log_end_offset == mark == len(log.committed) and flaw is None,
                "L2 every record reaches all",
                f"{name}: broker {broker_id} has {flaw}, and ends at {table.state.log_end_offset}",
            )


def read_back(driver: Driver, checker: Checker) -> None:
    """Read all that is committed; every acknowledged record must be there, once, in order."""
    image = driver.metadata.catch_up()
    read: dict[int, list[tuple[int, int]]] = {}
    for order in plan_reads(image, TOPIC):
        records = read_all(driver, order)
        partition = image.topics[order.key.topic_id].partitions[order.key.partition]
        checker.on_read(
            order.key,
            order.start_offset,
            records,
            generation=partition.unclean_generation,
            end=order.end_offset,
        )
        read[order.key.partition] = records
    for number, partition in image.topic(TOPIC).partitions.items():
        key = PartitionKey(image.topic_ids[TOPIC], number)
        found = dict(read.get(key.partition, []))
        log = checker.ledger.log(key)
        now = partition.compaction
        below = (now.compacted_below, now.tombstones_below)
        missing = {
            offset: value
            for offset, value in log.acked.items()
            if offset >= partition.log_start_offset
            and found.get(offset) != value
            and log.is_asked(offset, *below)
        }
        require(not missing, "H1 acked is read back", f"{key.partition}: {missing}")
        offsets = range(partition.log_start_offset, partition.high_watermark)
        whole = all(each in found for each in offsets if log.is_asked(each, *below))
        require(whole, "H5 no skip, no step back", f"{key.partition}: {len(found)} records")
