"""Rules of compaction, switched off one at a time: the simulation must see each.

Those that it would see seldom are in tests/simulation/test_compacted_rules.py (a reader that has missed a
value or a tombstone, an unclean leader that keeps its target) and in
tests/log/test_rules_of_upkeep_left_out.py (a follower that has missed a tombstone).
"""

from dataclasses import replace
from typing import Any

from kafka_on_spark.controller import (
    cleanup_policy,
    compaction,
    inspections,
    isr,
    replication_round,
)
from kafka_on_spark.log import compactor as compacting_replicas
from kafka_on_spark.log import operations, truncation
from kafka_on_spark.log import state as states
from kafka_on_spark.log.compaction import CompactionProgress
from kafka_on_spark.metadata import partition as registrations
from kafka_on_spark.metadata.partition import Compaction
from kafka_on_spark.produce import append_rounds
from tests.simulation.checks import producers
from tests.simulation.checks.compaction import CONTENT, FINISHED, JOINED, TOMBSTONES
from tests.simulation.checks.history import KEYS_ONLY
from tests.simulation.checks.verdicts import I22
from tests.simulation.mutants.protocol_mutants import Mutant, _forgetting, _nothing, _yes

L3 = "L3 the ISR returns to all replicas"

_DECIDED = compaction._decided
_MAY_JOIN = isr.may_join
_DIRT_OF = cleanup_policy.leader_dirt
_MAY_COMPACT = compacting_replicas._may_compact


def _tombstones_go_at_once(settings: Any, partition: Any, report: Any) -> Any:
    now = _DECIDED(settings, partition, report)
    below = now.cleaned_below
    return replace(now, expiring_below=below, tombstones_below=below, expiring_since_ms=0)


def _waits_from_the_look(settings: Any, partition: Any, report: Any) -> Any:
    now = _DECIDED(settings, partition, report)
    if partition.compaction.is_expiring or now.cleaned_below == now.tombstones_below:
        return now
    return replace(now, expiring_below=now.cleaned_below, expiring_since_ms=report.now_ms)


def _joins(image: Any, partition: Any, report: Any, seen: Any) -> bool:
    return _MAY_JOIN(image, partition, report, replace(seen, compacted_below=2**40))


def _whole_log(leader: Any, partition: Any, *settings: Any, **named: Any) -> Any:
    above = replace(partition, high_watermark=leader.log_end_offset)
    return _DIRT_OF(leader, above, *settings, **named)


def _as_dirty(partition: Any, dirt: Any) -> Any:
    return dirt.cleanable_below


def _whatever_the_fence(state: Any, order: Any) -> bool:
    partition = replace(order.partition, leader_epoch=state.leader_epoch)
    return _MAY_COMPACT(state, replace(order, partition=partition))


def _itself(self: Any, *arguments: Any, **named: Any) -> Any:
    return self


def _as_its_leader(self: Any, leader: Any, **named: Any) -> Any:
    return leader


def _targets_at_the_end(state: Any, *arguments: Any, **named: Any) -> Any:
    as_before = state.compaction if named.get("compaction") is not None else None
    return _REPLACE_NEIGHBOURS(state, *arguments, **{**named, "compaction": as_before})


_REPLACE_NEIGHBOURS = operations.replace_neighbours


def _with_tombstones(self: Any, parts: Any, last: Any, progress: Any) -> Any:
    """Rewrite as if all tombstones that are compacted could go."""
    return _REWRITTEN(self, parts, last, replace(progress, tombstones_below=progress.round_below))


_REWRITTEN = compacting_replicas._Compacting._rewritten


def _unfenced(decide: Any) -> Any:
    """Decide as if the table were fenced as it is asked."""

    def decided(state: Any, *arguments: Any, leader_epoch: Any, **named: Any) -> Any:
        led = replace(state, leader_epoch=leader_epoch)
        change = decide(led, *arguments, leader_epoch=leader_epoch, **named)
        return None if change is None else replace(change, leader_epoch=state.leader_epoch)

    return decided


