"""``kill -9`` at random moments: no commit that was acknowledged is lost."""

import random
import time

import pytest

from tests.cluster.scripts import processes_that_start
from tests.store.committers import commit_for_ever
from tests.store.tables import commit, commit_file, create, opened, write_ids_by_version

KILLS = 50
KILLS_MAX = 250
"""From the 51st on processes live longer and longer, so that 200 commits, which are kept, and a
checkpoint are done on a slow machine, too."""


@pytest.fixture(scope="module")
def processes():
    return processes_that_start()


def commit_until_killed(processes, uri, run_seconds):
    """Return what a process said before it was killed: versions and write ids."""
    ours, theirs = processes.Pipe(duplex=False)
    process = processes.Process(target=commit_for_ever, args=(uri, theirs))
    process.start()
    theirs.close()
    said = []
    with ours:
        assert ours.recv() == "ready"
        time.sleep(run_seconds)
        process.kill()
        process.join()
        try:
            while True:
                said.append(ours.recv())
        except EOFError:
            pass
    process.close()
    return said


@pytest.mark.long
def test_no_acknowledged_commit_is_lost_to_a_kill(uri, processes):
    """Checkpoints and cleaning, which happen often here, are cut off as well."""
    dice = random.Random(1)
    create(uri)

    acknowledged, in_log = {}, write_ids_by_version(uri)
    kills = 0
    while kills < KILLS or (commit_file(uri, 0).exists() and kills < KILLS_MAX):
        kills += 1
        run_seconds = dice.random() * 0.25 * max(1, kills / KILLS)
        for version, write_id in commit_until_killed(processes, uri, run_seconds):
            assert version not in acknowledged
            acknowledged[version] = write_id
        for version, write_id in write_ids_by_version(uri).items():
            assert in_log.setdefault(version, write_id) == write_id

    assert acknowledged.items() <= in_log.items()
    assert sorted(in_log) == list(range(len(in_log)))
    assert not commit_file(uri, 0).exists()
    assert len(set(in_log.values())) == len(in_log)
    # What was committed and not acknowledged was under way when its process was killed.
    assert 0 <= len(in_log) - 1 - len(acknowledged) <= kills
    assert len(acknowledged) > KILLS
    log = opened(uri)
    assert [log.version] == log.counters_of("count") == [len(in_log) - 1]
    commit(log, log.version)
