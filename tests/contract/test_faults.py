"""The faults that tests order of the fakes: what each leaves behind, and what it says."""

import pytest

from kafka_on_spark.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.ids import Offset
from kafka_on_spark.log import operations
from kafka_on_spark.metadata.records import ClusterRecord, Stamp
from tests import fakes
from tests.builders import NOW_MS, address, disk, staged
from tests.fakes import Fault

HERE = address(1)


@pytest.fixture
def roots():
    return fakes.MemoryRoots({HERE.root: disk(1)})


@pytest.fixture
def replica(roots):
    store = fakes.MemoryReplicaStore(roots)
    store.create(HERE)
    return store.open(HERE)


def lead(state, epoch=0):
    return operations.adopt(state, leader_epoch=epoch, truncate_to=None, floor=Offset(0))


# fmt: off
FAULTS = [  # fault            error                      version afterwards, is ours there
    pytest.param(Fault.LOST_BEFORE, CommitOutcomeUnknownError, 0, False, id="lost-before"),
    pytest.param(Fault.LOST_ANSWER, CommitOutcomeUnknownError, 1, True,  id="lost-answer"),
    pytest.param(Fault.CONFLICT,    CommitConflictError,       1, False, id="conflict"),
    pytest.param(Fault.OFFLINE,     CommitOutcomeUnknownError, 0, False, id="offline"),
]
# fmt: on


@pytest.mark.parametrize("fault, error, version, is_there", FAULTS)
def test_fault_of_a_replicas_commit_happens_once(roots, replica, fault, error, version, is_there):
    roots[HERE.root].faults.append(fault)
    before = replica.load()

    with pytest.raises(error):
        replica.commit(before, lead(before))

    after = replica.load()
    assert (after.version, after.leader_epoch == 0) == (version, is_there)
    assert replica.commit(after, lead(after, 1)).leader_epoch == 1


def test_root_can_go_away_come_back_roll_back_and_be_wiped(roots, replica):
    state = replica.commit(replica.load(), lead(replica.load()))
    root = roots[HERE.root]

    root.is_offline = True
    with pytest.raises(KafkaStorageError):
        replica.load()
    root.is_offline = False
    assert replica.load() == state
    root.roll_back(1)
    assert replica.load().version == 0
    root.wipe()
    with pytest.raises(KafkaStorageError):
        replica.load()
    root.directory_id = disk(1)
    with pytest.raises(ReplicaLostError):
        replica.load()


def test_commit_may_only_name_files_that_are_there(roots):
    store = fakes.MemoryReplicaStore(roots, checks_segments=True)
    store.create(HERE)
    replica, batch = store.open(HERE), staged("a")
    state = replica.commit(replica.load(), lead(replica.load()))
    change = operations.append(state, batch, leader_epoch=0, now_ms=NOW_MS)

    with pytest.raises(AssertionError, match="not there"):
        replica.commit(state, change)
    fakes.MemorySegmentStore(roots).put(HERE, batch.segments[0])

    assert replica.commit(state, change).log_end_offset == 1


@pytest.mark.parametrize("fault", Fault)
def test_fault_of_a_metadata_commit_happens_once(fault):
    log, record = fakes.MemoryMetadataLog(), ClusterRecord(cluster_id="c")
    log.faults.append(fault)

    with pytest.raises((CommitOutcomeUnknownError, CommitConflictError, KafkaStorageError)):
        log.append([record], Stamp(time_ms=1), expected_offset=Offset(0))

    assert len(log.batches) == (fault is Fault.LOST_ANSWER)
    log.append([record], Stamp(time_ms=1), expected_offset=log.end_offset)


def test_clock_moves_only_by_sleeping():
    clock = fakes.FakeClock(now_ms=1000)
    woken = []
    clock.on_sleep = lambda: woken.append(clock.now_ms())

    clock.sleep_ms(250)
    clock.advance(5)

    assert (clock.now_ms(), clock.monotonic_ms()) == (1255, 255)
    assert (clock.slept_ms, woken) == ([250], [1250])


def test_runner_may_run_a_task_twice():
    calls = []

    assert fakes.LocalRunner(times=2).run(lambda order: calls.append(order) or -order, [1, 2]) == [
        -1,
        -2,
    ]
    assert calls == [1, 1, 2, 2]
