"""Decisions on topics, and how tests submit them."""

from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.metadata.records import TopicRecord


def create_topic(name, *, before_commit=lambda: None):
    def decide(image):
        before_commit()
        if name in image.topic_ids:
            return ControllerResult([], "already exists")
        return ControllerResult([TopicRecord(topic=name, topic_id=f"id of {name}")], "created")

    return decide


def submit(service, decide, *, timeout_ms=1000, **fields):
    return service.submit(decide, timeout_ms=timeout_ms, **fields)
