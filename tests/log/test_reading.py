"""What a reader may see: what is committed, and nothing above it, whatever is asked for."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import (
    KafkaStorageError,
    OffsetOutOfRangeError,
)
from kafka_on_spark.log.evidence import is_evidence
from kafka_on_spark.log.read_order import after_others, plan_reads, replicas_to_read
from kafka_on_spark.log.reading import read_pieces, refuse_deleted
from kafka_on_spark.log.state import LogChange
from tests.builders import KEY, TOPIC, address, image_of, log, partition, uuid_on
from tests.fakes import MemoryReplicaStore, MemoryRoots

COMMITTED = partition(
    "1 2", epoch=0, hw=3, hw_epoch=0, hw_chain=log("0:abc").chain_digest, leo=5, start=1
)


def planned(start=None, end=None, image=None):
    return plan_reads(image or image_of(COMMITTED), TOPIC, start, end)


def test_a_suspect_is_read_after_all_others():
    orders = planned()
    assert [each.broker_id for each in orders[0].candidates] == [1, 2]

    order = after_others(orders[0], frozenset({uuid_on(1), "an earlier one"}))

    assert [each.broker_id for each in order.candidates] == [2, 1]


def replicas_of(**logs):
    """Return a store in which replicas have logs: ``on_1="0:abc"``."""
    addresses = {name: address(int(name.removeprefix("on_"))) for name in logs}
    roots = MemoryRoots({each.root: each.directory_id for each in addresses.values()})
    store = MemoryReplicaStore(roots)
    for name, text in logs.items():
        store.create(addresses[name])
        opened = store.open(addresses[name])
        opened.commit(opened.load(), change_to(log(text)))
    return store


def change_to(state):
    return LogChange(
        operation="setup",
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        leader_epoch=state.leader_epoch,
        adds=state.batches,
    )


def first_of(piece):
    return piece.base_offset + piece.first_delta


def read(order, store):
    """Return the first letter and the offsets of what is read, and from which broker."""
    return list(
        read_pieces(
            order,
            store,
            lambda piece: [
                (piece.segment.uuid[0], first_of(piece), piece.address.broker_id),
            ],
        )
    )


def test_a_replica_with_uncommitted_records_gives_the_committed_ones():
    [order] = planned(end={0: 99})

    rows = read(order, replicas_of(on_1="0:abcde", on_2="0:abc"))

    assert rows == [("b", 1, 1), ("c", 2, 1)]


def test_a_replica_that_lacks_committed_records_gives_none():
    [order] = planned()

    assert read(order, replicas_of(on_1="0:ab", on_2="0:abc")) == [("b", 1, 2), ("c", 2, 2)]


def starting_at(*starts):
    """Return replicas 1, 2 ... whose logs have the records [start, 5)."""
    places = [address(broker_id) for broker_id, _ in enumerate(starts, 1)]
    store = MemoryReplicaStore(MemoryRoots({each.root: each.directory_id for each in places}))
    for place, start in zip(places, starts, strict=True):
        store.create(place)
        opened = store.open(place)
        before = log("0:abcde").chain_at(start)
        state = log(f"0:{'abcde'[start:]}", base=start, chain_before=before)
        opened.commit(opened.load(), replace(change_to(state), chain_before=before))
    return store


def read_from_start(start, on_deleted=refuse_deleted):
    """Read [1, 3) of a replica whose log begins at `start`; return the rows, to be read, and what
    is said against the replica."""
    [order] = planned()
    store = starting_at(start)
    noted = []
    rows = read_pieces(
        replace(order, candidates=(address(1),)),
        store,
        lambda piece: [first_of(piece)],
        lambda address, segment, error: noted.append(error),
        on_deleted=on_deleted,
    )
    return rows, noted


def test_records_that_retention_has_passed_since_the_read_was_planned_are_out_of_range():
    """They are not said to be lost, nor is the replica said to be wrong."""
    rows, noted = read_from_start(4)

    with pytest.raises(OffsetOutOfRangeError, match=r"offsets 1 to 3 of .* starts at 4 now; read"):
        list(rows)

    assert [is_evidence(error) for error in noted] == [False]


@pytest.mark.parametrize("start, left", [(1, [1, 2]), (2, [2]), (3, []), (4, [])])
def test_what_is_left_above_a_log_start_that_has_moved_on_is_read(start, left):
    passed = []

    rows, _ = read_from_start(start, lambda order, first, start: passed.append((first, start)))

    assert list(rows) == left
    assert passed == ([(1, start)] if start > 1 else [])


def test_a_replica_that_fails_in_the_middle_is_gone_on_from_by_the_next():
    [order] = planned()
    store = replicas_of(on_1="0:abc", on_2="0:abc")

    def rows_of(piece):
        if piece.address.broker_id == 1 and first_of(piece) == 2:
            raise KafkaStorageError("the disk is gone")
        yield (first_of(piece), piece.address.broker_id)

    assert list(read_pieces(order, store, rows_of)) == [(1, 1), (2, 2)]


def test_a_fenced_brokers_replica_is_asked_last():
    """It may have come back before the controller saw it."""
    [order] = planned(image=image_of(COMMITTED, fenced="1"))

    assert [each.broker_id for each in order.candidates] == [2, 1]
    assert order.key == KEY


def test_a_read_may_begin_where_the_log_ends():
    assert planned({0: 5}) == []
    with pytest.raises(OffsetOutOfRangeError):
        planned({0: 6})


# fmt: off
CHOICES = [  # rack  ISR      brokers in order
    pytest.param(None, "1 2 3", [2, 1, 3], id="no rack: the leader first"),
    pytest.param("a",  "1 2 3", [1, 2, 3], id="the reader's rack before the leader"),
    pytest.param("b",  "1 2 3", [2, 3, 1], id="in the reader's rack the leader first"),
    pytest.param("x",  "1 2 3", [2, 1, 3], id="a rack without replicas"),
    pytest.param("a",  "2 3",   [2, 3, 1], id="a replica in sync before the reader's rack"),
]
# fmt: on


@pytest.mark.parametrize("rack, isr, expected", CHOICES)
def test_a_near_replica_in_sync_is_read_first(rack, isr, expected):
    registration = partition("1 2 3", isr=isr, leader=2)
    image = image_of(registration, racks="a b b")

    assert replicas_to_read(image, registration, rack) == expected
