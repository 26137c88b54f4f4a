"""Rounds over a ring of partitions, and what they leave out: for tests of the sweep."""

from math import inf

from kafka_on_spark.base.ids import TopicId
from kafka_on_spark.controller.scheduler import AGAIN_MAX, SweepRound, begin_round
from kafka_on_spark.controller.scheduler import ring_of as ring_of_image
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from tests.builders import partition, partition_map

INTERVAL_MS = 600_000
A_PARTITION = partition("1 2 3")


def image_with(**counts):
    """Return an image of topics by id, each with so many partitions."""
    topics = {
        TopicId(topic_id): TopicImage(
            name=f"named-{topic_id}",
            topic_id=TopicId(topic_id),
            partitions=partition_map(dict.fromkeys(range(count), A_PARTITION)),
        )
        for topic_id, count in counts.items()
    }
    return MetadataImage(topics=topics)


def ring_of(**counts):
    return ring_of_image(image_with(**counts))


class Rounds:
    """Rounds over a ring, and when each partition was inspected last."""

    def __init__(self, ring, *, inspection_ms=None, share=1.0, random_below=lambda below: 0):
        self.ring = ring
        self.position = None
        self.inspected_ms = {}
        self.inspection_ms = inspection_ms
        self.share = share
        self.random_below = random_below

    def run(self, now_ms, *, failed=(), count_max=None):
        """Do a round; return what it inspected."""
        position = begin_round(
            self.ring,
            self.position,
            now_ms=now_ms,
            interval_ms=INTERVAL_MS,
            random_below=self.random_below,
        )
        sweep_round = SweepRound(self.ring, position, inf, is_all=False)
        sweep_round._inspection_ms = 0  # there is time for all that are owed
        again = position.again[:AGAIN_MAX]
        keys = sweep_round.next_keys()[len(again) :][:count_max]
        sweep_round.record_inspected([*again, *keys], failed=failed, took_ms=0)
        self.position = sweep_round.position
        for key in (*again, *keys):
            if key not in failed:
                self.inspected_ms[key] = now_ms
        return keys

    def late(self, now_ms):
        """Return the partitions that were not inspected within the interval."""
        return {
            key
            for key in self.ring
            if now_ms - self.inspected_ms.get(key, -INTERVAL_MS) >= INTERVAL_MS
        }

    def not_inspected_count(self):
        return min(int(self.position.owed + 1e-6) + len(self.position.again), len(self.ring))
