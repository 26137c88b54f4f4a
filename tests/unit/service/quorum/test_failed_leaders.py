"""A leader whose root fails: when it is replaced, and what becomes of its decisions."""

from contextlib import suppress

import pytest

from kafka_on_spark.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    QuorumUnavailableError,
    RootAccessDeniedError,
)
from kafka_on_spark.service.quorum.settings import QuorumSettings
from tests.unit.service.quorum.candidates import epochs
from tests.voter_fakes import SETTINGS, MemoryQuorum, MemoryVoterLog, VoterFault


def test_a_leader_whose_root_fails_for_the_fetch_timeout_is_replaced(quorum, process):
    quorum.roots[0].is_offline = True

    process.decide("a")

    assert sum(quorum.clock.slept_ms) >= 2000
    assert process.names() == ["first", "a"]
    assert quorum.roots[1].table.leads
    assert epochs(quorum) == [1, 2, 2]


def test_how_long_a_leader_may_fail_is_asked_each_time_anew(quorum, process):
    """The setting is in the log that is waited for."""
    process.settings = lambda: QuorumSettings(fetch_timeout_ms=300)
    quorum.roots[0].is_offline = True

    process.decide("a")

    assert 300 <= sum(quorum.clock.slept_ms) < 2000
    assert quorum.roots[1].table.leads


def test_a_leader_whose_root_fails_for_less_stays(quorum, process):
    quorum.roots[0].is_offline = True

    def come_back():
        if quorum.clock.monotonic_ms() > 1900:
            quorum.roots[0].is_offline = False

    quorum.clock.on_sleep = come_back

    process.decide("a")

    assert epochs(quorum) == [1, 1, 1]


@pytest.mark.parametrize("fault", ["is_offline", "is_read_only"])
def test_what_voters_took_before_the_leader_failed_is_no_sign_of_it(quorum, process, fault):
    """This process knows the third voter as it was long before: others brought it up."""
    other = quorum.process("q")
    other.decide("b")
    other.decide("c")
    process.names()
    assert (
        process.tables.newest(quorum.roots[2].key).log.end_offset
        < quorum.roots[2].table.log.end_offset
    )
    setattr(quorum.roots[0], fault, True)
    began_ms = quorum.clock.monotonic_ms()

    with suppress(CommitConflictError):  # it is decided again
        process.decide("d")

    assert quorum.roots[1].table.leads
    assert quorum.clock.monotonic_ms() - began_ms < 2 * SETTINGS.fetch_timeout_ms


def test_failures_long_apart_do_not_add_up(quorum, process):
    for _ in range(5):
        quorum.roots[0].is_offline = quorum.roots[1].is_offline = True
        with pytest.raises(QuorumUnavailableError):
            process.names()
        quorum.roots[0].is_offline = quorum.roots[1].is_offline = False
        quorum.clock.advance(10_000)
    quorum.roots[0].is_offline = True
    quorum.clock.on_sleep = lambda: setattr(quorum.roots[0], "is_offline", False)

    assert process.names() == ["first"]
    assert epochs(quorum) == [1, 1, 1]


def test_an_old_leader_that_comes_back_is_adopted_by_the_first_who_decides(quorum, process):
    quorum.roots[0].is_offline = True
    process.decide("a")
    quorum.roots[0].is_offline = False

    process.decide("b")

    assert epochs(quorum) == [2, 2, 2]
    assert quorum.roots[0].writes == quorum.roots[1].writes


def test_a_leader_that_can_be_read_and_not_written_is_replaced(quorum, process):
    quorum.roots[0].is_read_only = True

    with pytest.raises(CommitConflictError):
        process.decide("a")
    process.decide("a")

    assert process.names() == ["first", "a"]
    assert quorum.roots[1].table.leads
    assert quorum.roots[0].table.quorum_epoch == 1


def deny(*roots, times=100):
    for each in roots:
        each.faults.extend([VoterFault.DENIED] * times)


def test_a_leader_that_denies_is_replaced_before_a_process_writes_elsewhere(quorum, process):
    """Appends and joins ask first whether a decision will be taken."""
    quorum.roots[0].denied.add("p")

    process.check_writable()
    process.decide("a")

    assert quorum.roots[1].table.leads
    assert epochs(quorum) == [1, 2, 2]


def test_a_process_is_told_by_whom_it_is_denied_once_another_commits_there(quorum, process):
    other = quorum.process("q")
    other.names()
    quorum.roots[0].denied.add("p")

    def meanwhile():
        quorum.clock.on_sleep = lambda: None
        other.decide("b")

    quorum.clock.on_sleep = meanwhile
    quorum.clock.slept_ms.clear()

    with pytest.raises(RootAccessDeniedError, match="root 0"):
        process.check_writable()

    assert sum(quorum.clock.slept_ms) < SETTINGS.fetch_timeout_ms
    assert epochs(quorum) == [1, 1, 1]


def test_a_root_that_has_denied_a_process_does_not_stand_for_it_again():
    quorum = MemoryQuorum(5)
    process, other = quorum.process(), quorum.process("q")
    quorum.roots[0].denied.add("p")
    process.check_writable()
    process.decide("a")
    other.decide("b")  # which brings the root up
    process.names()
    quorum.roots[1].is_offline = True
    asked = []
    quorum.roots[0].before_commit = lambda change: asked.append(change.vote)

    process.check_writable()
    process.decide("c")

    assert quorum.roots[2].table.leads
    assert quorum.roots[0].key not in asked


