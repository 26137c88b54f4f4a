"""Answers to plant that no history of clients may have: of appends, reads and ends; see `plants`."""

from tests.simulation.checks.history import KEYS_ONLY
from tests.simulation.checks.ledger import Moment
from tests.simulation.mutants.stage import KEY


def sequence_falls(stage):
    """A producer's appends are committed in another order than sent."""
    for offset, value in ((2, 12), (3, 13)):
        batch = stage.batch(value, offset, sequence=9 - offset)
        for broker_id in (1, 2, 3):
            stage.add(broker_id, batch, "append" if broker_id == 1 else "append_fetched")
        stage.high_watermark(offset + 1)


def acked_and_not_there(stage):
    """A client is told of a record at an offset that holds another."""
    stage.checker.on_ack(KEY, 1, [10], begun=Moment(acked=-1), is_duplicate=False)


def acked_and_not_committed(stage):
    """A client is told of a record that is not committed."""
    stage.checker.on_ack(KEY, 2, [12], begun=Moment(acked=-1), is_duplicate=False)


def read_of_another_value(stage):
    """A reader gets another value than was committed."""
    stage.checker.on_read(KEY, 0, [(0, 10), (1, 99)], generation=0)


def value_twice(stage):
    """The same record is committed at two offsets."""
    stage.committed(11)


def refused_and_committed(stage):
    """A record is committed whose append said that it was not written."""
    stage.checker.on_refused([12])
    stage.committed(12)


def committed_and_refused(stage):
    """The same, the other way round."""
    stage.checker.on_refused([11])


def phantom(stage):
    """A record is committed that nobody appended."""
    for broker_id in (1, 2, 3):
        stage.add(broker_id, stage.batch(12, 2), "append" if broker_id == 1 else "append_fetched")
    stage.checker.ledger.invoked.clear()
    stage.high_watermark(3)


def skipping_read(stage):
    """A reader is not given a record that lies between two others."""
    stage.committed(12)
    stage.checker.on_read(KEY, 0, [(0, 10), (2, 12)], generation=0)


def keyless_acked(stage):
    """A record without a key is acked by a topic that was compacted before."""
    begun = Moment(acked=1, is_compacted=True)
    stage.committed(30)
    stage.checker.on_ack(KEY, 2, [30], begun=begun, is_duplicate=False)


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
    ("H1 acked is committed", acked_and_not_there),
    ("H1 acked is committed", acked_and_not_committed),
    ("H2 one value an offset", read_of_another_value),
    ("H3 one offset a value", value_twice),
    ("H4 aborted read", refused_and_committed),
    ("H4 aborted read", committed_and_refused),
    ("H4 aborted read", phantom),
    ("H5 no skip, no step back", skipping_read),
    ("H6 producer order", sequence_falls),
    ("H7 real time order", against_real_time),
    (KEYS_ONLY, keyless_acked),
    ("H8 reads see what was acked", acked_and_not_visible),
    ("H9 the end never falls", end_goes_back),
]
