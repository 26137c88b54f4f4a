"""What a program is: a loop of one process, until it is told to end.

It waits a moment after an error and goes on, as a job that is started again does.
"""

from dataclasses import dataclass

from kafka_on_spark.base.errors import InconsistentClusterError, KafkaOnSparkError
from tests.simulation.checks.checker import Checker
from tests.simulation.world.processes import Driver
from tests.simulation.world.scheduler import Violation


@dataclass(slots=True)
class Stop:
    """Whether programs are to end after what they are at."""

    is_on: bool = False


class Program:
    def __init__(self, driver: Driver, checker: Checker, stop: Stop) -> None:
        self.driver = driver
        self.checker = checker
        self.rng = driver.node.rng
        self._stop = stop

    def run(self) -> None:
        """Work until told to stop."""
        while not self._stop.is_on:
            try:
                self.once()
            except InconsistentClusterError as error:
                raise Violation("a table is ahead of the metadata", str(error)) from error
            except KafkaOnSparkError:
                self.failed()
            self.driver.clock.sleep_ms(self.pause_ms())

    def pause_ms(self) -> float:
        """Return how long to wait between two things."""
        return 5 + self.rng.random() * 200

    def once(self) -> None:
        raise NotImplementedError

    def failed(self) -> None:
        """Do what follows an error."""
