"""Where a simulated driver's tasks run: in workers that outlive it."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.simulation.world.scheduler import KilledError, Node
from tests.simulation.world.world import World


class Executors:
    """Tasks run in workers that outlive their driver, and may run twice.

    `again` says of a task whether a speculative twin is started with it. A task whose worker
    was killed is started again elsewhere, as Spark does.
    """

    application_id = "simulated"
    are_local = True

    def __init__(
        self,
        world: World,
        driver: Node,
        pick_worker: Callable[[], Any],
        *,
        twin_chance: float,
    ) -> None:
        self._world = world
        self._driver = driver
        self._pick_worker = pick_worker
        self._twin_chance = twin_chance

    def run(self, task: Callable[[Any, Any], Any], orders: Sequence[Any]) -> list[Any]:
        """Return one result an order."""
        scheduler = self._world.scheduler
        results: list[Any] = [None] * len(orders)
        waiting = dict(enumerate(orders))
        while waiting:
            attempts = {place: self._start(task, order) for place, order in waiting.items()}
            scheduler.wait_for(list(attempts.values()))
            for place, attempt in attempts.items():
                if attempt.error is None:
                    results[place] = attempt.result
                    del waiting[place]
                elif not isinstance(attempt.error, KilledError):
                    raise attempt.error
        return results

    def _start(self, task: Callable[[Any, Any], Any], order: Any) -> Any:
        name = self._driver.child_name("task")
        if self._driver.rng.random() < self._twin_chance:
            twin = self._pick_worker()
            self._world.scheduler.spawn(f"{name}twin", twin.node, lambda: task(order, twin))
        worker = self._pick_worker()
        return self._world.scheduler.spawn(name, worker.node, lambda: task(order, worker))
