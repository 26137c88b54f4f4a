"""When acks=all is refused, and when an append is acknowledged."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import (
    KafkaStorageError,
    UnexpectedOffsetError,
)
from kafka_on_spark.log.state import LogChange
from kafka_on_spark.produce.acknowledging import is_acknowledged, is_committed
from kafka_on_spark.produce.placing import LeaderFailure, read_leader
from kafka_on_spark.produce.preconditions import (
    check_ends,
    keys_of_ends,
)
from kafka_on_spark.produce.stages import StagedPart
from tests.builders import KEY, address, disk, image_of, log, partition, staged
from tests.fakes import FakeClock, MemoryReplicaStore, MemoryRoots

LOG = log("5:abc", fence=5)  # the append is `b`
SHORT, OTHER = log("5:a", fence=5), log("5:axcd", fence=5)

# fmt: off
COMMITTED = [  # its leader's log as it was seen, the high watermark, and whose it is   committed
    pytest.param(LOG,                        2, LOG,   True,  id="the-high-watermark-has-reached-it"),
    pytest.param(LOG,                        3, LOG,   True,  id="and-gone-on"),
    pytest.param(LOG,                        1, LOG,   False, id="the-high-watermark-is-below-it"),
    pytest.param(log("4:ab", fence=4),       2, LOG,   False, id="seen-in-the-log-of-a-deposed-leader"),
    pytest.param(LOG,                        2, OTHER, False, id="another-was-committed-in-its-place-in-the-same-epoch"),
    pytest.param(LOG,                        3, OTHER, False, id="and-more-after-it"),
    pytest.param(OTHER,                      2, OTHER, False, id="its-leader-was-set-back-and-has-another-there"),
    pytest.param(SHORT,                      2, LOG,   False, id="its-leader-was-set-back"),
    pytest.param(LOG,                        4, OTHER, False, id="the-high-watermark-is-above-what-was-seen"),
]
# fmt: on


@pytest.mark.parametrize("found, hw, committed, expected", COMMITTED)
def test_an_append_is_committed_only_where_the_chain_is_the_registers(
    found, hw, committed, expected
):
    registered = partition("1 2", hw=hw, hw_epoch=5, hw_chain=committed.chain_at(hw))

    assert is_committed(registered, found, LOG.batches[1]) is expected


def test_an_append_that_was_committed_and_has_left_the_log_stands():
    assert is_committed(partition("1 2", hw=2), log("5:d", base=2, fence=5), None)


class Leader:
    """A leader's log that is read again."""

    def __init__(self, now):
        self.load = lambda: self.now()
        self.now = now


def away():
    raise KafkaStorageError("the root is away")


@pytest.mark.parametrize(
    "now, expected",
    [
        pytest.param(lambda: log("5:abcd", fence=5), True, id="it-stands-there"),
        pytest.param(lambda: log("5:axcd", fence=5), False, id="another-stands-there"),
        pytest.param(lambda: log("5:abc", fence=5), False, id="an-old-inspection"),
        pytest.param(away, False, id="it-does-not-answer"),
    ],
)
def test_where_others_have_committed_more_an_append_is_read_back(now, expected):
    committed = log("5:abcd")
    registered = partition("1 2", hw=4, hw_epoch=5, hw_chain=committed.chain_digest)

    assert is_acknowledged(registered, LOG, LOG.batches[1], Leader(now)) is expected


def store_of(text):
    """Return a store in which the leader, broker 1, has a log."""
    state = log(text)
    here = address(1)
    store = MemoryReplicaStore(MemoryRoots({here.root: disk(1)}))
    store.create(here)
    opened = store.open(here)
    change = LogChange(
        operation="setup",
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        leader_epoch=state.leader_epoch,
        adds=state.batches,
    )
    opened.commit(opened.load(), change)
    return store


def conditional(name, expected):
    return StagedPart(key=KEY, batch=staged(name), holders=(), expected_offset=expected)


def ends(image, store, parts, others):
    """Check the ends of what an append reads of leaders' logs, as it does."""
    logs = {
        key: read_leader(image, key, replicas=store, clock=FakeClock())
        for key in keys_of_ends(parts, others)
    }
    for failure in logs.values():
        if isinstance(failure, LeaderFailure):
            raise failure.error
    check_ends(logs, parts, others)


LED = image_of(partition("1 2", epoch=0))


def test_a_conditional_append_is_refused_where_the_log_ends_elsewhere():
    ends(LED, store_of("0:ab"), [conditional("c", 2)], {})
    for expected in (1, 3):
        with pytest.raises(UnexpectedOffsetError):
            ends(LED, store_of("0:ab"), [conditional("c", expected)], {})


def test_a_conditional_append_that_stands_already_is_no_reason_to_refuse_its_retry():
    """Nor where other partitions' logs have grown since."""
    store = store_of("0:ab")
    again = StagedPart(
        key=KEY,
        batch=replace(staged("z"), segments=store.open(address(1)).load().batches[1].segments),
        holders=(),
        expected_offset=1,
    )

    ends(LED, store, [again], {})
    ends(LED, store, [again], {KEY: 1})
    with pytest.raises(UnexpectedOffsetError):
        ends(LED, store, [conditional("c", 2)], {KEY: 1})


def test_a_partition_without_a_log_ends_at_0():
    unmade = image_of(partition("1 2", unmade="1 2"))

    ends(unmade, store_of(""), [conditional("c", 0)], {})
    with pytest.raises(UnexpectedOffsetError, match="nothing was appended to it yet"):
        ends(unmade, store_of(""), [conditional("c", 1)], {})


def test_a_partition_that_is_gone_ends_at_0():
    ends(image_of(), store_of(""), [conditional("c", 0)], {})
    with pytest.raises(UnexpectedOffsetError):
        ends(image_of(), store_of(""), [conditional("c", 1)], {})


def test_an_append_without_conditions_asks_for_no_end():
    assert keys_of_ends([conditional("c", None)], {}) == []
