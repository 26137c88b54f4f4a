"""Commits from several processes at once: every version has one winner, and every process learns the truth."""

from collections import Counter

from tests.cluster.scripts import processes_that_start
from tests.store.committers import begin_together, contend
from tests.store.tables import create, names_in_log, opened, write_ids

PROCESSES = 4
COMMITS = 400


def test_of_contending_processes_each_version_has_one_winner(uri):
    create(uri)

    context = processes_that_start()
    all_ready = context.Barrier(PROCESSES)
    with context.Pool(PROCESSES, begin_together, [all_ready]) as processes:
        orders = [(uri, seed, COMMITS // PROCESSES) for seed in range(PROCESSES)]
        told = processes.map(contend, orders, chunksize=1)

    won = dict(pair for wins, _ in told for pair in wins)
    in_log = dict(enumerate(write_ids(uri)))
    versions = Counter(version for wins, _ in told for version, _ in wins)
    assert versions == Counter(range(1, COMMITS + 1))
    assert won == {version: write_id for version, write_id in in_log.items() if version > 0}
    assert len(set(in_log.values())) == COMMITS + 1
    assert opened(uri).counters_of("count") == [COMMITS]
    assert not [name for name in names_in_log(uri) if "#" in name or "tmp" in name]
    # Without conflicts nothing was tested.
    assert sum(lost for _, lost in told) > COMMITS / 20
