"""Cleaning of a replica's folder: what is listed first, and what the table says afterwards."""

from kafka_on_spark.log import operations
from kafka_on_spark.log.file_deleter import clean_replica
from tests.builders import segment
from tests.controller.rounds import EPOCH
from tests.fakes import folder
from tests.log.upkeeping import Upkeeping

DELAY_MS = 3_600_000


class Cleaned(Upkeeping):
    """One partition; the folder of broker 1 is cleaned."""

    def __init__(self):
        super().__init__(0)
        self.address = self.place()
        self.append(0, "a", count=3)
        self.named = self.names()

    def names(self):
        return sorted(self.roots["memory://1"].files[folder(self.address)])

    def put(self, name, *, epoch=EPOCH, written_at_ms=0):
        file = segment(name, epoch=epoch)
        self.segments.put(self.address, file)
        self.folders.written[file.file_name] = written_at_ms
        return file.file_name

    def state(self):
        return self.replicas.open(self.address).load()

    def change(self, change):
        self.replicas.open(self.address).commit(self.state(), change)

    def clean(self, **fields):
        return self.do(clean_replica, **fields)

    def drop_below(self, offset, *, at_ms=0):
        before = {each.file_name for part in self.state().batches for each in part.segments}
        self.change(operations.advance_log_start(self.state(), offset))
        after = {each.file_name for part in self.state().batches for each in part.segments}
        self.folders.removed |= dict.fromkeys(before - after, at_ms)
        return sorted(before - after)


def test_files_that_the_table_removed_go_after_the_delay():
    cluster = Cleaned()
    removed = cluster.drop_below(2, at_ms=cluster.folders.now - DELAY_MS + 5)

    waits = cluster.clean()
    assert (waits.count, waits.is_left) == (0, False)

    cluster.folders.now += 5
    done = cluster.clean()
    assert (done.count, done.what) == (2, "files deleted")
    assert cluster.names() == sorted({*cluster.named} - {*removed})


def test_files_of_an_older_leadership_stay_while_an_append_stages_under_it():
    """It copies them all once it is committed, under the leadership of then."""
    cluster = Cleaned()
    first = cluster.put("first", epoch=EPOCH - 1, written_at_ms=cluster.folders.now - 10 * DELAY_MS)
    last = cluster.put("last", epoch=EPOCH - 1, written_at_ms=cluster.folders.now - DELAY_MS + 7)

    assert cluster.clean().count == 0
    assert {first, last} <= set(cluster.names())

    cluster.folders.now += 7
    assert cluster.clean().count == 2


def test_a_file_that_comes_after_the_listing_is_not_judged():
    cluster = Cleaned()
    cluster.put("old", epoch=EPOCH - 1)
    later = []
    cluster.folders.on_names = lambda: later.append(cluster.put("older", epoch=EPOCH - 2))

    assert cluster.clean().count == 1
    assert later[0] in cluster.names()


def test_a_cleaner_whose_time_is_over_leaves_the_rest_to_the_next():
    cluster = Cleaned()
    for number in range(100):
        cluster.put(f"o{number}", epoch=EPOCH - 1)

    done = cluster.clean(work_ms_max=0.0)

    assert (done.count, done.is_left) == (64, True)
    assert cluster.clean(work_ms_max=0.0).count == 36
    assert cluster.names() == cluster.named


def test_a_table_that_went_back_stops_the_cleaner():
    cluster = Cleaned()
    removed = cluster.drop_below(3)
    load, loads = cluster.replicas.open, []

    def opened(place):
        loads.append(place)
        if len(loads) == 2:  # between the judgement and the deletions
            cluster.roots["memory://1"].roll_back(1)
        return load(place)

    cluster.replicas.open = opened

    assert cluster.clean().count == 0
    assert set(removed) <= set(cluster.names())
