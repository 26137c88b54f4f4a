"""Expiry of producer ids and of groups' offsets as simulated controllers do it, by three clocks."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka_on_spark.controller.commands import expiry
from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.control.expiring import Expiry
from tests.simulation.world.scheduler import STARTED_AT_MS
from tests.simulation.world.world import FAILED

if TYPE_CHECKING:
    from tests.simulation.world.processes import Driver


def expiry_of(driver: "Driver") -> Expiry | None:
    """Return a process's expiry, if anything expires in this simulation."""
    world = driver.world
    if world.silent_ms is None:
        return None

    def roots_now_ms(image: MetadataImage) -> int | None:
        for broker in image.brokers.values():
            root = world.disks.roots[broker.root]
            try:
                if world.scheduler.call("probe", root) in FAILED:
                    raise KafkaStorageError("the root does not answer")
                root.check_reads()
                root.check_writes()
            except KafkaStorageError:
                continue
            return STARTED_AT_MS + int(world.scheduler.now_ms) + root.clock_ahead_ms
        world.seen["no root tells the time"] += 1
        return None

    return Expiry(driver.own_clock, driver.metadata.clock, roots_now_ms=roots_now_ms)


@contextmanager
def short_minutes(is_short: bool) -> Iterator[None]:
    """Have offsets.retention.minutes count milliseconds, as all that happens here takes some."""
    module: Any = expiry
    before = module.MINUTE_MS
    module.MINUTE_MS = 1 if is_short else before
    try:
        yield
    finally:
        module.MINUTE_MS = before
