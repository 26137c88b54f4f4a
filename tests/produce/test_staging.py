"""Records into staged segments: how they are split, digested, bounded and written."""

from dataclasses import replace
from itertools import groupby, pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from kafka_on_spark.base.errors import (
    InvalidRecordError,
    KafkaStorageError,
    MessageTooLargeError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch
from kafka_on_spark.log.hashing import partitions_of_keys, record_digests, sum_digests
from kafka_on_spark.log.segments import RECORD_SCHEMA, digest_of, read_segment
from kafka_on_spark.produce import staging
from kafka_on_spark.produce.records import INPUT_SCHEMA
from kafka_on_spark.produce.staging import (
    PartitionTarget,
    StageOrder,
    check_records,
    choose_partitions,
    stage_records,
)
from kafka_on_spark.store.new_roots import prepare_root
from kafka_on_spark.store.roots import StorageOptions
from tests.builders import KEY, address

OPTIONS = StorageOptions()
NOW_US = 1_700_000_000_000_000


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    found = {}
    for number in (1, 2):
        root = str(tmp_path_factory.mktemp("root") / str(number))
        found[number] = (root, prepare_root(root, "c", BrokerId(number), OPTIONS).directory_id)
    return found


@pytest.fixture
def order(roots, request):
    """Return a function that makes an order for so many partitions, in folders of this test."""

    def make(partition_count=3, *, leaderless=(), **fields):
        targets = tuple(
            PartitionTarget(
                has_leader=number not in leaderless,
                leader_epoch=LeaderEpoch(4),
                replicas=tuple(
                    address(
                        broker_id,
                        root=root,
                        topic=f"t{abs(hash(request.node.name))}",
                        key=KEY._replace(partition=number),
                        directory_id=directory_id,
                    )
                    for broker_id, (root, directory_id) in roots.items()
                ),
            )
            for number in range(partition_count)
        )
        given = {
            "has_producer": False, "now_us": NOW_US,
            "record_bytes_max": 10_000, "segment_bytes_max": 10**9,
        }  # fmt: skip
        return StageOrder(targets=targets, **(given | fields))

    return make


def batch(*rows):
    blank = {"timestamp": 1, "key": None, "value": b"v", "headers": None, "partition": None}
    return pa.RecordBatch.from_pylist([blank | row for row in rows], INPUT_SCHEMA)


def keyed(count, seed=0, keys=7):
    random = Random(seed)
    return [
        {"key": b"key%d" % random.randrange(keys), "value": b"%d" % place} for place in range(count)
    ]


def contents(order, staged, column="value"):
    """Read what was staged back: by partition, the records in segment order."""
    found = {}
    for each in staged:
        table = read_segment(order.targets[each.partition].replicas[0], each.segment, OPTIONS)
        found.setdefault(each.partition, []).extend(table.column(column).to_pylist())
    return found


def test_records_go_where_kafkas_partitioner_sends_their_keys(order):
    rows, stage = keyed(100), order()

    staged = stage_records(stage, [batch(*rows)], OPTIONS)

    numbers = partitions_of_keys(pa.array([row["key"] for row in rows], pa.binary()), 3).tolist()
    expected = {
        number: [row["value"] for row, mine in zip(rows, numbers, strict=True) if mine == number]
        for number in set(numbers)
    }
    assert contents(stage, staged) == expected


@pytest.mark.parametrize("others", [0, 7])
def test_a_key_goes_to_the_only_partition_and_a_record_without_one_where_others_say(others):
    keys, given = pa.array([b"k", None], pa.binary()), pa.nulls(2, pa.int32())

    numbers = choose_partitions(given, keys, 1, np.full(2, others, np.int32))

    assert numbers.tolist() == [0, others]


def test_order_of_a_key_is_input_order_across_batches_and_segments(order):
    rows, stage = keyed(300), order(segment_bytes_max=2000)
    parts = [batch(*rows[start : start + 50]) for start in range(0, 300, 50)]

    staged = stage_records(stage, parts, OPTIONS)

    assert len(staged) > 3
    for number, values in contents(stage, staged).items():
        assert values == sorted(values, key=int), number
    assert sum(each.segment.record_count for each in staged) == 300


def test_given_partition_wins_over_key_and_the_rest_goes_by_key(order):
    stage = order()
    rows = [
        {"key": b"k", "partition": 2, "value": b"a"},
        {"key": b"k", "value": b"b"},
        {"partition": 0, "value": b"c"},
    ]

    found = contents(stage, stage_records(stage, [batch(*rows)], OPTIONS))

    [by_key] = partitions_of_keys(pa.array([b"k"], pa.binary()), 3).tolist()
    assert b"a" in found[2]
    assert b"c" in found[0]
    assert b"b" in found[by_key]


@pytest.mark.parametrize("number", [-1, 3, 2**31 - 1])
def test_partition_outside_the_topic_is_refused_by_code(order, number):
    staged = stage_records(order(), [batch({}, {"partition": number})], OPTIONS)

    assert [(type(each.refusal), each.segment, each.partition) for each in staged] == [
        (InvalidRecordError, None, -1)
    ]
    assert f"{number} is not in the range [0, 3)" in staged[0].refusal.message


def test_keyless_records_avoid_partitions_without_a_leader(order):
    stage = order(leaderless=(0, 2))

    found = contents(stage, stage_records(stage, [batch({}), batch({}), batch({})], OPTIONS))

    assert found == {1: [b"v"] * 3}


def test_keyless_records_of_a_producer_split_alike_however_they_come(order):
    """A retry may have other tasks and batches; what decides is in the record."""
    rows = [{"value": b"%d" % place} for place in range(60)]
    stage = order(has_producer=True)
    splits = []
    for cuts, task in (([0, 60], 0), ([0, 7, 31, 60], 5)):
        parts = [batch(*rows[a:b]) for a, b in pairwise(cuts)]
        staged = stage_records(stage, parts, OPTIONS, task_number=task)
        splits.append((contents(stage, staged), digests(staged)))

    assert splits[0] == splits[1]
    assert len(splits[0][0]) == 3


def digests(staged):
    return {
        number: sum(each.payload_digest for each in group) % 2**64
        for number, group in groupby(
            sorted(staged, key=lambda each: each.partition), lambda each: each.partition
        )
    }


def test_records_of_more_bytes_than_a_segment_may_have_make_several_in_order(order, monkeypatch):
    monkeypatch.setattr(staging, "RECORDS_BYTES_MAX", 2000)
    rows = [{"value": b"%03d" % place * 100, "partition": 0} for place in range(40)]
    stage = order(has_producer=True)

    staged = stage_records(stage, [batch(*rows)], OPTIONS)

    whole = batch(*rows).select(RECORD_SCHEMA.names)
    assert len(staged) > 5
    assert contents(stage, staged) == {0: [row["value"] for row in rows]}
    assert digests(staged) == {0: sum_digests(record_digests(whole)) % 2**64}


def test_without_a_producer_nothing_is_digested(order):
    staged = stage_records(order(), [batch(*keyed(10))], OPTIONS)

    assert {each.payload_digest for each in staged} == {0}


def test_segments_are_named_for_their_epoch_and_bytes_and_stand_on_every_root(order):
    stage = order(partition_count=1)

    [staged] = stage_records(stage, [batch({}, {})], OPTIONS)

    assert staged.holders == (1, 2)
    assert staged.segment.epoch_in_name == 4
    for replica in stage.targets[0].replicas:
        with open(f"{replica.folder}/{staged.segment.file_name}", "rb") as file:
            content = file.read()
        assert len(content) == staged.segment.size_bytes
        assert digest_of(content) == staged.segment.digest


def test_task_that_runs_twice_writes_other_files(order):
    stage = order(partition_count=1)

    first, second = (stage_records(stage, [batch({})], OPTIONS)[0].segment for _ in range(2))

    assert first.uuid != second.uuid
    assert first.digest == second.digest


def test_no_records_no_segments(order):
    assert stage_records(order(), [], OPTIONS) == []
    assert stage_records(order(), [batch({}).slice(0, 0)], OPTIONS) == []


# fmt: off
SIZES = [  # record                                                          bytes
    pytest.param({"key": b"kkk", "value": b"v" * 97},                        100, id="key-and-value"),
    pytest.param({"key": None, "value": b"v" * 100},                         100, id="value"),
    pytest.param({"key": b"k" * 100, "value": None},                         100, id="tombstone"),
    pytest.param({"value": b"v" * 90, "headers": [{"key": "hé", "value": b"1234567"}]}, 100, id="headers-count-in-bytes"),
    pytest.param({"value": b"v" * 98, "headers": [{"key": "h", "value": None}, {"key": "i", "value": b""}]}, 100, id="headers-without-values"),
]
# fmt: on


@pytest.mark.parametrize("row, size", SIZES)
def test_record_may_have_exactly_as_many_bytes_as_allowed(row, size):
    records = batch({}, row, {"headers": []}, row)

    check_records(records, size)
    check_records(records.slice(2), size)
    with pytest.raises(MessageTooLargeError, match=f"{size} bytes"):
        check_records(records, size - 1)


def test_too_large_a_record_is_refused_by_code(order):
    staged = stage_records(
        order(record_bytes_max=50), [batch({}), batch({"value": b"v" * 60})], OPTIONS
    )

    assert [(type(each.refusal), each.segment) for each in staged] == [(MessageTooLargeError, None)]


def others_only(stage, first):
    """Return an order whose partition 0 is written to `first`, and elsewhere only if need be."""
    [target] = stage.targets
    changed = replace(target, replicas=first, others=target.replicas[1:])
    return replace(stage, targets=(changed,))


def test_records_that_reach_no_leader_go_to_another_in_sync_replica(order):
    """Of acks=1, which writes to the leader only: another may lead before the append is over."""
    stage = order(partition_count=1)
    [target] = stage.targets
    away = replace(target.replicas[0], root=f"{target.replicas[0].root}-away")

    [there] = stage_records(others_only(stage, target.replicas[:1]), [batch({})], OPTIONS)
    [elsewhere] = stage_records(others_only(stage, (away,)), [batch({})], OPTIONS)

    assert (there.holders, elsewhere.holders) == ((1,), (2,))


def test_a_producer_that_may_write_to_no_root_is_told_so_and_not_to_wait(order, monkeypatch):
    def denied(addresses, **rest):
        return {each.broker_id: RootAccessDeniedError("permission denied") for each in addresses}

    monkeypatch.setattr(staging, "begin_puts", denied)

    [staged] = stage_records(order(partition_count=1), [batch({})], OPTIONS)

    assert isinstance(staged.refusal, RootAccessDeniedError)
    assert "append as a user who may write there, or with other" in staged.refusal.message


def test_a_replica_that_failed_to_flush_the_last_segment_holds_none_of_those_before(
    order, monkeypatch
):
    """A flush that succeeds after one that failed may have written nothing."""

    def fail_to_flush(addresses, **rest):
        return really(addresses, **rest) | {2: KafkaStorageError("can't flush")}

    really = staging.begin_puts
    stager = staging.Stager(order(partition_count=1), OPTIONS)
    stager.add(batch({}), 0)
    stager.write()
    stager.add(batch({}), 0)
    monkeypatch.setattr(staging, "begin_puts", fail_to_flush)

    assert [each.holders for each in stager.finish()] == [(1,), (1,)]
