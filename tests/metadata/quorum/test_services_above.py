"""The metadata service over a quorum: it works as over one table, and needs to know no voter."""

from contextlib import contextmanager

from kafka_on_spark.metadata.commit_lock import NO_LOCK, CommitLock
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.metadata.metadata_service import MetadataService
from tests.voter_fakes import settings_of


class Lock(CommitLock):
    """A lock that looks at the voters when notes are removed."""

    def __init__(self, quorum):
        super().__init__()
        self.quorum, self.marked = quorum, []

    def mark_committed(self):
        self.marked.append([root.table.log.end_offset for root in self.quorum.roots])


def service_over(quorum, lock=None):
    @contextmanager
    def acquire(uri, reports):
        yield lock or NO_LOCK

    process = quorum.process()
    service = MetadataService(process, quorum.clock, random=lambda: 0.5, acquire_lock=acquire)
    return process, service


def decide(*names):
    return lambda image: ControllerResult(settings_of(*names), "decided")


def test_a_service_replays_a_new_leaders_no_op_and_decides_on_it(quorum):
    _, service = service_over(quorum)
    service.submit(decide("a"), timeout_ms=1000)
    quorum.roots[0].is_offline = True

    service.submit(decide("b"), timeout_ms=10_000)

    assert set(service.image.configs) == {"a", "b"}
    assert quorum.roots[1].table.leads


def test_waiting_processes_notes_go_once_a_majority_holds_the_decision(quorum):
    lock = Lock(quorum)
    process, service = service_over(quorum, lock)
    process.calls.loses_rest = True
    service.catch_up()

    service.submit(decide("a"), timeout_ms=1000)

    (ends,) = lock.marked
    assert sorted(ends)[1] == service.image.offset
