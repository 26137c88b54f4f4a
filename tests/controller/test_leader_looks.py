"""One look at a leader's log: which table says anything, and by which clock."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.controller.retention import LookOrder, run_look
from kafka_on_spark.log import operations
from kafka_on_spark.log.retention import RetentionLimits
from tests.builders import KEY, NOW_MS, address, disk, partition, staged
from tests.fakes import Fault, MemoryReplicaStore, MemoryRoots

LIMITS = RetentionLimits(retention_ms=1000, retention_bytes=None)
LATER_MS = NOW_MS + 5000


@pytest.fixture
def replicas():
    roots = MemoryRoots({"memory://1": disk(1)})
    store = MemoryReplicaStore(roots)
    store.create(address(), leader_epoch=0)
    log = store.open(address())
    for name in "abc":
        state = log.load()
        change = operations.append(state, staged(name), leader_epoch=0, now_ms=NOW_MS)
        log.commit(state, change)
    return store


def order(replicas, **fields):
    state = replicas.open(address()).load()
    registered = partition(
        "1 2",
        epoch=0,
        hw=3,
        hw_epoch=0,
        hw_chain=state.chain_at(3),
        **fields,
    )
    return LookOrder(
        key=KEY,
        partition=registered,
        address=address(),
        limits=LIMITS,
        now_ms=LATER_MS,
        commit_ms=LATER_MS,
    )


def look(replicas, asked, root_ms=LATER_MS):
    return run_look(asked, replicas, lambda address: root_ms)


def test_two_clocks_that_are_ahead_delete_nothing_if_the_newest_commit_is_of_now(replicas):
    """A host that is wrong as a whole, with the broker's root, and not alone."""
    wrong = replace(order(replicas), now_ms=NOW_MS + 10**12, commit_ms=NOW_MS + 500)

    assert look(replicas, wrong, NOW_MS + 10**12).report.found.log_start_offset == 0


def test_a_root_that_tells_no_time_deletes_nothing(replicas):
    def refuse(address):
        raise KafkaStorageError("takes no writes")

    assert run_look(order(replicas), replicas, refuse).error == "takes no writes"


# fmt: off
REFUSED = [
    pytest.param({"epoch": 1},                 "leader",         id="not-fenced-at-the-leadership-yet"),
    pytest.param({"hw": 4},                    "committed",      id="shorter-than-what-is-committed"),
    pytest.param({"hw_chain": "f" * 32},       "committed",      id="another-log-under-the-same-epoch"),
]
# fmt: on


@pytest.mark.parametrize("fields, words", REFUSED)
def test_only_the_leader_s_own_complete_log_says_anything(replicas, fields, words):
    asked = order(replicas)
    known = asked.partition
    changed = replace(
        known,
        leader_epoch=fields.get("epoch", known.leader_epoch),
        high_watermark=fields.get("hw", known.high_watermark),
        high_watermark_chain=fields.get("hw_chain", known.high_watermark_chain),
        log_end_offset=4,
    )

    result = look(replicas, replace(asked, partition=changed))

    assert result.report is None
    assert words in result.error


def test_a_table_that_a_later_leadership_has_fenced_says_nothing(replicas):
    asked = order(replicas)
    log = replicas.open(address())
    state = log.load()
    log.commit(state, operations.adopt(state, leader_epoch=1, truncate_to=None, floor=0))

    assert look(replicas, asked).report is None


def test_it_applies_the_log_start_that_was_decided_before(replicas):
    asked = order(replicas, start=2)

    found = look(replicas, replace(asked, now_ms=NOW_MS)).report

    assert replicas.open(address()).load().log_start_offset == 2
    assert found.found.log_start_offset == 2


def test_a_log_start_that_cant_be_applied_yet_keeps_nobody_from_looking(replicas):
    replicas._roots["memory://1"].faults.append(Fault.OFFLINE)

    found = look(replicas, order(replicas, start=2)).report

    assert replicas.open(address()).load().log_start_offset == 0
    assert (found.log_start_offset, found.found.log_start_offset) == (2, 3)
