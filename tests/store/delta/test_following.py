"""Following a table commit by commit: what others committed is seen, and a table that went is lost."""

import pytest

from kafka_on_spark.base.errors import ReplicaLostError
from kafka_on_spark.store.delta.delta_log import DeltaLog
from tests.store.tables import OPTIONS, commit, opened


def test_follower_is_told_the_commits_since_the_last_time(log, uri):
    rival = opened(uri)
    commit(rival, 1, offset=7)
    commit(rival, 2)

    assert [(each.version, dict(each.counters)) for each in log.follow()] == [
        (2, {"count": 2, "offset": 7}),
        (3, {"count": 3}),
    ]
    assert log.follow() == []
    log.reopen_next_time()
    assert log.follow() is None
    assert log.version == 3


@pytest.mark.parametrize("is_emptied", [True, False])
def test_vanished_root_is_lost_for_open_and_new_handles(log, uri, root, is_emptied):
    log.refresh()
    root.rename(f"{root}-away")
    if is_emptied:
        root.mkdir()

    for each in (log, DeltaLog(uri, OPTIONS)):
        for _ in range(2):
            with pytest.raises(ReplicaLostError):
                each.refresh()


def test_unmounted_and_mounted_root_goes_on(log, root):
    root.rename(f"{root}-away")
    with pytest.raises(ReplicaLostError):
        log.refresh()
    (root.parent / "root-away").rename(root)

    assert log.refresh() == 1
    commit(log, 1)
