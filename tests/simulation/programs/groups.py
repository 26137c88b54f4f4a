"""The program of a consumer group in a simulated cluster: it says where it is, or falls silent."""

from kafka_on_spark.base.ids import PartitionKey, TopicPartition
from kafka_on_spark.consume.query_batch import StreamOffset, save_group
from tests.simulation.checks.checker import Checker
from tests.simulation.programs.cluster import TOPIC
from tests.simulation.programs.program import Program, Stop
from tests.simulation.world.processes import TIMEOUT_MS, Driver


class Member(Program):
    """The only member of a group. It mostly stands still, on a topic of which it reads nothing."""

    def __init__(self, driver: Driver, checker: Checker, stop: Stop, group: str) -> None:
        super().__init__(driver, checker, stop)
        self._group = group

    def once(self) -> None:
        began_ms = self.checker.true_now_ms()
        image = self.driver.metadata.catch_up()
        topic = image.topic(TOPIC)
        positions = {}
        for number, partition in topic.partitions.items():
            known = image.group_offsets.get((self._group, PartitionKey(topic.topic_id, number)))
            positions[TopicPartition(TOPIC, number)] = int(partition.high_watermark)
            if known is not None and self.rng.random() < 0.9:
                positions[TopicPartition(TOPIC, number)] = int(known.offset)
        position = StreamOffset.in_image(image, positions)
        self.driver.metadata.submit(
            lambda newest: save_group(newest, self._group, position, self.driver.clock.now_ms()),
            timeout_ms=TIMEOUT_MS,
        )
        self.checker.ledger.alive_at_ms[self._group] = began_ms

    def pause_ms(self) -> float:
        silent_ms = self.driver.world.silent_ms or 0
        if self.rng.random() < 0.1:
            return self.rng.random() * silent_ms
        return 5 + self.rng.random() * 50
