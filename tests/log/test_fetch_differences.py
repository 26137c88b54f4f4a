"""Two logs that differ: whose fault it is, and when nobody can tell."""

import pytest

from tests.builders import log, partition
from tests.log.two_replicas import Two


@pytest.mark.parametrize("epoch", [4, 5])
@pytest.mark.parametrize("follower", ["ab", "abcd", "abcdefg"])
def test_a_follower_outside_isr_and_elr_that_differs_is_bad_and_fetched_again(epoch, follower):
    """It was neither counted nor healed, for ever (found by simulation)."""
    two = Two(f"{epoch}:axc", f"{epoch}:{follower}")

    report = two.fetch(partition("1 2", isr="1"))

    assert (report.leader.is_bad, report.followers[0].is_bad) == (False, True)
    assert not report.followers[0].is_diverged


@pytest.mark.parametrize("isr, elr", [("1 2", ""), ("1", "2")])
@pytest.mark.parametrize("epoch", [4, 5])
@pytest.mark.parametrize("follower", ["ab", "abcd", "abcdefg"])
def test_of_two_complete_logs_that_differ_above_the_high_watermark_none_is_bad(
    epoch, follower, isr, elr
):
    """One of them was rolled back and went on, or changed; it is not known which one."""
    two = Two(f"{epoch}:axc", f"{epoch}:{follower}")

    committed = log(f"{epoch}:a").chain_digest
    report = two.fetch(partition("1 2", isr, elr=elr, hw=1, hw_epoch=epoch, hw_chain=committed))

    assert (report.leader.is_bad, report.followers[0].is_bad) == (False, False)
    assert report.followers[0].is_diverged
    assert not report.followers[0].counts_in(5)


@pytest.mark.parametrize("isr, elr", [("1 2", ""), ("1", "2")])
@pytest.mark.parametrize("right", [1, 2])
def test_of_two_that_differ_the_one_without_what_is_committed_is_bad(isr, elr, right):
    """The registered chain digest decides, whichever replica leads."""
    logs = ["5:abc", "5:axc"]
    two = Two(*(logs if right == 1 else reversed(logs)))
    committed = log("5:ab").chain_digest

    report = two.fetch(partition("1 2", isr, elr=elr, hw=2, hw_epoch=5, hw_chain=committed))

    wrong = {1: 2, 2: 1}[right]
    assert {each.broker_id for each in (report.leader, *report.followers) if each.is_bad} == {wrong}
    assert not any(each.is_diverged for each in report.followers)
