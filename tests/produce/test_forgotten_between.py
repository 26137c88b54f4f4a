"""A retry by an image that still has its producer's id, where the log has forgotten it meanwhile."""

import pytest

from kafka_on_spark.base.errors import KafkaStorageError, UnknownProducerIdError
from kafka_on_spark.base.ids import ProducerEpoch
from kafka_on_spark.log.producer_state import fence_producer
from kafka_on_spark.log.producers import registered_producers
from kafka_on_spark.log.replica_operations import commit_decided
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.records import ProducerRecord, RemoveProducerRecord
from kafka_on_spark.produce.placing import append_placed, place
from kafka_on_spark.produce.stages import StagedPart
from tests.builders import address, staged, stamp
from tests.controller.rounds import EPOCH
from tests.log.merging import NEWEST, Merging

ALL, BUT_ONE = 31, 32
"""Appends of a producer of which all headers are merged, or all but the last."""

RETRIED = 20
"""The sequence of an append whose header was merged."""


class Forgetting(Merging):
    """A cluster whose log has merged what `p` appended, with a process that knows `p`.

    Attributes:
        reader: The metadata of that process.
    """

    def __init__(self, count=ALL):
        super().__init__(count=1)
        self.submit([ProducerRecord(producer_id="p", producer_epoch=0)])
        self.append(0, "p", count, producer="p")
        self.append(0, "b", NEWEST)
        self.run()
        assert self.merge().count == 1
        assert [*map(stamped, self.table(1).load().batches)].count(True) == count - ALL
        self.reader = MetadataService(self.log, self.clock, random=lambda: 0.5)
        self.reader.catch_up()

    def forget(self):
        """Have the id expire, and its entry go with the next file of the log's producers."""
        self.submit([RemoveProducerRecord(producer_id="p", producer_epoch=0, cause="silent")])
        registered = registered_producers(self.metadata.image)
        after = commit_decided(
            self.table(1),
            lambda state: fence_producer(
                state, "q", ProducerEpoch(0), leader_epoch=EPOCH, registered=registered
            ),
        )
        assert "p" not in after.producers

    def placed(self, sequence):
        image, key = self.reader.image, self.keys[0]
        batch = staged("again", epoch=EPOCH, producer=stamp(sequence))
        for segment in batch.segments:
            self.segments.put(address(1, key=key), segment)
        part = StagedPart(key=key, batch=batch, holders=(address(1, key=key),))
        return place(
            image,
            part,
            image.partition(key),
            is_appended=False,
            replicas=self.replicas,
            segments=self.segments,
            clock=self.clock,
        )

    def commit(self, placed, catch_up=None):
        return append_placed(
            placed,
            catch_up=catch_up or self.reader.catch_up,
            is_appended=False,
            is_duplicate=False,
            now_ms=self.clock.now_ms(),
        )


def stamped(part):
    return part.producer is not None


def test_a_log_that_remembers_answers_a_retry_without_the_newest_metadata():
    cluster = Forgetting()
    cluster.log.is_offline = True

    assert cluster.commit(cluster.placed(ALL - 1)).is_duplicate


@pytest.mark.parametrize("count", [ALL, BUT_ONE])
def test_whether_a_retry_stands_is_not_known_where_its_id_has_expired_since_its_image(count):
    """The log knows of no earlier try, and by that image it is one to append, or that was never
    made: it stands there."""
    cluster = Forgetting(count)
    cluster.forget()
    end = cluster.end(1)

    with pytest.raises(UnknownProducerIdError):
        cluster.commit(cluster.placed(RETRIED))

    assert cluster.end(1) == end


def test_a_retry_is_refused_where_the_log_forgets_it_after_it_was_read():
    """Its commit conflicts, and is decided again on a log that knows nothing of it."""
    cluster = Forgetting()
    end = cluster.end(1)
    placed = cluster.placed(ALL)  # a new one, so that a commit is tried
    forgets = [cluster.forget]

    def catch_up():
        image = cluster.reader.catch_up()
        while forgets:
            forgets.pop()()
        return image

    with pytest.raises(UnknownProducerIdError):
        cluster.commit(placed, catch_up)

    assert cluster.end(1) == end


def test_nothing_is_appended_while_the_newest_metadata_can_not_be_read():
    cluster = Forgetting()
    end = cluster.end(1)
    placed = cluster.placed(ALL)
    cluster.log.is_offline = True

    with pytest.raises(KafkaStorageError):
        cluster.commit(placed)
    assert cluster.end(1) == end

    cluster.log.is_offline = False
    assert not cluster.commit(placed).is_duplicate


def test_a_log_that_has_all_its_headers_is_appended_to_by_the_image_at_hand():
    """It can have forgotten nobody, and each partition would cost a read of the metadata."""
    cluster = Merging(count=1)
    cluster.submit([ProducerRecord(producer_id="p", producer_epoch=0)])
    cluster.reader = cluster.metadata
    placed = Forgetting.placed(cluster, 0)
    cluster.log.is_offline = True

    assert not Forgetting.commit(cluster, placed).is_duplicate
