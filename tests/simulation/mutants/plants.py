"""Violations to plant, one effect or answer each that no correct protocol would bring about.

A function is given a stage on which 10 and 11 are committed; its name and first line say what it
breaks. `PLANTED` says which invariant must see it: each is one that no mutant shows, or shows in
part. What `fsck` holds against logs and registers is planted in its own tests.
"""

from dataclasses import replace

from tests.simulation.checks import invariants
from tests.simulation.checks.ledger import Moment
from tests.simulation.faults import healing
from tests.simulation.mutants.stage import KEY
from tests.simulation.world.cleaning import nothing_is_left


def acked_above_the_high_watermark(stage):
    """A record counts as acked that nothing has committed."""
    stage.log.last_acked = 5
    stage.change(leader=1)
    stage.adopt(1, 1)


def every_copy_is_gone(stage):
    """All disks lose what was acked."""
    stage.checker.on_ack(KEY, 0, [10, 11], begun=Moment(acked=-1), is_duplicate=False)
    for broker_id in (1, 2, 3):
        stage.disks.root_of(broker_id).files.clear()
    invariants.no_acked_record_lost(stage.checker.ledger)


def same_place_other_record(stage):
    """3 has another record than 2 at the same epoch and offset."""
    stage.add(2, stage.batch(12, 2))
    stage.add(3, stage.batch(13, 2))


def append_by_a_follower(stage):
    """2 takes an append in 1's epoch."""
    stage.add(2, stage.batch(12, 2), "append")


def high_watermark_falls(stage):
    """The high watermark goes back, and no unclean election says so."""
    stage.change(high_watermark=1, high_watermark_epoch=0)


def gap(stage):
    """A batch begins behind the end."""
    stage.add(2, stage.batch(12, 4))


def committed_again(stage):
    stage.log.committed.append((99, 0))
    stage.committed(12)


def sequence_twice(stage):
    """A producer's sequence is committed twice."""
    for offset, value in ((2, 12), (3, 13)):
        batch = stage.batch(value, offset, sequence=4)
        for broker_id in (1, 2, 3):
            stage.add(broker_id, batch, "append" if broker_id == 1 else "append_fetched")
        stage.high_watermark(offset + 1)


def two_replicas_on_one_root(stage):
    """Two brokers of a partition are the same disk."""
    brokers = dict(stage.disks.image.brokers)
    brokers[2] = replace(brokers[2], root="disk://1")
    stage.disks.image = replace(stage.disks.image, brokers=brokers)
    stage.change(isr=frozenset({1, 3}))


def no_leader(stage):
    """In the end nobody leads."""
    stage.change(leader=None)
    healing.everything_is_in_sync(stage.checker)


def unassigned_and_left(stage):
    """In the end a table stands on a disk that was taken from its replica."""
    stage.change(replica_uuids=("uuid1", "uuid2", "another"))
    nothing_is_left(stage.checker.ledger)


def sequence_falls(stage):
    """A producer's appends are committed in another order than sent."""
    for offset, value in ((2, 12), (3, 13)):
        batch = stage.batch(value, offset, sequence=9 - offset)
        for broker_id in (1, 2, 3):
            stage.add(broker_id, batch, "append" if broker_id == 1 else "append_fetched")
        stage.high_watermark(offset + 1)


def skipping_read(stage):
    """A reader is not given a record that lies between two others."""
    stage.committed(12)
    stage.checker.on_read(KEY, 0, [(0, 10), (2, 12)], generation=0)


def against_real_time(stage):
    """An append is put before one that was acked when it began."""
    stage.checker.on_ack(KEY, 0, [10], begun=Moment(acked=1), is_duplicate=False)


def acked_and_not_visible(stage):
    """A reader that asks after an ack is told of an older end."""
    stage.checker.on_end(KEY, 1, begun=Moment(0, 1), generation=0)


def end_goes_back(stage):
    """A reader is told of an older end than another was."""
    stage.checker.on_end(KEY, 1, begun=Moment(2, -1), generation=0)


PLANTED = [
    ("I2 leader completeness", acked_above_the_high_watermark),
    ("I3 no acked record lost", every_copy_is_gone),
    ("I4 log matching", same_place_other_record),
    ("I6", append_by_a_follower),
    ("I8", high_watermark_falls),
    ("I10", gap),
    ("I11 idempotence", sequence_twice),
    ("I12 stable content", committed_again),
    ("I17", two_replicas_on_one_root),
    ("H5 no skip, no step back", skipping_read),
    ("H6 producer order", sequence_falls),
    ("H7 real time order", against_real_time),
    ("H8 reads see what was acked", acked_and_not_visible),
    ("H9 the end never falls", end_goes_back),
    ("L5 a leader exists", no_leader),
    ("L7 unassigned replicas are removed", unassigned_and_left),
]
