"""The jobs of a simulated cluster: they replicate, do the upkeep of replicas, and control."""

from kafka_on_spark.metadata.image import MetadataImage
from tests.simulation.checks.ledger import require
from tests.simulation.programs.program import Program
from tests.simulation.world.world import World


class Replicator(Program):
    """Does rounds of replication, now and then as a job of cron does them."""

    def once(self) -> None:
        if self.rng.random() < 0.3:
            self.driver.begin_sweep()
        image = self.driver.metadata.catch_up()
        round_ = RoundSeen(self.driver.world, image)
        report = self.driver.replication_round().run(is_sweep=self.rng.random() < 0.1)
        if report.is_caught_up:
            round_.check()
        self.driver.upkeep.run_share()
        self.driver.metadata.maintain()


class Tidier(Program):
    """Does all upkeep of replicas that is due, and comes again."""

    def once(self) -> None:
        self.driver.upkeep.run_all()

    def pause_ms(self) -> float:
        return 5 + self.rng.random() * 50


class RoundSeen:
    """What a round may say, by when replicas were really inspected."""

    def __init__(self, world: World, image: MetadataImage) -> None:
        self._world = world
        self._began_ms = world.scheduler.now_ms
        self._before = image
        for key, partition in image.partitions():
            for broker_id in filter(partition.is_created, partition.replicas):
                world.inspected_at_ms.setdefault((key, broker_id), self._began_ms)

    def check(self) -> None:
        """I24: what is reported as caught up was inspected within the interval.

        What was not there when the round began or is gone now, or where nothing was ever appended
        (its leader's table is not made), is of no concern; nor are clocks that say different times,
        by which nobody can tell.
        """
        if not self._world.are_clocks_right:
            return
        interval_ms = self._before.settings().integer("replica.sweep.interval.ms")
        for key, partition in self._before.partitions():
            now = self._world.disks.image.partition(key)  # the driver may have slept since
            if now is None or now.replica_uuids != partition.replica_uuids:
                continue
            if partition.leader is None or not partition.is_created(partition.leader):
                continue
            for broker_id in partition.replicas:
                if not partition.is_created(broker_id):
                    continue
                inspected_at_ms = self._world.inspected_at_ms[key, broker_id]
                require(
                    inspected_at_ms >= self._began_ms - interval_ms,
                    "I24 inspected in time",
                    f"{key.partition} on {broker_id} was inspected at {inspected_at_ms}, the round"
                    f" began at {self._began_ms}, the interval is {interval_ms}",
                )


class Controller(Program):
    """Takes the controllership again and again."""

    def once(self) -> None:
        duration_ms = self.rng.choice([None, 2_000, 8_000])
        self.driver.controller_loop().run(duration_ms)
