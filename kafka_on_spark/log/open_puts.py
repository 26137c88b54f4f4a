"""Whether a commit that was put stands in a log, also after its batch was merged.

An append is asked for by the chain digest at its end, never by offset and epoch alone: a table that
was set back has other records there under the same epoch. Once its batch is merged, the digest
stands among the borders in the merged segment's file, and the names of its own files are gone.
"""

from collections.abc import Sequence

from kafka_on_spark.base.errors import CommitOutcomeUnknownError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.merged_segment import MergedSegment
from kafka_on_spark.log.state import ReplicaState


def find_put(state: ReplicaState, puts: Sequence[Batch]) -> Batch | None:
    """Return the put that stands in a log, or None.

    `puts`: the commits of one append, each of which has succeeded or has an unknown outcome.

    Raises:
        CommitOutcomeUnknownError: Nobody can tell, since compaction has dropped the borders there,
            or retention the records.
    """
    kept_from = state.batches[0].base_offset if state.batches else state.log_end_offset
    for each in puts:
        if state.chain_at(each.end_offset) == each.chain_digest:
            return each
    for each in puts:
        is_compacted = _is_compacted_over(state, each.end_offset)
        if is_compacted or each.end_offset < kept_from:
            raise CommitOutcomeUnknownError(
                "the records where the append would stand were"
                f" {'compacted' if is_compacted else 'deleted'} meanwhile: the log does not tell"
                " any more whether it stood there",
                end_offset=each.end_offset,
            )
    return None


def _is_compacted_over(state: ReplicaState, offset: Offset) -> bool:
    """Return whether a border at `offset` may have been there, and compaction have dropped it.

    A file that a merge has made of compacted and other parts keeps the borders of the others.
    """
    merged = state.merged_over(offset)
    is_in_front = offset < state.compaction.compacted_below
    return merged is not None and (is_in_front or not merged.borders)


def unread_over(state: ReplicaState, puts: Sequence[Batch]) -> MergedSegment | None:
    """Return a merged segment whose borders must be read before `find_put` can tell, or None."""
    for each in puts:
        merged = state.merged_over(each.end_offset)
        if merged is not None and merged.borders is None:
            return merged
    return None
