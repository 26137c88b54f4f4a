"""Which event comes next, and what it is about: drawn from what is there."""

import random
from collections.abc import Callable, Sequence
from itertools import count

from kafka_on_spark.base.ids import LOST, BrokerId
from tests.simulation.checks.ledger import Ledger
from tests.simulation.faults.forging import FORGED, WAYS
from tests.simulation.plan import Plan
from tests.simulation.world.cleaning import replica_at
from tests.simulation.world.disks import Root
from tests.simulation.world.scheduler import Node
from tests.simulation.world.world import World

CLOCK_JUMPS = {
    "clock jump": "",
    "controller clock jump": "controller",
    "clock far ahead": "",
}
"""A process's clock is another one: any process's, or one of those that decide; with how their names
begin."""

HOUR_MS = 3_600_000

Event = tuple[str, ...]
"""The event's name, then what it is about, as text."""


class Drawing:
    def __init__(
        self,
        plan: Plan,
        world: World,
        ledger: Ledger,
        nodes: Callable[[], Sequence[Node]],
    ) -> None:
        self._plan = plan
        self._world = world
        self._ledger = ledger
        self._nodes = nodes
        self.damaged: set[int] = set()
        self._forged = count(FORGED)

    def draw(self, name: str, rng: random.Random) -> Event | None:
        """Return an event of that kind, about something that is there; None if nothing is."""
        if name in ("kill", "freeze", "second driver"):
            nodes = [each.name for each in self._nodes() if each.is_alive and not each.is_frozen]
            return (name, self._node_at_work(nodes, rng)) if nodes else None
        if name in ("cut off", "denied", "nap"):
            return self._cut(name, rng)
        if name in ("thaw", "rejoin"):
            alive = [each for each in self._nodes() if each.is_alive]
            is_about = (
                (lambda each: each.is_frozen) if name == "thaw" else (lambda each: each.cut_off)
            )
            found = [each.name for each in alive if is_about(each)]
            return (name, rng.choice(found)) if found else None
        if name in ("metadata away", "metadata back"):
            is_away = self._world.disks.is_metadata_away
            return (name,) if is_away == (name == "metadata back") else None
        if name in CLOCK_JUMPS:
            return self._clock_jump(name, rng)
        return self._to_broker(name, rng)

    def _clock_jump(self, name: str, rng: random.Random) -> Event | None:
        kind = CLOCK_JUMPS[name]
        nodes = [each.name for each in self._nodes() if each.name.startswith(kind)]
        if not nodes:
            return None
        jumps = [-60_000, -500, 500, 60_000]
        if name == "clock far ahead":
            jumps = [2 * HOUR_MS, 100 * 24 * HOUR_MS, 3650 * 24 * HOUR_MS]
        return (name, rng.choice(nodes), str(rng.choice(jumps)))

    def _to_broker(self, name: str, rng: random.Random) -> Event | None:
        broker = self._to_restore() if name == "restore" else self._broker(rng)
        if name == "roll back":
            broker = self._down(rng)
        if broker is None:
            return None
        if name == "root clock jump":
            return (name, str(broker), str(rng.choice([-60_000, 0, 500, 60_000])))
        if name == "forge":
            return (name, str(broker), rng.choice(WAYS))
        if name in ("roll back", "roll back live", "burst"):
            return (name, str(broker), str(rng.randint(1, 4)))
        return (name, str(broker))

    def _cut(self, name: str, rng: random.Random) -> Event | None:
        """Return a client that loses sight of a root which others reach, or that sleeps through
        the return of one that is away."""
        clients = [
            each.name for each in self._nodes() if each.is_alive and each.name.startswith("client")
        ]
        brokers = [self._broker(rng)]
        if name == "nap":
            roots = self._world.disks.roots.values()
            brokers = [each.broker_id for each in roots if not each.can_read]
        if not clients or not brokers:
            return None
        calls = [str(rng.randint(20, 60))] if name == "nap" else []
        return (name, rng.choice(clients), str(rng.choice(brokers)), *calls)

    def _down(self, rng: random.Random) -> int | None:
        """Return a broker that is fenced and whose root is away, if there is one."""
        brokers = self._ledger.image.brokers
        down = [each for each in brokers if self._is_down(each)]
        return rng.choice(down) if down else None

    def _to_restore(self) -> int | None:
        """Return a broker on whose disk a lost replica waits to be taken back."""
        for root in self._world.disks.roots.values():
            if any(self._is_lost(root, place) for place, _ in root.rotten):
                return root.broker_id
        return None

    def _is_down(self, broker_id: BrokerId) -> bool:
        is_fenced = not self._ledger.image.brokers[broker_id].is_online
        return is_fenced and not self._world.disks.root_of(broker_id).can_write

    def _broker(self, rng: random.Random) -> int:
        """Return whom it meets: a leader, more often than not."""
        leaders = [each.leader for _, each in self._ledger.image.partitions() if each.leader]
        if leaders and rng.random() < 0.6:
            return rng.choice(leaders)
        return rng.randint(1, self._plan.brokers)

    def _node_at_work(self, names: list[str], rng: random.Random) -> str:
        """Return whom it meets: one that is about to commit, more often than not."""
        commits = ("commit", "metadata append")
        tasks = self._world.scheduler.tasks.values()
        busy = [each.node.name for each in tasks if each.operation in commits]
        chosen = [each for each in busy if each in names]
        return rng.choice(chosen if chosen and rng.random() < 0.6 else names)

    def _is_lost(self, root: Root, place: str) -> bool:
        """Return whether the table there was called lost, and may be taken back."""
        key, replica_uuid = replica_at(place)
        partition, broker_id = self._ledger.image.partition(key), root.broker_id
        if partition is None or broker_id not in partition.replicas:
            return False
        if partition.former_of(broker_id) is not None:
            return partition.former_of(broker_id) == replica_uuid
        is_lost = partition.directory_of(broker_id) == LOST
        return is_lost and partition.uuid_of(broker_id) == replica_uuid
