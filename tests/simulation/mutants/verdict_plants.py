"""Wrong verdicts to plant; see `plants`."""

from kafka_on_spark.ids import LOST
from tests.simulation.world.disks import folder


def sound_member_called_lost(stage):
    """3 has all that is committed, on its disk, and is called lost."""
    stage.change(directories=("dir1", "dir2", LOST), isr=frozenset({1, 2}))


def taken_back_without_files(stage):
    """3 is taken back, and its files are gone."""
    stage.table(3).is_emptied = True
    stage.change(directories=("dir1", "dir2", LOST), isr=frozenset({1, 2}))
    stage.table(3).is_emptied = False
    stage.disks.root_of(3).files.clear()
    stage.change(directories=("dir1", "dir2", "dir3"))


def lost_table_removed_before_it_is_replaced(stage):
    """3 was created again, and is not in sync yet."""
    place = folder(stage.address(3))
    stage.table(3).is_emptied = True
    stage.change(directories=("dir1", "dir2", LOST), isr=frozenset({1, 2}))
    stage.change(replica_uuids=("uuid1", "uuid2", "another"), directories=("dir1", "dir2", None))
    stage.disks.remove(stage.disks.root_of(3), place)
