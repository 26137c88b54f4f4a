"""What a consumer refuses: another thread, wrong wishes, partitions that it has not, its end."""

import threading

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import (
    ClusterClosedError,
    ConsumerClosedError,
    InvalidGroupIdError,
    InvalidRequestError,
    UnknownTopicOrPartitionError,
    WakeupError,
)
from kafka_on_spark.consume.consuming import Consuming


def test_another_thread_wakes_it_and_may_do_no_more(cluster, topic, monkeypatch):
    refused = []
    has_begun = threading.Event()
    next_rows = Consuming.next_rows

    def noted(consuming, *arguments):
        has_begun.set()
        return next_rows(consuming, *arguments)

    def disturb():
        has_begun.wait()
        try:
            consumer.position((topic, 0))
        except InvalidRequestError as error:
            refused.append(str(error))
        consumer.wakeup()

    monkeypatch.setattr(Consuming, "next_rows", noted)
    with cluster.consumer(topic) as consumer:
        other = threading.Thread(target=disturb, daemon=True)
        other.start()
        with pytest.raises(WakeupError):
            consumer.poll(None)
        other.join()
        assert consumer.poll(0).num_rows == 0

    assert len(refused) == 1
    assert "one thread at a time" in refused[0]


# fmt: off
WRONG = {
    "no such topic":     (lambda cluster: cluster.consumer("nothing"), UnknownTopicOrPartitionError, "there is no topic 'nothing'"),
    "no such partition": (lambda cluster: cluster.consumer(partitions=[("nothing", 0)]), UnknownTopicOrPartitionError, "there is no topic"),
    "two wishes":        (lambda cluster: cluster.consumer("a", pattern="b"), InvalidRequestError, "give one of them"),
    "no topics":         (lambda cluster: cluster.consumer([]), InvalidRequestError, "name one"),
    "no partitions":     (lambda cluster: cluster.consumer(partitions=[]), InvalidRequestError, "name one"),
    "nothing to read":   (lambda cluster: cluster.consumer().poll(0), InvalidRequestError, "give it topics"),
    "empty group":       (lambda cluster: cluster.consumer(group=""), InvalidGroupIdError, "can't be empty"),
    "no UTF-8 in it":    (lambda cluster: cluster.consumer(group="\udcff"), InvalidGroupIdError, "give a text that UTF-8 has"),
    "no group":          (lambda cluster: cluster.consumer().commit(), InvalidRequestError, "give it one"),
    "no function":       (lambda cluster: cluster.consumer(on_lost=5), InvalidRequestError, "on_lost can't be 5"),
    "a bad time-out":    (lambda cluster: cluster.consumer().poll(-1), InvalidRequestError, "timeout_ms can't be -1"),
}
# fmt: on


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told(cluster, name):
    call, error, words = WRONG[name]

    with pytest.raises(error, match=words):
        call(cluster)


def test_of_partitions_that_are_not_assigned_nothing_is_known(cluster, new_topic):
    topic, other = new_topic(), new_topic()
    with cluster.consumer(topic) as consumer:
        for call in (
            lambda: consumer.position((other, 0)),
            lambda: consumer.seek((other, 0), 0),
            lambda: consumer.pause((other, 0)),
            lambda: consumer.seek((topic, 0), -1),
        ):
            with pytest.raises(InvalidRequestError, match=r"assign it first|from 0 to"):
                call()
        consumer.assign([(other, 0)])
        assert consumer.position((other, 0)) == 0


def test_a_closed_consumer_says_so(disks):
    disks.cluster.create_topic("orders")
    consumer = disks.cluster.consumer("orders", group="g")
    consumer.close()
    consumer.close()
    with pytest.raises(ConsumerClosedError, match="make another"):
        consumer.poll(0)

    other = Cluster.open(disks.metadata_root)
    late = other.consumer("orders")
    other.close()
    with pytest.raises(ClusterClosedError):
        late.poll(0)
