"""How long brokers have been away, as one process has seen it on its own clock."""

from kafka_on_spark.ids import BrokerId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports import Clock


class Absences:
    """Kept by a process from one controllership to the next; forgotten with it.

    A new process counts anew, so that what waits for a time waits longer and never shorter.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ms: dict[BrokerId, int] = {}

    def away_ms(self, image: MetadataImage) -> dict[BrokerId, int]:
        """Return the fenced brokers, and for how many ms they have been seen to be."""
        now_ms = self._clock.monotonic_ms()
        fenced = [each for each, broker in image.brokers.items() if not broker.is_online]
        self._since_ms = {each: self._since_ms.get(each, now_ms) for each in fenced}
        return {each: now_ms - since_ms for each, since_ms in self._since_ms.items()}
