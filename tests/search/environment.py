"""What happens to processes without their doing: brokers taken for dead, and back.

A broker that is fenced goes on: whoever writes to its disk does so, so every process that has an
older image is a zombie. Each event is one decision on the newest image and its commit.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from kafka_on_spark.controller.brokers import fence_broker, unfence_broker
from kafka_on_spark.ids import BrokerId
from kafka_on_spark.metadata.broker import BrokerState
from tests.search.replaying import Numbers
from tests.search.world import BROKERS, PARTITION_EPOCH, World

Event = tuple[tuple[Any, ...], int, Any, int]
"""(name and broker, image after it, disk after it or None, allowance after it)."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the environment may still do; see `Scope`."""

    fencings: int
    wipes: int
    rollbacks: int
    unknowns: int


class Environment:
    """The events of a scope."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._allowances = Numbers()
        self._decided: dict[tuple[str, BrokerId, int], int] = {}

    def _number(self, allowance: Allowance) -> int:
        return self._allowances.of(allowance, allowance)

    def first(self) -> int:
        """Return the allowance at the beginning."""
        scope = self._world.scope
        return self._number(
            Allowance(scope.fencings, scope.wipes, scope.rollbacks, scope.unknowns)
        )

    def events(self, state: tuple[int, ...]) -> Iterator[Event]:
        """Yield what may happen in `state`."""
        image, number = state[0], state[5]
        allowance: Allowance = self._allowances.values[number]
        for broker_id in BROKERS:
            is_fenced = (
                self._world.images.values[image].brokers[broker_id].state is BrokerState.FENCED
            )
            if is_fenced:
                yield ("unfence", broker_id), self._decide("unfence", broker_id, image), None, number
            elif allowance.fencings:
                after = self._decide("fence", broker_id, image)
                if self._world.registration(after).leader_epoch <= self._world.scope.epoch_max:
                    less = self._number(replace(allowance, fencings=allowance.fencings - 1))
                    yield ("fence", broker_id), after, None, less

    def _decide(self, name: str, broker_id: BrokerId, image: int) -> int:
        key = (name, broker_id, image)
        known = self._decided.get(key)
        if known is None:
            decide = {"fence": fence_broker, "unfence": unfence_broker}[name]
            before = self._world.images.values[image]
            decided = decide(before, broker_id, name)
            after, _ = self._world.image_after(before, tuple(decided.records), PARTITION_EPOCH)
            known = self._decided[key] = self._world.images.number(after)
        return known
