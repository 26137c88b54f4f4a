"""The producer state of a replica is one file, which a commit names: for the fake and on Delta."""

import pytest

from kafka_on_spark.base.errors import CommitConflictError, CorruptLogError, KafkaStorageError
from kafka_on_spark.base.ids import Offset, ReplicaUuid
from kafka_on_spark.log import operations, replicas
from kafka_on_spark.log.producer_files import decode_producers, write_producers
from kafka_on_spark.log.producer_state import ProducersFile, producers_file_name
from kafka_on_spark.log.replicas import PRODUCER_DIGEST, PRODUCER_STATE
from tests.builders import NOW_MS, entry, staged, stamp

KEPT = {"p": entry(4)}


@pytest.fixture
def address(disks):
    return disks.addresses[1]


@pytest.fixture
def replica(disks, address):
    """A log of two batches of a producer."""
    disks.replicas.create(address, leader_epoch=0)
    replica = disks.replicas.open(address)
    for name, sequence in (("a", 4), ("b", 5)):
        append(replica, name, stamp(sequence))
    return replica


def append(replica, name, producer=None):
    state = replica.load()
    made = staged(name, producer=producer)
    return replica.commit(state, operations.append(state, made, leader_epoch=0, now_ms=NOW_MS))


def advance(replica, to, state=None):
    state = replica.load() if state is None else state
    return replica.commit(state, operations.advance_log_start(state, Offset(to)))


def name_of(number):
    return producers_file_name(number)


def file_of(log):
    return ProducersFile(*log._delta.counters_of(PRODUCER_STATE, PRODUCER_DIGEST))


def reopened(disks, address):
    return disks.reopened().open(address)


def test_a_commit_that_takes_no_header_writes_no_file(disks, address, replica):
    assert disks.content(address, name_of(1)) is None


def test_each_commit_that_takes_headers_names_a_file_of_its_own(disks, address, replica):
    first = advance(replica, 1)
    written = disks.content(address, name_of(1))
    append(replica, "c")

    second = advance(replica, 2)

    assert first.producers == KEPT
    assert second.producers == {"p": entry(5, base=1)}
    assert disks.content(address, name_of(1)) == written
    assert reopened(disks, address).load() == second


def test_a_file_whose_commit_conflicts_counts_for_nothing(disks, address, replica):
    """Two processes decide on one version: the second decides again, on what the first has left."""
    slow = reopened(disks, address)
    state = slow.load()
    first = advance(replica, 1)

    with pytest.raises(CommitConflictError):
        advance(slow, 2, state)

    assert slow.load() == first
    second = advance(slow, 2)
    assert second.producers == {"p": entry(5, base=1)}
    assert reopened(disks, address).load() == second


# fmt: off
DAMAGES = [
    pytest.param(lambda content: b"x" * len(content),      id="other bytes"),
    pytest.param(lambda content: content[: len(content) // 2], id="cut short"),
    pytest.param(lambda content: b"",                      id="empty"),
]
# fmt: on


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_makes_the_replica_corrupt_and_never_empty(disks, address, replica, damage):
    advance(replica, 1)
    disks.write(address, name_of(1), damage(disks.content(address, name_of(1))))

    with pytest.raises(CorruptLogError):
        reopened(disks, address).load()


def test_a_file_that_goes_is_missed_by_whoever_opens_the_log_anew(disks, address, replica):
    """A process that knows it goes on: what it commits next has a file again."""
    advance(replica, 1)
    disks.write(address, name_of(1), b"damaged")
    append(replica, "c")

    with pytest.raises(CorruptLogError):
        reopened(disks, address).load()
    after = advance(replica, 2)

    assert after.producers == {"p": entry(5, base=1)}
    assert reopened(disks, address).load() == after


class _LosesAnswers:
    """Files of a root on which the first write lands, and says that it failed."""

    def __init__(self):
        self.content = {}

    def write_if_absent(self, path, content):
        is_first = not self.content
        if path in self.content:
            return False
        self.content[path] = content
        if is_first:
            raise KafkaStorageError("the store failed while writing")
        return True

    def names(self, folder):
        return [path.rsplit("/", 1)[-1] for path in self.content]


def test_a_producers_file_whose_write_has_an_unknown_outcome_is_passed_over():
    files, uuid = _LosesAnswers(), ReplicaUuid("uuid1")
    with pytest.raises(KafkaStorageError):
        write_producers(files, "folder", uuid, {}, above=4)

    file = write_producers(files, "folder", uuid, KEPT, above=4)

    assert file.number == 6
    content = files.content[f"folder/{name_of(6)}"]
    assert decode_producers(content, uuid, file) == KEPT


def test_the_file_of_a_try_that_lost_serves_the_next_one(delta_disks, monkeypatch):
    """Where an append is faster than the file is written, no merge would get in else."""
    address = delta_disks.addresses[1]
    delta_disks.replicas.create(address, leader_epoch=0)
    log, other = delta_disks.replicas.open(address), reopened(delta_disks, address)
    for name, sequence in (("a", 4), ("b", 5)):
        append(log, name, stamp(sequence))
    written = []

    def write(*args, **options):
        """Write, and have another process append before the commit."""
        written.append(write_producers(*args, **options))
        append(other, f"c{len(written)}")
        return written[-1]

    monkeypatch.setattr(replicas, "write_producers", write)
    with pytest.raises(CommitConflictError):
        advance(log, 1)

    after = advance(log, 1)

    assert ([each.number for each in written], log.producers_number) == ([1], 1)
    assert after.producers == KEPT
    assert reopened(delta_disks, address).load() == after
