"""Creation of replicas: which are created, what is recorded, and which are created again."""

from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest

from kafka_on_spark.base.ids import LOST
from kafka_on_spark.controller.isr import renew_lost
from kafka_on_spark.controller.replica_tables import (
    CreateReplicaOrder,
    create_replica_task,
    plan_creations,
    record_created,
)
from tests.builders import KEY, address, disk, image_of, partition, uuid_on
from tests.committing import replay
from tests.fakes import MemoryReplicaStore, MemoryRoots


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


def test_creation_says_whether_the_table_is_there():
    roots = MemoryRoots({"memory://1": disk(1), "memory://2": disk(2), "memory://3": disk(9)})
    roots["memory://2"].is_offline = True
    store = MemoryReplicaStore(roots)

    worker = SimpleNamespace(replicas=store)
    orders = [CreateReplicaOrder(address(each), 7) for each in (1, 1, 2, 3)]
    results = [create_replica_task(order, worker) for order in orders]

    assert results == [True, True, False, False]
    made = store.open(address(1)).load()
    assert (made.log_end_offset, made.leader_epoch) == (0, 7)
