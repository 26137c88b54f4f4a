"""What happens to processes without their doing: brokers taken for dead, back, or wiped.

A broker that is fenced goes on: any process may write to its disk, so every process that has an
older image is a zombie. Each event is one decision on the newest image and its commit, or one
disk's loss.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kafka_on_spark.base.ids import BrokerId, DirectoryId
from kafka_on_spark.controller.brokers import fence_broker, register_broker, unfence_broker
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.records import BrokerState
from tests.search.replaying import Numbers
from tests.search.world import NO_DISK, PARTITION_EPOCH, Disk, World

Event = tuple[tuple[str, BrokerId], int, int, int]
"""(name and broker, and after it: image, that broker's disk, allowance)."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the environment may still do; see `Scope`."""

    fencings: int
    wipes: int


class Environment:
    def __init__(self, world: World) -> None:
        self._world = world
        self._allowances = Numbers()
        self._decided: dict[tuple[str, BrokerId, int], int] = {}
        self._events: dict[tuple[int, ...], list[Event]] = {}

    def _number(self, allowance: Allowance) -> int:
        return self._allowances.of(allowance, allowance)

    def first(self) -> int:
        scope = self._world.scope
        return self._number(Allowance(scope.fencings, scope.wipes))

    def losses(self, number: int) -> int:
        allowance: Allowance = self._allowances.values[number]
        return self._world.scope.wipes - allowance.wipes

    def events(self, state: tuple[int, ...]) -> list[Event]:
        """Return what may happen in `state`: it is told by image, disks and allowance."""
        key = (*state[:4], state[5])
        known = self._events.get(key)
        if known is None:
            known = self._events[key] = list(self._find_events(state))
        return known

    def _find_events(self, state: tuple[int, ...]) -> Iterator[Event]:
        image, number = state[0], state[5]
        allowance: Allowance = self._allowances.values[number]
        for broker_id in self._world.scope.brokers:
            disk_number = state[broker_id]
            disk: Disk = self._world.disks.values[disk_number]
            broker = self._world.images.values[image].brokers[broker_id]
            is_fenced = broker.state is BrokerState.FENCED
            if not is_fenced and (allowance.fencings or disk.directory_id == NO_DISK):
                costs = disk.directory_id != NO_DISK  # a probe of a wiped disk always fails
                less = replace(allowance, fencings=allowance.fencings - costs)
                after = self._decide("fence", broker_id, image)
                yield ("fence", broker_id), after, disk_number, self._number(less)
            if is_fenced and disk.directory_id == broker.directory_id:
                after = self._decide("unfence", broker_id, image)
                yield ("unfence", broker_id), after, disk_number, number
            if is_fenced and disk.directory_id == NO_DISK:
                after = self._decide("register", broker_id, image)
                new = self._world.disk_number(Disk(_another_disk(broker_id)))
                yield ("register", broker_id), after, new, number
            if allowance.wipes and disk.directory_id != NO_DISK:
                wiped = self._world.disk_number(Disk(NO_DISK))
                less = replace(allowance, wipes=allowance.wipes - 1)
                yield ("wipe", broker_id), image, wiped, self._number(less)

    def _decide(self, name: str, broker_id: BrokerId, image: int) -> int:
        key = (name, broker_id, image)
        known = self._decided.get(key)
        if known is None:
            before = self._world.images.values[image]
            records = tuple(_DECISIONS[name](before, broker_id, name).records)
            after, _ = self._world.image_after(before, records, PARTITION_EPOCH)
            known = self._decided[key] = self._world.images.number(after)
        return known


def _another_disk(broker_id: BrokerId) -> DirectoryId:
    return DirectoryId(f"another{broker_id}")


def _register(image: MetadataImage, broker_id: BrokerId, cause: str) -> ControllerResult[object]:
    decided = register_broker(
        image,
        broker_id,
        image.brokers[broker_id].root,
        rack=None,
        directory_id=_another_disk(broker_id),
        cause=cause,
    )
    return ControllerResult(decided.records, None)


_DECISIONS = {
    "fence": fence_broker,
    "unfence": unfence_broker,
    "register": _register,
}
