"""What a state of the search is, and what is in it: what replicas have, and what clients were told."""

from typing import Any

from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.log.state import ReplicaState
from tests.search.environment import Environment
from tests.search.invariants import View, check
from tests.search.programs import Acked, Refused
from tests.search.scope import Scope
from tests.search.slots import Slots
from tests.search.world import World

State = tuple[int, ...]
"""image, three disks, past, allowance of the environment, processes."""

IMAGE, DISK, PAST, ALLOWANCE, SLOTS = 0, 1, 4, 5, 6


def changed_at(state: State, place: int, number: int) -> State:
    return (*state[:place], number, *state[place + 1 :])


class Inspector:
    """Inspects states, and checks each whose replicas and answers are new."""

    def __init__(self, scope: Scope, world: World, slots: Slots, environment: Environment) -> None:
        self._scope = scope
        self._world = world
        self._slots = slots
        self._environment = environment
        self._checked: set[tuple[int, ...]] = set()

    def logs(self, state: State, registration: Any) -> dict[BrokerId, ReplicaState]:
        logs = {each: self.log(state, registration, each) for each in self._scope.brokers}
        return {each: log for each, log in logs.items() if log is not None}

    def log(self, state: State, registration: Any, broker_id: Any) -> Any:
        disk = self._world.disks.values[state[DISK + broker_id - 1]]
        return self._world.live_state(registration, disk, broker_id)

    def losses(self, state: State) -> int:
        return self._environment.losses(state[ALLOWANCE])

    def acked(self, state: State) -> list[tuple[str, int]]:
        """Return the values that are acknowledged, with their offsets."""
        found = []
        for value, number in zip(self._scope.values, state[SLOTS:], strict=False):
            result = self._slots.slots[number].program
            if isinstance(result, Acked) and result.base_offset is not None:
                found.append((value, result.base_offset))
        return found

    def _refused(self, state: State) -> list[str]:
        found = []
        for value, number in zip(self._scope.values, state[SLOTS:], strict=False):
            result = self._slots.slots[number].program
            if isinstance(result, Refused) and not result.is_unknown:
                found.append(value)
        return found

    def check(self, state: State) -> None:
        """Check a state; one that differs only in what processes are at was checked already."""
        ended = [self._slots.ended[number] for number in state[SLOTS:]]
        key = (*state[:SLOTS], *ended)
        if key in self._checked:
            return
        registration = self._world.registration(state[IMAGE])
        check(
            View(
                partition=registration,
                logs=self.logs(state, registration),
                past=self._world.pasts.values[state[PAST]],
                acked=tuple(self.acked(state)),
                refused=tuple(self._refused(state)),
                losses=self.losses(state),
                min_isr=self._scope.min_isr,
                one_append=self._scope.values if self._scope.is_retry else "",
            )
        )
        self._checked.add(key)
