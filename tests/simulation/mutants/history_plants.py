"""Answers to plant that no history of clients may have: of appends, reads and ends; see `plants`."""

from tests.simulation.checks.ledger import Moment
from tests.simulation.mutants.stage import KEY


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


HISTORIES_PLANTED = [
    ("H5 no skip, no step back", skipping_read),
    ("H6 producer order", sequence_falls),
    ("H7 real time order", against_real_time),
    ("H8 reads see what was acked", acked_and_not_visible),
    ("H9 the end never falls", end_goes_back),
]
