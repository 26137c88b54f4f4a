"""How many records a second are committed, by partition, between two images."""

from collections import deque
from typing import Final

from kafka_on_spark.metadata.image import MetadataImage

Rates = dict[str, list[tuple[int, float]]]
"""Partitions and their records a second, by topic; those without any are left out."""

WINDOW_MS: Final = 10_000
SAMPLE_MS: Final = 1000


def rates_between(before: MetadataImage, after: MetadataImage, seconds: float) -> Rates:
    """Return the rates over the `seconds` from one image to the other."""
    found: Rates = {}
    for topic_id, topic in after.topics.items():
        earlier = before.topics.get(topic_id)
        if earlier is None or earlier.partitions is topic.partitions:
            continue
        rates = []
        for number, partition in topic.partitions.items():
            was = earlier.partitions.get(number)
            if was is None or was is partition or partition.high_watermark <= was.high_watermark:
                continue
            count = partition.high_watermark - was.high_watermark
            rates.append((number, round(count / seconds, 1)))
        if rates:
            found[topic.name] = rates
    return found


class RateWindow:
    """The images of the last seconds, one a second."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, MetadataImage]] = deque()

    def take(self, now_ms: int, image: MetadataImage) -> None:
        """Take the newest image; `now_ms` is of a monotonic clock."""
        if not self._samples or now_ms - self._samples[-1][0] >= SAMPLE_MS:
            self._samples.append((now_ms, image))
        while len(self._samples) > 1 and now_ms - self._samples[1][0] >= WINDOW_MS:
            self._samples.popleft()

    def rates(self, now_ms: int, image: MetadataImage) -> Rates:
        """Return the rates up to now; none before a second is over."""
        if not self._samples:
            return {}
        at_ms, before = self._samples[0]
        elapsed_ms = now_ms - at_ms
        return rates_between(before, image, elapsed_ms / 1000) if elapsed_ms >= SAMPLE_MS else {}
