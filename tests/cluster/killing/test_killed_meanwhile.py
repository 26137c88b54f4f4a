"""Upkeep is killed again and again, at any moment, while other processes append and read: nothing is
lost, doubled or reordered, and a reader whose files are merged and deleted reads on."""

import random
import time

import pytest

from tests.cluster.disks import new_disks
from tests.cluster.killing import meanwhile
from tests.cluster.killing.processes import Worker, finish, replicas_differ, rows_of
from tests.cluster.killing.stories import COMPACTED, CONFIGS, TOPIC

RETAINED = {"retention.bytes": "60000"}


# fmt: off
CASES = [
    pytest.param("merged",    {},        meanwhile.check_whole,     60,  3, id="merged"),
    pytest.param("merged",    {},        meanwhile.check_whole,     500, 40, id="merged-for-long", marks=pytest.mark.long),
    pytest.param("retained",  RETAINED,  meanwhile.check_whole,     500, 40, id="retained", marks=pytest.mark.long),
    pytest.param("compacted", COMPACTED, meanwhile.check_compacted, 500, 40, id="compacted", marks=pytest.mark.long),
]
# fmt: on


@pytest.mark.parametrize("name, configs, check, count, kills", CASES)
def test_upkeep_is_killed_while_others_append_and_read(
    name, configs, check, count, kills, record_property
):
    with new_disks(configs=CONFIGS) as disks:
        disks.cluster.create_topic(TOPIC, replica_assignment={0: [1, 2, 3]}, configs=configs)
        appender = Worker(meanwhile.append, disks.base, count)
        reader = Worker(meanwhile.read, disks.base, check)
        # A reader that starts late would find all appends done, and read nothing meanwhile.
        assert reader.ours.recv() == "reads"
        appender.ours.send("go")
        killed = kill_upkeep(disks, appender, kills)
        [acknowledged] = appender.told()
        reader.ours.send("stop")
        [(wrong, reads)] = reader.told()

        assert appender.process.exitcode == 0
        assert acknowledged == [2 * sequence for sequence in range(count)]
        assert (wrong, reads > 0) == ([], True)
        check_at_last(disks, name, check, 2 * count)
    record_property("killed", f"{name}: {killed} kills at any moment, {reads} reads meanwhile")


def kill_upkeep(disks, appender, kills_max):
    """Do upkeep in processes that are killed, as long as there are appends; return how many."""
    dice, killed = random.Random(16), 0
    while appender.process.is_alive():
        upkeep = Worker(meanwhile.maintain, disks.base)
        if killed < kills_max:
            time.sleep(0.2 + dice.random())
        else:
            appender.process.join()
        upkeep.process.kill()
        upkeep.told()
        killed += 1
    return killed


def check_at_last(disks, name, check, count):
    """Finish the upkeep, and check what is left."""
    cluster = disks.open()
    cluster.replicate(is_sweep=True)
    assert list(finish(cluster)) == []
    rows = rows_of(cluster)
    assert check(rows, None)[0] == []
    assert rows[-1][0] == count - 1
    if name == "retained":
        assert rows[0][0] > 0
    else:
        assert len(rows) == (count if name == "merged" else meanwhile.KEYS)
    assert list(replicas_differ(cluster)) == []
    assert disks.open().fsck(deep=True).findings == ()
