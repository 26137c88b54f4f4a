"""Readers of a compacted topic in a simulated cluster: each keeps the last value of each key."""

from kafka_on_spark.base.errors import LogTruncatedError, OffsetOutOfRangeError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.log.read_order import (
    ReadOrder,
    of_changes,
    of_values,
    plan_reads,
    ranges_between,
)
from kafka_on_spark.metadata.image import MetadataImage
from tests.simulation.checks.checker import Checker
from tests.simulation.checks.compaction import reader_has_last_values
from tests.simulation.programs.clients import read_all
from tests.simulation.programs.cluster import TOPIC
from tests.simulation.programs.program import Program, Stop
from tests.simulation.world.keyed import is_tombstone, key_of
from tests.simulation.world.processes import Driver

Table = dict[bytes, int]
"""The offset of each key's value."""


def applied(table: Table, rows: list[tuple[int, int]]) -> None:
    """Bring a table up to date with records, as (offset, value)."""
    for at, value in rows:
        key = key_of(value)
        if key is None:
            continue
        table.pop(key, None)
        if not is_tombstone(value):
            table[key] = at


class TableReader(Program):
    """Follows the topic from its start, and begins again before tombstones may be missed."""

    def __init__(self, driver: Driver, checker: Checker, stop: Stop) -> None:
        super().__init__(driver, checker, stop)
        self._tables: dict[PartitionKey, Table] = {}
        self._positions: dict[int, int] = {}
        self._generations: dict[int, int] = {}
        self._began_ms = 0.0

    def once(self) -> None:
        asked_ms = self._now_ms()
        image = self.driver.metadata.catch_up()
        if TOPIC not in image.topic_ids:
            return
        partitions = image.topic(TOPIC).partitions
        generations = {number: each.unclean_generation for number, each in partitions.items()}
        if self._is_late(image) or generations != self._generations:
            self._tables, self._began_ms = {}, asked_ms
            self._positions = {n: each.log_start_offset for n, each in partitions.items()}
            self._generations = generations
        some = self.rng.choice([2, 5, 1000])
        ends = {
            number: min(each.high_watermark, self._positions[number] + some)
            for number, each in partitions.items()
        }
        starts = {number: min(self._positions[number], ends[number]) for number in partitions}
        try:
            for order in plan_reads(image, TOPIC, starts, ends):
                applied(self._tables.setdefault(order.key, {}), read_all(self.driver, order))
                self._positions[order.key.partition] = order.end_offset
                if order.end_offset == order.partition.high_watermark:
                    self._judge(image, order)
        except OffsetOutOfRangeError:
            self._generations = {}
            raise

    def _judge(self, image: MetadataImage, order: ReadOrder) -> None:
        log = self.checker.ledger.log(order.key)
        if self._is_late(image) or order.partition.unclean_generation != log.unclean_generation:
            return
        table = self._tables[order.key]
        reader_has_last_values(
            self.checker.ledger, order.key, table, order.end_offset, is_cut=False
        )

    def _now_ms(self) -> float:
        return self.driver.world.scheduler.now_ms

    def _is_late(self, image: MetadataImage) -> bool:
        """Return whether tombstones may be gone that it has not seen."""
        retention_ms = image.settings(image.topic_ids[TOPIC]).integer("delete.retention.ms")
        return self._now_ms() - self._began_ms >= retention_ms


class CutReader(Program):
    """Reads a table as of a cut, and then what has changed up to later cuts."""

    def __init__(self, driver: Driver, checker: Checker, stop: Stop) -> None:
        super().__init__(driver, checker, stop)
        self._cut: MetadataImage | None = None
        self._tables: dict[PartitionKey, Table] = {}

    def once(self) -> None:
        image = self.driver.metadata.catch_up()
        if TOPIC not in image.topic_ids:
            return
        cut, self._cut = self._cut, None
        tables = {} if cut is None else {key: dict(each) for key, each in self._tables.items()}
        try:
            orders = self._orders(cut, image)
            for order in orders:
                applied(tables.setdefault(order.key, {}), read_all(self.driver, order))
        except (LogTruncatedError, OffsetOutOfRangeError):
            return
        if all(self._judge(order, tables[order.key]) for order in orders):
            self._cut, self._tables = image, tables

    def _judge(self, order: ReadOrder, table: Table) -> bool:
        """Judge a table; return whether no unclean election has come between."""
        ledger = self.checker.ledger
        if order.partition.unclean_generation != ledger.log(order.key).unclean_generation:
            return False
        reader_has_last_values(ledger, order.key, table, order.end_offset, is_cut=True)
        return True

    def _orders(self, cut: MetadataImage | None, image: MetadataImage) -> list[ReadOrder]:
        if cut is None:
            return of_values(plan_reads(image, TOPIC))
        ranges = ranges_between(cut, image, image, TOPIC)
        starts = {number: start for number, (start, _) in ranges.items()}
        ends = {number: end for number, (_, end) in ranges.items()}
        return of_changes(plan_reads(image, TOPIC, starts, ends), ranges)
