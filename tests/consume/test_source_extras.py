"""Groups, lag, and offsets for times: each without Spark."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.consume.query_batch import StreamOffset, save_group
from kafka_on_spark.groups.offsets import describe_group, groups_of
from kafka_on_spark.log.reading import look_up_offset
from kafka_on_spark.metadata.image import GroupOffset
from kafka_on_spark.spark.query_lag import LagListener, lag
from tests.builders import KEY, by_name, image_of, image_of_topics, log, partition

# Groups

TWO = {"a": [partition("1", hw=9, hw_epoch=4), partition("1", hw=5, start=3, hw_epoch=2)]}


def committed(image, group, positions):
    offset = StreamOffset.in_image(image, by_name(positions))
    return [
        (each.group, each.partition, each.offset, each.leader_epoch)
        for each in save_group(image, group, offset, now_ms=0).records
    ]


def test_a_group_commits_nothing_for_what_is_gone_or_another_topics():
    before = StreamOffset.in_image(
        image_of_topics({**TWO, "b": TWO["a"]}), by_name({"a": {1: 4}, "b": {0: 1}})
    )
    shrunk = image_of_topics({"a": TWO["a"][:1]})
    another = image_of_topics(TWO, ids={"a": "another"})

    assert save_group(shrunk, "g", before, now_ms=0).records == []
    assert save_group(another, "g", before, now_ms=0).records == []


def test_a_groups_lag_is_what_it_has_not_processed_of_what_there_is():
    offsets = {("g", 0): 7, ("g", 1): 1, ("h", 0): 9}
    image = image_of_topics(
        TWO,
        group_offsets={
            (group, PartitionKey("id of a", number)): GroupOffset(offset=offset, leader_epoch=None)
            for (group, number), offset in offsets.items()
        },
    )

    found = [(str(each.name), each.offset, each.lag) for each in describe_group(image, "g")]

    assert found == [("a-0", 7, 2), ("a-1", 1, 2)]
    assert [each.lag for each in describe_group(image, "h")] == [0]
    assert describe_group(image, "nobody") == []
    assert groups_of(image) == ["g", "h"]


# Lag

CUT = {
    "$cut": {
        "cluster_id": "c",
        "metadata_offset": 1,
        "topic_ids": {},
        "unclean_generations": {},
        "version": 1,
    }
}


def progress(*sources):
    return {"sources": [{"endOffset": end, "latestOffset": latest} for end, latest in sources]}


def test_lag_is_kafkas_three_figures():
    end = {**CUT, "a": {"0": 5, "1": 0}}
    latest = {**CUT, "a": {"0": 9, "1": 0}, "b": {"0": 1}}

    assert lag(progress((end, latest))) == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "4",
        "avgOffsetsBehindLatest": str(5 / 3),
    }


def test_lag_is_read_from_a_progress_over_all_sources_of_ours():
    ours = ({**CUT, "a": {"0": 5}}, {**CUT, "a": {"0": 9}})
    kafkas = ({"a": {"0": 0}}, {"a": {"0": 99}})

    assert lag(progress(ours, kafkas, ("7", None)))["maxOffsetsBehindLatest"] == "4"
    assert lag(progress(ours, ours))["avgOffsetsBehindLatest"] == "4.0"
    assert lag(progress(kafkas)) == lag(progress((None, None))) == lag(None) == {}


def test_a_listener_reports_queries_that_read_ours_only():
    seen = []
    listener = LagListener(lambda progress, figures: seen.append(figures))

    class Event:
        def __init__(self, *sources):
            self.progress = progress(*sources)

    listener.onQueryProgress(Event(({**CUT, "a": {"0": 5}}, {**CUT, "a": {"0": 5}})))
    listener.onQueryProgress(Event(({"a": {"0": 5}}, {"a": {"0": 5}})))

    assert [each["maxOffsetsBehindLatest"] for each in seen] == ["0"]


# Times


class Replicas:
    """Replicas by broker; one that is an error fails to load."""

    def __init__(self, **by_broker):
        self._by_broker = by_broker

    def open(self, address):
        state = self._by_broker[f"b{address.broker_id}"]

        class Opened:
            def load(self):
                if isinstance(state, Exception):
                    raise state
                return state

        return Opened()


AWAY = KafkaStorageError("the root is away")


def timed(text, *seconds, start=0):
    """Return a log whose records are of these seconds: a batch a record."""
    state = log(text, start=start)
    batches = tuple(
        replace(
            batch,
            segments=(
                replace(batch.segments[0], timestamp_min_us=s * 10**6, timestamp_max_us=s * 10**6),
            ),
        )
        for batch, s in zip(state.batches, seconds, strict=True)
    )
    return replace(state, batches=batches)


def never_read(address, segment):
    raise AssertionError("a segment of one timestamp need not be read")


def found(registration, second, **by_broker):
    image = image_of(registration)
    return looked_up(image, image, second, Replicas(**by_broker))


def looked_up(now, then, second, replicas, read=never_read):
    found = look_up_offset(now, then, KEY, second * 10**6, replicas=replicas, read_timestamps=read)
    return None if found is None else found.offset


FOUR = "0:abcd"
# fmt: off
TIMES = [  # hw, start, second asked for, offset
    (4, 0, 1,  0),
    (4, 0, 11, 1),
    (4, 0, 20, 1),
    (4, 0, 21, 3),      # times need not rise: the first by offset
    (4, 0, 31, None),
    (3, 0, 21, None),   # the record is there, and not committed
    (4, 2, 1,  2),      # deleted records are none
    (4, 4, 1,  None),
    (0, 0, 1,  None),
]
# fmt: on


@pytest.mark.parametrize("hw, start, second, expected", TIMES)
def test_the_first_committed_record_that_is_not_older_is_found(hw, start, second, expected):
    chain = log(FOUR).chain_at(Offset(hw))
    registration = partition("1", hw=hw, start=start, hw_epoch=0 if hw else None, hw_chain=chain)

    assert found(registration, second, b1=timed(FOUR, 10, 20, 15, 30)) == expected


def test_another_replica_answers_for_one_that_is_away_or_lacks_records():
    registration = partition("1 2 3", hw=4, hw_epoch=0, hw_chain=log(FOUR).chain_digest)
    complete = timed(FOUR, 10, 20, 15, 30)

    assert found(registration, 11, b1=AWAY, b2=timed("0:ab", 10, 20), b3=complete) == 1
    with pytest.raises(KafkaStorageError) as caught:
        found(registration, 11, b1=AWAY, b2=timed("0:ab", 10, 20), b3=AWAY)

    for words in (
        "orders-0 for timestamp 11000 can't be read",
        "broker 1: the root is away",
        "broker 2: the log does not have all committed records",
    ):
        assert words in str(caught.value)
