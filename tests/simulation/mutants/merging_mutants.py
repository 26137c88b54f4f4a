"""Rules of merging, switched off one at a time by patches that the simulation must see.

That only a log is merged which has what is registered at the high watermark was found here, once in
400 seeds; tests/log/test_merging_replicas.py sees it missing. That an append which
may have been compacted away is not put again is in tests/log/test_producer_state.py.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from kafka_on_spark.base.errors import CommitOutcomeUnknownError
from kafka_on_spark.log import (
    fetch,
    merge_plan,
    merging,
    operations,
    replicas,
    truncation,
)
from kafka_on_spark.log.batch import LogPart
from kafka_on_spark.log.replicas import committed
from kafka_on_spark.log.state import LogChange
from kafka_on_spark.produce import leader_log
from tests.simulation.checks import merging as checks
from tests.simulation.checks import producers
from tests.simulation.mutants.protocol_mutants import Mutant, _any_end, _forgetting


def _unchecked(state: Any, inputs: Any, merged: Any, **named: Any) -> LogChange | None:
    if state.batches_between(merged.base_offset, merged.end_offset) != tuple(inputs):
        return None
    return _put(state, inputs, merged, **named)


def _put(state: Any, inputs: Any, merged: Any, **named: Any) -> LogChange:
    return LogChange(
        operation=named.get("operation", "merge"),
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        leader_epoch=state.leader_epoch,
        merged=merged,
        producers=operations.entries_without(state, inputs),
        compaction=named.get("compaction"),
    )


def _under_any_fence(self: Any, inputs: Any, merged: Any) -> None:
    decide = partial(_unchecked, inputs=inputs, merged=merged)
    self.state, change = committed(self.replica, decide, self.state)
    if change is not None:
        self.work = self.work.with_piece(0, merged.size_bytes)


def _again(self: Any, inputs: Any, merged: Any) -> None:
    try:
        _COMMIT(self, inputs, merged)
    except CommitOutcomeUnknownError:
        self.state = self.replica.load()
        if self.state.leader_epoch == self.order.partition.leader_epoch:
            self.state = self.replica.commit(self.state, _put(self.state, inputs, merged))


_COMMIT = merging._Merger._commit


def _up_to_the_end(order: Any, state: Any) -> Any:
    return replace(_RULES(order, state), stable_offset=state.log_end_offset, lag_batches=0)


_RULES = merging.rules_of


def _of_any_epoch(part: LogPart, rules: Any, appended_ms: int) -> tuple[int, bool, int]:
    return (0, *_KIND(part, rules, appended_ms)[1:])


_KIND = merge_plan._kind_of


def _borders_unread(state: Any, puts: Any, read_borders: Any) -> Any:
    return state


def _among_headers(state: Any, puts: Any) -> Any:
    found = (each for each in puts if state.chain_at(each.end_offset) == each.chain_digest)
    return next(found, None)


def _own(own: Any, leaders: Any) -> Any:
    return own


def _of_any_timestamps(part: Any, rules: Any, appended_ms: int) -> tuple[int, bool, int]:
    leader_epoch, _, span = _KIND(part, rules, appended_ms)
    return leader_epoch, False, span


MERGING_MUTANTS = [
    Mutant(
        "a merge is committed only under the fence that its file is named by",
        ((merging._Merger, "_commit", _under_any_fence),),
        seed=150,
        invariant="I26",
    ),
    Mutant(
        "a merge that may stand is put again only if its inputs do",
        ((merging._Merger, "_commit", _again),),
        invariant="I26",
        seed=42,
    ),
    Mutant(
        "an append that may stand is looked for among the borders of merged segments",
        (
            (replicas, "with_borders_over", _borders_unread),
            (leader_log, "with_borders_over", _borders_unread),
            (replicas, "find_put", _among_headers),
            (leader_log, "find_put", _among_headers),
            # In one epoch this refuses what would be put twice.
            (leader_log, "check_names_unused", lambda batch, state: None),
        ),
        seed=52,
        invariant="I26",
    ),
    Mutant(
        "nothing is merged above the last stable offset",
        ((merging, "rules_of", _up_to_the_end), (operations, "replace_neighbours", _unchecked)),
        invariant=checks.COMMITTED,
    ),
    Mutant(
        "a merged segment is of one leadership",
        ((merge_plan, "_kind_of", _of_any_epoch), (operations, "replace_neighbours", _unchecked)),
        seed=2,
        invariant="I25",
    ),
    Mutant(
        "what is known of producers outlives the headers that a merge takes",
        ((operations, "replace_neighbours", _forgetting(operations.replace_neighbours)),),
        invariant=producers.KEPT,
    ),
    Mutant(
        "who takes a merged segment takes what its leader knows of producers",
        ((operations, "united", _own),),
        seed=18,
        invariant=producers.TAKEN,
    ),
    Mutant(
        "a follower finds its own digest in its leader's segment before it takes the rest",
        (
            (fetch, "fetch_start", _any_end),
            (truncation, "fetch_start", _any_end),
        ),
        invariant="I23 chain",
        seed=2048,
    ),
]

RESTAMPING_MUTANTS = [
    Mutant(
        "a merged segment is of one timestamp type",
        (
            (merge_plan, "_kind_of", _of_any_timestamps),
            (operations, "replace_neighbours", _unchecked),
        ),
        invariant="I25",
    ),
]
