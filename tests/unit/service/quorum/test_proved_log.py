"""What voters prove committed is read without a majority of them, and nothing else is."""

import pytest

from kafka_on_spark.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    KafkaStorageError,
    QuorumUnavailableError,
)
from kafka_on_spark.ids import Offset
from kafka_on_spark.service.metadata.metadata_service import MetadataService
from kafka_on_spark.service.quorum.proved_log import ProvedLog
from kafka_on_spark.service.what_if.metadata_as_of import PROVED, metadata_as_of
from tests.voter_fakes import STAMP, MemoryQuorum, settings_of


def proved(quorum):
    return ProvedLog(quorum.process().tables)


def service_over(log, quorum):
    return MetadataService(log, quorum.clock, random=lambda: 0.5)


def configs(log, quorum):
    return dict(service_over(log, quorum).catch_up().configs)


def decided(process, *names):
    """Make a decision for each name."""
    for name in names:
        process.decide(name)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_one_voter_proves_all_before_its_last_decision(quorum, left):
    decided(quorum.process(), "a", "b", "c")
    for number, root in enumerate(quorum.roots):
        root.is_offline = number != left

    log = proved(quorum)

    assert log.key == quorum.roots[left].key
    assert log.end_offset == quorum.roots[left].table.log.batches[-1].base_offset
    assert log.read(from_offset=Offset(0))[-1].end_offset == log.end_offset
    assert set(configs(log, quorum)) in ({"a"}, {"a", "b"})


def test_the_voter_that_proves_most_is_read(quorum):
    process = quorum.process()
    decided(process, "a")
    quorum.roots[2].is_offline = True
    decided(process, "b", "c", "d")
    quorum.roots[0].is_offline = True
    quorum.roots[2].is_offline = False

    log = proved(quorum)

    assert log.key == quorum.roots[1].key
    assert set(configs(log, quorum)) == {"a", "b", "c"}


def test_a_tail_that_no_majority_took_is_not_read(quorum):
    process = quorum.process()
    decided(process, "a", "b")
    leader = next(each for each in quorum.roots if each.key == process.leader)
    for each in quorum.roots:
        each.is_offline = each is not leader
    before = configs(proved(quorum), quorum)

    with pytest.raises((CommitOutcomeUnknownError, QuorumUnavailableError)):
        process.append(settings_of("tail"), STAMP, expected_offset=leader.table.log.end_offset)

    assert leader.table.log.batches[-1].base_offset == leader.table.log.proved_end
    assert "tail" not in configs(proved(quorum), quorum)
    assert set(before) <= set(configs(proved(quorum), quorum)) <= {"a", "b"}


def test_nothing_is_committed_on_what_is_proved(quorum):
    decided(quorum.process(), "a")
    log, commits = proved(quorum), [each.commits for each in quorum.roots]

    with pytest.raises(QuorumUnavailableError, match="read-only"):
        log.append(settings_of("b"), STAMP, expected_offset=log.end_offset)
    with pytest.raises(QuorumUnavailableError, match="read-only"):
        log.check_writable()

    assert log.has_next() is False
    log.maintain()
    assert log.clean(0) == 0
    assert [each.commits for each in quorum.roots] == commits


def test_it_stays_as_it_was_when_it_was_opened(quorum):
    process = quorum.process()
    decided(process, "a", "b")
    log = proved(quorum)
    before = configs(log, quorum)

    decided(process, "c", "d")

    assert configs(log, quorum) == before
    assert set(configs(proved(quorum), quorum)) == {"a", "b", "c"}


def test_another_voter_that_proves_as_much_is_read_where_the_first_fails_later(quorum):
    process = quorum.process()
    decided(process, "a", "b", "c")
    process.maintain()
    log = proved(quorum)
    holders = [each for each in quorum.roots if each.table.log.proved_end == log.end_offset]
    assert len(holders) > 1
    next(each for each in holders if each.key == log.key).is_offline = True

    assert set(configs(log, quorum)) == {"a", "b"}
    assert log.offset_at(STAMP.time_ms) <= log.end_offset


def test_without_any_voter_nothing_is_read(quorum):
    for each in quorum.roots:
        each.is_offline = True

    with pytest.raises(QuorumUnavailableError, match="no voter of the metadata quorum answers"):
        proved(quorum)


def test_of_one_voter_its_own_error_is_told():
    quorum = MemoryQuorum(1)
    quorum.roots[0].is_offline = True

    with pytest.raises(KafkaStorageError):
        proved(quorum)


def test_a_log_that_proves_no_cluster_is_refused_in_words(quorum):
    """Its last decision is the one that makes the cluster, or it has none that proves another."""
    log = proved(quorum)
    service = service_over(log, quorum)

    with pytest.raises(InvalidRequestError, match="proves more than"):
        metadata_as_of(service, PROVED, now_ms=STAMP.time_ms)
