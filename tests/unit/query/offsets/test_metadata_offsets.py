"""Where a query of the metadata log stands, and whether it may go on from there."""

import json
from dataclasses import replace

import pytest

from kafka_on_spark.errors import (
    InconsistentClusterError,
    InconsistentClusterIdError,
    InvalidRequestError,
)
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.offsets.lag import lag_metrics
from kafka_on_spark.query.offsets.metadata_offsets import (
    MetadataOffset,
    bounded_end,
    check_goes_on,
    ending_offset,
    starting_offset,
)
from kafka_on_spark.query.offsets.positions import EARLIEST, LATEST
from kafka_on_spark.query.offsets.stream_offsets import StreamOffset
from kafka_on_spark.raft.log.raft_log import BatchKind, RaftBatch, RaftLog
from tests.bad_input.refusals import check_sentence

ENDS = [(2, 1), (3, 2), (7, 2), (8, 2), (10, 4)]  # of decisions, with their epochs
IMAGE = MetadataImage(cluster_id="c", offset=Offset(10))


def log(*ends, runs=0):
    """Return a log of decisions that end there, in these epochs; the first ones stand as runs."""
    batches, base = [], 0
    for number, (end, epoch) in enumerate(ends):
        kind = BatchKind.RUN if number < runs else BatchKind.DECISION
        batches.append(RaftBatch(base, end, epoch, f"w{end}", kind))
        base = end
    return RaftLog(tuple(batches))


LOG = log(*ENDS)
MERGED = log((2, 1), (8, 2), (10, 4), runs=2)


def place(offset, read=LOG):
    return MetadataOffset.at(offset, IMAGE, read)


@pytest.mark.parametrize("offset", range(11))
def test_a_query_goes_on_from_where_it_stood_also_once_the_log_is_merged(offset):
    stored = MetadataOffset.from_json(json.loads(json.dumps(place(offset).to_json())))

    check_goes_on(stored, IMAGE, LOG)
    check_goes_on(stored, IMAGE, MERGED)
    check_goes_on(place(offset, MERGED), IMAGE, LOG)


# fmt: off
GONE = [
    pytest.param({"offset": 11},       InconsistentClusterError,   "is committed up to 10 and this query has read up to 11",   id="the log ends before"),
    pytest.param({"write_id": "x"},    InconsistentClusterError,   "has another decision before 10",                           id="another write"),
    pytest.param({"epoch": 3},         InconsistentClusterError,   "has another decision before 10",                           id="another epoch"),
    pytest.param({"generation": 1},    InconsistentClusterError,   "in generation 0 and this query has read 10 records",       id="roots of before"),
    pytest.param({"cluster_id": "d"},  InconsistentClusterIdError, "is of the metadata log of cluster d, not of c",            id="another cluster"),
]
# fmt: on


@pytest.mark.parametrize("changes, error, sentence", GONE)
def test_a_query_whose_past_is_gone_ends(changes, error, sentence):
    with pytest.raises(error) as caught:
        check_goes_on(replace(place(10), **changes), IMAGE, LOG)

    check_sentence(str(caught.value), sentence, "new checkpoint")


def test_a_query_ends_once_the_cluster_was_forced_though_it_has_lost_nothing():
    """It can't know what the lost voters had; nor does it tell what comes of a force as if all were
    as before."""
    with pytest.raises(InconsistentClusterError) as caught:
        check_goes_on(place(8), replace(IMAGE, generation=1), LOG)

    check_sentence(str(caught.value), "the metadata quorum was forced", "new checkpoint")


def test_a_border_that_is_none_any_more_is_another_log():
    other = log((2, 1), (3, 2), (8, 2), (10, 4))

    with pytest.raises(InconsistentClusterError, match="another decision before 7"):
        check_goes_on(place(7), IMAGE, other)


# fmt: off
FOREIGN = [
    pytest.param({"orders": {"0": 23}},                                 "is not of the metadata log", id="a topic's"),
    pytest.param({**place(3).to_json(), "version": 2},                  "use a newer kafka_on_spark", id="a newer version's"),
    pytest.param({**place(3).to_json(), "epoch": None},                 "is not of the metadata log", id="without an epoch"),
    pytest.param({},                                                    "is not of the metadata log", id="nothing"),
]
# fmt: on


@pytest.mark.parametrize("stored, sentence", FOREIGN)
def test_an_offset_of_another_source_is_refused(stored, sentence):
    with pytest.raises(InvalidRequestError) as caught:
        MetadataOffset.from_json(stored)

    check_sentence(str(caught.value), sentence)


def test_a_query_of_topics_refuses_an_offset_of_the_metadata():
    with pytest.raises(InvalidRequestError, match="a stored offset is not of this source"):
        StreamOffset.from_json(place(3).to_json())


def test_a_read_begins_and_ends_where_it_is_told_and_not_behind_the_log():
    assert [starting_offset(each, 10) for each in (EARLIEST, LATEST, 4, 10)] == [0, 10, 4, 10]
    assert [ending_offset(each, 4, 10) for each in (LATEST, 6, 2)] == [10, 6, 4]
    with pytest.raises(InvalidRequestError, match=r"'startingOffsets' can't be 11: .* up to 10"):
        starting_offset(11, 10)
    with pytest.raises(InvalidRequestError, match=r"'endingOffsets' can't be 11: .* up to 10"):
        ending_offset(11, 0, 10)


def decision_at(offset):
    return next(
        (each.base_offset, each.end_offset) for each in LOG.batches if each.end_offset > offset
    )


@pytest.mark.parametrize("records_max", range(1, 12))
def test_a_bound_splits_no_decision_and_each_batch_has_one(records_max):
    borders = [end for end, _ in ENDS]
    start, taken = 0, []
    while start < 10:
        end = bounded_end(start, 10, records_max, decision_at)
        taken.append((start, end))
        assert end in borders
        # More than the bound only where one decision has more.
        assert end - start <= records_max or not [each for each in borders if start < each < end]
        start = end

    assert len(taken) >= min(len(ENDS), -(-10 // max(records_max, 4)))


def test_a_bound_within_a_decision_goes_on_to_its_end():
    """A query may begin there."""
    assert bounded_end(4, 10, 1, decision_at) == 7
    assert bounded_end(4, 6, 1, decision_at) == 6
    assert bounded_end(4, 10, None, decision_at) == 10


def test_lag_is_told_of_a_query_of_the_metadata():
    assert lag_metrics([(place(3).to_json(), place(10).to_json())])["maxOffsetsBehindLatest"] == "7"
