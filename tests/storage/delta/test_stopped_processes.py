"""Processes that the system stops in a commit while others make 1,500: with the intervals of real
tables, where `test_frozen_processes` has short ones."""

import multiprocessing
import os
import signal

import pytest

from tests.storage.committers import POINTS, commit_and_stop
from tests.storage.tables import create, damages_of, live, opened

COMMITS = 1500


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_a_writer_that_is_stopped_in_a_commit_is_told_that_it_is_unknown(uri, point):
    rival = create(uri)
    live(rival, 3)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=commit_and_stop, args=(uri, point, theirs))
    process.start()
    try:
        assert ours.recv() == "ready"
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        live(rival, COMMITS)
        os.kill(process.pid, signal.SIGCONT)
        outcome, version, counters = ours.recv()
    finally:
        process.kill()
        process.join()

    assert outcome == "CommitOutcomeUnknownError"
    assert version == rival.refresh()
    assert counters == {"count": version} == opened(uri).counters()
    assert damages_of(uri) == []
