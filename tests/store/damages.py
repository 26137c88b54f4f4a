"""Tables with some commits, and what crashes, restores and hands do to their files."""

from pathlib import Path

from tests.store.tables import commit_times

LAST = 5


def up_to_last(log):
    commit_times(log, LAST - 1)
    log.refresh()
    return log


def with_checkpoint(log):
    """Return the path of a checkpoint that a table gets after seven commits more."""
    commit_times(log, 7)
    log.checkpoint_if_due()
    return next((Path(log.uri) / "_delta_log").glob("*.checkpoint.parquet"))


def empty(path):
    path.write_bytes(b"")


def halve(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def zero(path):
    """Return bytes with a lost page and the right size."""
    path.write_bytes(bytes(path.stat().st_size))


def remove(path):
    path.unlink()


# fmt: off
