"""What people are told of voters whose roots fail, with a majority and without; and of a new leader."""

import errno
import logging
import os

import pytest

from kafka_on_spark.base.errors import (
    ClusterNotFoundError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
    QuorumUnavailableError,
    ReplicaLostError,
    RootAccessDeniedError,
    RootFullError,
    RootReadOnlyError,
)
from kafka_on_spark.metadata.cluster_roots import create_metadata_log
from kafka_on_spark.metadata.quorum.description import condition_of
from kafka_on_spark.store.roots import StorageOptions

# fmt: off
CONDITIONS = [
    (RootFullError("x"),             "full",      False),
    (RootReadOnlyError("x"),         "read-only", False),
    (RootAccessDeniedError("x"),     "denied",    False),
    (KafkaStorageError("x"),         "away",      False),
    (CommitOutcomeUnknownError("x"), "away",      False),
    (ClusterNotFoundError("x"),      "empty",     True),
    (ReplicaLostError("x"),          "lost",      True),
    (CorruptLogError("x"),           "damaged",   True),
]
# fmt: on


@pytest.mark.parametrize("failure, word, is_for_ever", CONDITIONS)
def test_a_root_that_fails_has_a_word_for_it(failure, word, is_for_ever):
    found = condition_of(failure)

    assert (found, found.is_for_ever) == (word, is_for_ever)


def conditions(voters):
    return [each.condition for each in voters]


def logged(caplog, *words):
    return [
        each.getMessage() for each in caplog.records if all(w in each.getMessage() for w in words)
    ]


@pytest.mark.parametrize("node", [1, 2])
def test_a_follower_that_is_full_is_known_until_it_takes_a_commit(quorum, process, node):
    quorum.roots[node].is_full = True
    for name in "abc":
        process.decide(name)

    expected = [None, None, None]
    expected[node] = "full"
    assert conditions(process.describe().voters) == expected
    assert conditions(process.last_seen().voters) == expected
    quorum.roots[node].is_full = False
    process.decide("d")
    process.decide("e")

    assert (
        conditions(process.last_seen().voters)
        == conditions(process.describe().voters)
        == [None] * 3
    )


@pytest.mark.parametrize("code, word", [(errno.ENOSPC, "full"), (errno.EROFS, "read-only")])
def test_a_folder_is_tried_by_a_file_that_leaves_nothing(tmp_path, monkeypatch, code, word):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    log = create_metadata_log(str(tmp_path), StorageOptions(), "a-cluster")
    before = set(tmp_path.iterdir())
    assert conditions(log.describe().voters) == [None]
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        assert conditions(log.describe().voters) == [word]

    assert set(tmp_path.iterdir()) == before


def test_who_may_only_read_sees_how_voters_are(quorum, process):
    process.decide("a")
    reader = quorum.process("q")
    for each in quorum.roots:
        each.denied.add("q")

    found = reader.describe().voters

    assert conditions(found) == [None] * 3
    assert {each.state for each in found} == {"Leader", "Follower"}


def test_who_is_full_is_named_where_no_majority_takes_a_decision(quorum, process):
    for each in quorum.roots:
        each.is_full = True

    with pytest.raises(KafkaOnSparkError, match="0:d0: no space left"):
        process.decide("a")


def test_each_voter_is_described_by_its_own_root_where_no_majority_answers(quorum, process):
    process.decide("a")
    quorum.roots[0].is_offline = True
    quorum.roots[2].empty()
    reader = quorum.process("q")
    with pytest.raises(QuorumUnavailableError):
        reader.describe()

    voters, best = reader.describe_voters()

    assert best == quorum.roots[1].key
    assert conditions(voters) == ["away", None, "lost"]
    assert [each.state for each in voters] == [None, "Follower", None]
    end = quorum.roots[1].table.log.end_offset
    assert [each.log_end_offset for each in voters] == [None, end, None]
    assert not any(each.leads for each in voters)
    quorum.roots[1].is_offline = True
    with pytest.raises(QuorumUnavailableError):
        reader.describe_voters()


def test_a_leader_is_logged_once_by_each_process_whoever_has_elected_it(quorum, process, caplog):
    other = quorum.process("q")
    assert other.names() == ["first"]
    quorum.roots[0].is_offline = True

    process.decide("a")
    for each in (process, other, other):
        each.names()

    said = logged(caplog, "voter 1:d1 leads the metadata quorum in epoch 2")
    assert len(said) == 2
    assert any("; 0:d0: " in each for each in said)  # who has lost it, and why
    assert {each.levelno for each in caplog.records if each.getMessage() in said} == {
        logging.WARNING
    }
