"""Why a fetch was refused: Kafka's error codes, by the metadata when its answer has come.

A fetch runs under the image that it was planned on. It may have been refused because the metadata
has moved on since. Apart from the fetch, which sees no image.
"""

from kafka_on_spark.controller.partitions.reports import ReplicaReport
from kafka_on_spark.errors import NO_ERROR, ProtocolError, UnknownTopicIdError
from kafka_on_spark.log.leadership import check_request
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder, FetchResult


def check_order(image: MetadataImage, order: FetchOrder) -> None:
    """Check a fetch that was planned earlier against `image`, as its leader's broker would.

    Raises:
        UnknownTopicIdError: The topic was deleted.
        UnknownTopicOrPartitionError: The partition is gone, or the leader's replica of it.
        FencedLeaderEpochError: A later leadership has begun.
        UnknownLeaderEpochError: The image is behind the plan, or knows no such follower.
        NotLeaderOrFollowerError: The leader has lost its leadership, and there is no other.
    """
    if order.key.topic_id not in image.topics:
        raise UnknownTopicIdError("the topic was deleted", topic_id=order.key.topic_id)
    check_request(
        image.partition(order.key),
        order.leader.broker_id,
        leader_epoch=order.partition.leader_epoch,
        only_leader=True,
        fetched_by=None if order.follower is None else order.follower.broker_id,
    )


def refusals(result: FetchResult) -> list[ReplicaReport]:
    """Return the replicas that refused, the leader's first."""
    reports = (result.report.leader, *result.report.followers)
    return [each for each in reports if each.error_code != NO_ERROR]


def refusal_of(
    image: MetadataImage, order: FetchOrder, refused: ReplicaReport
) -> tuple[int, str | None]:
    """Return why a replica refused, as code and words.

    A bad replica is bad under any leadership. Otherwise, if the metadata says that the fetch asked
    the wrong replica, that is the reason, whatever the fetch met there.
    """
    if not refused.is_bad:
        try:
            check_order(image, order)
        except ProtocolError as error:
            return error.code, str(error)
    return refused.error_code, refused.error


def refusal_code(image: MetadataImage, order: FetchOrder, result: FetchResult) -> int:
    """Return the code of a fetch's first refusal, or NO_ERROR."""
    refused = refusals(result)
    return refusal_of(image, order, refused[0])[0] if refused else NO_ERROR