COMPACTION_MUTANTS = [
    Mutant(
        "a replica keeps a tombstone until it is decided that it goes",
        ((compacting_replicas._Compacting, "_rewritten", _with_tombstones),),
        seed=1,
        invariant=CONTENT,
    ),
    Mutant(
        "a tombstone stays until what it deleted has been gone for delete.retention.ms",
        ((compaction, "_decided", _tombstones_go_at_once),),
        invariant=TOMBSTONES,
    ),
    Mutant(
        "the wait for tombstones begins once K stands in the metadata log",
        ((compaction, "_decided", _waits_from_the_look),),
        seed=65,
        invariant=TOMBSTONES,
    ),
    Mutant(
        "what is known of producers outlives the headers that compaction takes",
        ((operations, "replace_neighbours", _forgetting(operations.replace_neighbours)),),
        seed=42,
        invariant=producers.KEPT,
    ),
    Mutant(
        "a replica that has not finished K stays out of the ISR",
        ((isr, "may_join", _joins),),
        seed=22,
        invariant=JOINED,
    ),
    Mutant(
        "nothing above the high watermark is compacted",
        (
            (cleanup_policy, "leader_dirt", _whole_log),
            (compaction, "_cleanable_below", _as_dirty),
            (registrations, "ensure", _nothing),
        ),
        seed=4,
        invariant="I27",
    ),
    Mutant(
        "a decision is applied under the leadership of its image",
        (
            (compacting_replicas, "_may_compact", _whatever_the_fence),
            (operations, "replace_neighbours", _unfenced(operations.replace_neighbours)),
            (operations, "set_compaction", _unfenced(operations.set_compaction)),
        ),
        seed=22,
        invariant="I26",
    ),
    Mutant(
        "a decision waits until every member has finished the last one",
        ((compaction, "_is_finished", _yes),),
        invariant=FINISHED,
    ),
    Mutant(
        "a follower takes its leader's counters with what it fetches",
        ((CompactionProgress, "after_fetch", _itself),),
        seed=160,
        invariant="I1 committed prefix",
    ),
    Mutant(
        "an unclean election below C lowers what is decided",
        ((Compaction, "lowered_to", _itself),),
        seed=57,
        invariant="crash: ImpossibleValueError",
    ),
    Mutant(
        "a replica is not cut below its target, but made again",
        ((truncation, "_check_whole", _nothing),),
        seed=113,
        invariant=CONTENT,
    ),
    Mutant(
        "a lost replica that lacks what was replaced is not taken back",
        (
            (inspections, "has_lost_replacements", _nothing),
            (states, "has_lost_replacements", _nothing),
        ),
        seed=921,
        invariant=L3,
    ),
    Mutant(
        "a decision is applied by a log that proves to be the one that it is of",
        ((compacting_replicas, "proves_complete", _yes),),
        seed=401,
        invariant=I22,
    ),
    Mutant(
        "a follower is as far as its leader only if it has taken all of it at one version",
        ((CompactionProgress, "after_fetch", _as_its_leader),),
        seed=42,
        invariant=CONTENT,
    ),
    Mutant(
        "a follower that lacks nothing but compaction is compacted by a round",
        ((replication_round, "awaiting_compaction", _nothing),),
        seed=22,
        invariant=L3,
    ),
    Mutant(
        "a replica has finished once all its segments are as they must be",
        ((compacting_replicas, "next_group", _nothing),),
        seed=1,
        invariant=CONTENT,
    ),
    Mutant(
        "a compacted topic takes no record without a key",
        ((append_rounds, "check_keys", _nothing),),
        seed=3,
        invariant=KEYS_ONLY,
    ),
    Mutant(
        "the targets count from the first commit on",
        ((operations, "replace_neighbours", _targets_at_the_end),),
        seed=1,
        invariant="I1 committed prefix",
    ),
]
