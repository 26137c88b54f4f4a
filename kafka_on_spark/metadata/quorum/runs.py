"""What is left of the headers of batches that a table merges into one file: runs.

Only what is committed is merged, so no cut falls into a run, and what two logs share of one is told
by its epoch. A change of voters keeps a border of its own: who discovers voters compares where it
stands.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from kafka_on_spark.metadata.quorum.raft_log import BatchKind, RaftBatch

COPIED_MIN: Final = 32
"""From so many batches on, what a voter that was away copies in one commit is a run: a long log
would become as many files as it has batches, and every commit would take longer for each."""


def copied_together(batches: Sequence[RaftBatch]) -> tuple[tuple[RaftBatch, ...], ...]:
    """Return the batches that one commit appends in groups, each of them to be one file.

    What lies before the last decision among them is proved committed by it, so no cut falls there.
    """
    apart = [(each,) for each in batches]
    if len(batches) < COPIED_MIN:
        return tuple(apart)
    decided = [place for place, each in enumerate(batches) if each.kind is not BatchKind.NO_OP]
    last = max(decided, default=0)
    return (runs_of(batches[:last]), *apart[last:]) if last else tuple(apart)


def runs_of(batches: Iterable[RaftBatch]) -> tuple[RaftBatch, ...]:
    """Return adjacent batches, oldest first, as runs: one an epoch, and one up to each change of
    voters."""
    runs: list[RaftBatch] = []
    for batch in batches:
        if runs and runs[-1].epoch == batch.epoch and runs[-1].voters is None:
            runs[-1] = replace(batch, base_offset=runs[-1].base_offset, kind=BatchKind.RUN)
        else:
            runs.append(replace(batch, kind=BatchKind.RUN))
    return tuple(runs)
