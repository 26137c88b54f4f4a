"""What is counted of appends: bytes by topic, parts that failed, and how long an append took."""

from collections.abc import Sequence
from typing import Final

from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports.counting import BYTES_IN, FAILED_APPENDS, REQUEST_MS, Recorder
from kafka_on_spark.service.append.stages import (
    AnsweredPart,
    StagedPart,
    UnacknowledgedPart,
)

PRODUCE: Final = "Produce"
"""The request of an append, in Kafka's words: from staged records to the answer."""


def count_appends(
    recorder: Recorder,
    image: MetadataImage,
    parts: Sequence[StagedPart],
    answers: Sequence[AnsweredPart],
    began_ms: float,
) -> None:
    """Count an append that has been answered, part by part."""
    recorder.observe(REQUEST_MS, recorder.now_ms() - began_ms, request=PRODUCE)
    for part, answer in zip(parts, answers, strict=True):
        topic = image.topics.get(part.key.topic_id)
        name = "" if topic is None else topic.name
        if isinstance(answer, UnacknowledgedPart):
            recorder.count(FAILED_APPENDS, topic=name)
            continue
        recorder.count(FAILED_APPENDS, 0, topic=name)  # so that the first failure is a rise
        if not answer.is_duplicate:
            size_bytes = sum(segment.size_bytes for segment in part.batch.segments)
            recorder.count(BYTES_IN, size_bytes, topic=name)