def test_of_five_voters_of_whom_two_deny_a_third_leads():
    quorum = MemoryQuorum(5)
    process = quorum.process()
    process.decide("first")
    quorum.roots[0].denied.add("p")
    quorum.roots[1].denied.add("p")

    process.check_writable()
    process.decide("a")

    assert quorum.roots[2].table.leads


def test_the_only_voter_that_denies_is_told_at_once():
    quorum = MemoryQuorum(1)
    process = quorum.process()
    process.names()
    quorum.roots[0].denied.add("p")
    quorum.clock.slept_ms.clear()

    with pytest.raises(RootAccessDeniedError):
        process.check_writable()
    with pytest.raises(RootAccessDeniedError):
        process.decide("a")

    assert quorum.clock.slept_ms == []


def test_a_process_that_may_not_read_the_leader_is_told_once_others_commit_there(
    quorum, process, monkeypatch
):
    other = quorum.process("q")
    other.names()
    check = MemoryVoterLog._check_answers

    def refuse(log):
        if log._process == "p" and log._key.node_id == 0:
            raise RootAccessDeniedError("root 0 can't be read")
        check(log)

    monkeypatch.setattr(MemoryVoterLog, "_check_answers", refuse)

    def meanwhile():
        quorum.clock.on_sleep = lambda: None
        other.decide("b")

    quorum.clock.on_sleep = meanwhile

    with pytest.raises(RootAccessDeniedError, match="root 0"):
        process.names()

    quorum.clock.on_sleep = lambda: None
    assert process.names() == ["first", "b"]  # nobody commits there any more
    assert quorum.roots[1].table.leads


def test_a_process_without_permission_is_told_and_no_leader_is_replaced(quorum, process):
    deny(*quorum.roots)
    began_ms = quorum.clock.monotonic_ms()

    with pytest.raises(RootAccessDeniedError):
        process.decide("a")

    assert quorum.clock.monotonic_ms() - began_ms < 2 * SETTINGS.fetch_timeout_ms
    assert epochs(quorum) == [1, 1, 1]


def test_a_process_is_told_that_it_is_refused_once_others_commit_where_it_can_not(quorum, process):
    other = quorum.process("q")
    other.names()
    deny(quorum.roots[0], times=2)
    quorum.clock.slept_ms.clear()

    def meanwhile():
        quorum.clock.on_sleep = lambda: None
        other.decide("b")

    quorum.clock.on_sleep = meanwhile

    with pytest.raises(RootAccessDeniedError):
        process.decide("a")

    assert sum(quorum.clock.slept_ms) < SETTINGS.fetch_timeout_ms
    assert process.names() == ["first", "b"]
    assert epochs(quorum) == [1, 1, 1]


def test_a_leader_that_refuses_while_nobody_commits_there_is_replaced(quorum, process):
    """An administrator may have taken the permission from all processes."""
    deny(quorum.roots[0])

    with pytest.raises(CommitConflictError):
        process.decide("a")
    process.decide("a")

    assert process.names() == ["first", "a"]
    assert quorum.roots[1].table.leads


def test_a_decision_that_was_put_before_its_process_was_refused_is_unknown(quorum, process):
    quorum.roots[0].faults.append(VoterFault.LATE)
    deny(*quorum.roots)

    with pytest.raises(CommitOutcomeUnknownError, match="may be in the metadata log"):
        process.decide("a")


def test_a_decision_that_can_still_land_on_a_deposed_leader_is_lost(quorum, process):
    quorum.roots[0].faults.extend([VoterFault.LATE] * 100)

    with pytest.raises(CommitConflictError):
        process.decide("a")
    process.decide("b")
    quorum.roots[0].land()

    assert process.names() == quorum.process("q").names() == ["first", "b"]
    process.decide("c")
    quorum.roots[0].faults.clear()
    process.decide("d")
    assert quorum.roots[0].writes == quorum.roots[1].writes


def test_a_tail_that_the_next_leader_has_not_seen_is_cut(quorum, process):
    """The leader dies with the decision: no other voter has it."""
    quorum.roots[1].faults.append(VoterFault.REFUSED)
    quorum.roots[2].faults.append(VoterFault.REFUSED)
    quorum.roots[2].before_commit = lambda change: setattr(quorum.roots[0], "is_offline", True)

    with pytest.raises(CommitConflictError):
        process.decide("a")

    quorum.roots[2].before_commit = lambda change: None
    quorum.roots[0].is_offline = False
    assert "p" in quorum.roots[0].writes[-1]
    process.decide("b")
    assert process.names() == ["first", "b"]
    assert quorum.roots[0].writes == quorum.roots[1].writes


def test_a_tail_that_the_next_leader_has_seen_is_committed(quorum, process):
    """The leader dies, one voter has the decision, and its answer is lost."""
    quorum.roots[1].faults.append(VoterFault.LOST_ANSWER)
    quorum.roots[1].before_commit = lambda change: setattr(quorum.roots[0], "is_offline", True)
    quorum.roots[2].faults.append(VoterFault.REFUSED)

    process.decide("a")

    assert process.names() == ["first", "a"]
    assert quorum.roots[1].table.leads
