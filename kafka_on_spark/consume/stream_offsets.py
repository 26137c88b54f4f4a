"""A query's offset: one consistent cut over all partitions that it reads.

As JSON it is Kafka's, ``{"flights": {"0": 23}}``, with one more key, which no topic can have:
``"$cut"`` has the cluster, the metadata offset, the topic ids and the unclean generations. So a
query notices that a topic or partition was removed and made again, or that an election was unclean.
Keys are sorted: Spark compares offsets as JSON texts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.metadata.image import MetadataImage, TopicImage

CUT: Final = "$cut"
CUT_VERSION: Final = 1
"""Format version of the cut's JSON."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The state of the cluster that a query's positions belong to.

    Attributes:
        cluster_id: The cluster.
        metadata_offset: The offset of the image that the cut was taken from.
        topic_ids: By topic name.
        unclean_generations: By topic name and partition; only those above 0.
    """

    cluster_id: str | None
    metadata_offset: int
    topic_ids: Mapping[str, str]
    unclean_generations: Mapping[str, Mapping[int, int]]

    def to_json(self) -> Json:
        """Return the cut as it is stored, keys sorted."""
        return {
            "cluster_id": self.cluster_id,
            "metadata_offset": self.metadata_offset,
            "topic_ids": dict(sorted(self.topic_ids.items())),
            "unclean_generations": _texts(self.unclean_generations),
            "version": CUT_VERSION,
        }

    @classmethod
    def from_json(cls, cut: Mapping[str, Any] | None) -> "Cut | None":
        """Return the cut that `to_json` wrote, or None for plain Kafka JSON.

        Raises:
            InvalidRequestError: It is not a cut, or its version is newer.
        """
        if cut is None:
            return None
        try:
            version = int(cut["version"])
            if version > CUT_VERSION:
                raise InvalidRequestError(
                    f"the offset has format version {version}, this kafka_on_spark reads up to"
                    f" {CUT_VERSION}: use a newer kafka_on_spark"
                )
            return cls(
                cluster_id=cut["cluster_id"],
                metadata_offset=int(cut["metadata_offset"]),
                topic_ids=dict(cut["topic_ids"]),
                unclean_generations=_numbers(cut["unclean_generations"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InvalidRequestError(
                f"the {CUT!r} of an offset is not of this source: {cut!r:.200}; leave it out, or"
                " give it as a query has stored it"
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """Next offset to read, by topic and partition.

    Attributes:
        positions: By topic name and partition.
        cut: What they belong to; None in plain Kafka JSON.
    """

    positions: Mapping[str, Mapping[int, int]]
    cut: Cut | None = None

    def to_json(self) -> Json:
        """Return the offset as Spark stores it, keys sorted."""
        cut = {} if self.cut is None else {CUT: self.cut.to_json()}
        return {**cut, **_texts(self.positions)}

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> "StreamOffset":
        """Return the offset that `to_json` wrote, or plain Kafka JSON.

        Raises:
            InvalidRequestError: It is neither, or its version is newer.
        """
        try:
            positions = _numbers({name: offset[name] for name in offset if name != CUT})
        except (AttributeError, TypeError, ValueError):
            raise InvalidRequestError(
                f"a stored offset is not of this source: {offset!r:.100}; expected e.g."
                ' {"topicA": {"0": 23}}'
            ) from None
        return cls(positions=positions, cut=Cut.from_json(offset.get(CUT)))

    @classmethod
    def in_image(
        cls, image: MetadataImage, positions: Mapping[str, Mapping[int, int]]
    ) -> "StreamOffset":
        """Return `positions` with the cut of `image`."""
        topics = {name: image.topic(name) for name in positions}
        generations = {name: _generations(topic) for name, topic in topics.items()}
        cut = Cut(
            cluster_id=image.cluster_id,
            metadata_offset=image.offset,
            topic_ids={name: topic.topic_id for name, topic in topics.items()},
            unclean_generations={name: each for name, each in generations.items() if each},
        )
        return cls(positions=positions, cut=cut)


def _texts(numbers: Mapping[str, Mapping[int, int]]) -> Json:
    return {
        topic: {str(number): numbers[topic][number] for number in sorted(numbers[topic])}
        for topic in sorted(numbers)
    }


def _numbers(texts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    return {
        topic: {int(number): int(offset) for number, offset in partitions.items()}
        for topic, partitions in texts.items()
    }


def _generations(topic: TopicImage) -> dict[int, int]:
    return {
        number: partition.unclean_generation
        for number, partition in topic.partitions.items()
        if partition.unclean_generation
    }
