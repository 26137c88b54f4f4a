"""Creation of replicas: which are created, what is recorded, and which are created again."""

from dataclasses import replace
from itertools import count

import pytest

from kafka_on_spark.errors import NO_ERROR, KafkaStorageError
from kafka_on_spark.ids import LOST, PartitionKey
from kafka_on_spark.service.replica.creating_replicas import (
    CreateReplicaOrder,
    create_replica,
    plan_creations,
    record_created,
    renew_lost,
)
from tests.builders import KEY, TOPIC_ID, address, broker, disk, image_of, partition, uuid_on
from tests.committing import replay
from tests.fakes import MemoryReplicaStore, MemoryRoots

SECOND = PartitionKey(TOPIC_ID, 1)


def on(*broker_ids, key=KEY):
    return [address(each, key=key) for each in broker_ids]


# fmt: off
UNMADE = [  # partition                           fenced  brokers to make on
    pytest.param(partition("1 2 3", unmade="1 2 3"), "",    [1, 2, 3], id="new-partition"),
    pytest.param(partition("1 2 3", unmade="2"),     "",    [2],       id="one-is-missing"),
    pytest.param(partition("1 2 3"),                 "",    [],        id="all-are-made"),
    pytest.param(partition("1 2 3", unmade="1 2 3"), "3",   [1, 2],    id="not-where-no-root-answers"),
    pytest.param(partition("1 2 3", lost="2"),       "",    [],        id="a-lost-one-is-never-made-under-its-uuid"),
]
# fmt: on


@pytest.mark.parametrize("before, fenced, expected", UNMADE)
def test_replicas_to_make(before, fenced, expected):
    image = image_of(before, fenced=fenced)

    assert [each.address for each in plan_creations(image, [KEY])] == on(*expected)


def test_partitions_that_are_gone_need_no_replicas():
    assert plan_creations(image_of(), [KEY, PartitionKey("0" * 32, 0)]) == []


def test_replicas_on_a_draining_broker_are_created():
    """It keeps its replicas, and its root answers."""
    image = image_of(partition("1 2", unmade="1 2"), draining="2")

    assert [each.address for each in plan_creations(image, [KEY])] == on(1, 2)


def test_all_partitions_of_an_append_are_one_decision():
    image = image_of(partition("1 2", unmade="1 2"), partition("2 3", unmade="2 3"))
    made = [*on(1, 2), *on(2, 3, key=SECOND)]

    result = record_created(image, made)

    after = replay(image, result).topics[TOPIC_ID].partitions
    assert [each.directories for each in after.values()] == [(disk(1), disk(2)), (disk(2), disk(3))]
    assert [each.partition_epoch for each in after.values()] == [10, 10]
    assert [each.leader_epoch for each in after.values()] == [5, 5]
    assert len(result.records) == 2


# fmt: off
CHANGED = [  # image since                                                made         directories after; None: no record
    pytest.param(image_of(partition("1 2", unmade="1 2")),                on(1),       (disk(1), None), id="one-of-two-was-made"),
    pytest.param(image_of(partition("1 2")),                              on(1, 2),    None,            id="somebody-else-has-recorded-it"),
    pytest.param(image_of(partition("1 2", lost="1", unmade="2")),        on(1, 2),    (LOST, disk(2)), id="lost-meanwhile-stays-lost"),
    pytest.param(image_of(partition("3 2", unmade="3 2")),                on(1, 2),    (None, disk(2)), id="moved-meanwhile"),
    pytest.param(image_of(),                                              on(1, 2),    None,            id="deleted-meanwhile"),
    pytest.param(image_of(partition("1 2", unmade="1 2")),                [replace(address(1), replica_uuid=uuid_on(9))], None, id="another-making"),
]
# fmt: on


@pytest.mark.parametrize("image, made, expected", CHANGED)
def test_what_changed_since_is_left_out(image, made, expected):
    result = record_created(image, made)

    if expected is None:
        assert result.records == []
        return
    assert replay(image, result).partition(KEY).directories == expected


def test_disk_that_was_replaced_meanwhile_is_left_out():
    image = image_of(partition("1 2", unmade="1 2"))
    other_disk = replace(broker(1), directory_id=disk(9))
    image = replace(image, brokers={**image.brokers, 1: other_disk})

    after = replay(image, record_created(image, on(1, 2)))

    assert after.partition(KEY).directories == (None, disk(2))


# fmt: off
LOST_ONES = [  # partition                                            fenced renewed
    pytest.param(partition("1 2 3", isr="1 2", lost="3"),              "",    [3],    id="outside-the-isr"),
    pytest.param(partition("1 2 3", isr="1", lost="2 3"),              "",    [2, 3], id="two-at-once"),
    pytest.param(partition("1 2 3", isr="1 2", lost="3"),              "3",   [],     id="its-root-does-not-answer"),
    pytest.param(partition("1 2", isr="1", leader=None, lost="1"),     "",    [],     id="the-last-in-sync-keeps-its-uuid"),
    pytest.param(partition("1 2 3", isr="1 2", unmade="3"),            "",    [],     id="never-made"),
    pytest.param(partition("1 2 3"),                                   "",    [],     id="none-is-lost"),
]
# fmt: on


@pytest.mark.parametrize("before, fenced, renewed", LOST_ONES)
def test_lost_replica_outside_the_isr_gets_a_new_uuid(before, fenced, renewed):
    image, numbers = image_of(before, fenced=fenced), count()

    result = renew_lost(image, lambda: f"new{next(numbers)}")

    assert bool(result.records) == bool(renewed)
    assert result.response == ([KEY] if renewed else [])
    if renewed:
        after = replay(image, result).partition(KEY)
        fresh = [each for each in after.replicas if after.uuid_of(each).startswith("new")]
        assert (
            fresh
            == renewed
            == [each for each in after.replicas if after.directory_of(each) is None]
        )
        assert (after.isr, after.leader_epoch) == (before.isr, before.leader_epoch)


def test_renewed_replica_is_not_eligible_to_lead():
    """It is empty: what it was known to have went with its disk."""
    before = partition("1 2 3", isr="1 2", lost="3")

    after = replay(image_of(before), renew_lost(image_of(before), lambda: "new")).partition(KEY)

    assert 3 not in after.isr | after.elr


def test_creation_answers_with_a_code():
    roots = MemoryRoots({"memory://1": disk(1), "memory://2": disk(2), "memory://3": disk(9)})
    roots["memory://2"].is_offline = True
    store = MemoryReplicaStore(roots)

    results = [create_replica(CreateReplicaOrder(address(each), 7), store) for each in (1, 1, 2, 3)]

    assert [each.error_code for each in results] == [
        NO_ERROR, NO_ERROR, KafkaStorageError.code, KafkaStorageError.code,
    ]  # fmt: skip
    made = store.open(address(1)).load()
    assert (made.log_end_offset, made.leader_epoch) == (0, 7)
