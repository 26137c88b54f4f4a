"""Rules of compaction, switched off one at a time: the simulation must see each."""

from dataclasses import replace
from typing import Any

from kafka_on_spark.controller.partitions import compaction, isr
from kafka_on_spark.log import replacing
from kafka_on_spark.log.compaction.progress import CompactionProgress
from kafka_on_spark.metadata import partition as registrations
from kafka_on_spark.service.append import appender
from kafka_on_spark.service.compact import replica_looks
from kafka_on_spark.service.maintain import compaction as compacting_replicas
from tests.simulation.checks import producers
from tests.simulation.checks.compaction import CONTENT, FINISHED, JOINED, RISES, TOMBSTONES
from tests.simulation.checks.history import KEYS_ONLY
from tests.simulation.mutants.protocol_mutants import Mutant, _nothing, _yes
from tests.simulation.world import compacting

_DECIDED = compaction._decided
_MAY_JOIN = isr.may_join
_DIRT_OF = replica_looks.leader_dirt
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


def _whole_log(leader: Any, partition: Any, **named: Any) -> Any:
    above = replace(partition, high_watermark=leader.log_end_offset)
    return _DIRT_OF(leader, above, **named)


def _as_dirty(partition: Any, dirt: Any) -> Any:
    return dirt.cleanable_below


def _whatever_the_fence(state: Any, order: Any) -> bool:
    partition = replace(order.partition, leader_epoch=state.leader_epoch)
    return _MAY_COMPACT(state, replace(order, partition=partition))


def _one_key(value: int) -> bytes:
    return b"the same"


def _itself(self: Any, *arguments: Any, **named: Any) -> Any:
    return self


def _targets_at_the_end(self: Any, parts: Any, merged: Any, progress: Any) -> Any:
    return _CHANGE(self, parts, merged, progress if merged is None else self.state.compaction)


_CHANGE = compacting_replicas._Cleaner._change


COMPACTION_MUTANTS = [
    Mutant(
        "a tombstone stays until what it deleted has been gone for delete.retention.ms",
        ((compaction, "_decided", _tombstones_go_at_once),),
        invariant=TOMBSTONES,
    ),
    Mutant(
        "the wait for tombstones begins once K stands in the metadata log",
        ((compaction, "_decided", _waits_from_the_look),),
        seed=218,
        invariant=TOMBSTONES,
    ),
    Mutant(
        "what is known of producers outlives the headers that compaction takes",
        ((replacing, "entries_without", _nothing),),
        seed=42,
        invariant=producers.KEPT,
    ),
    Mutant(
        "a replica that has not finished K stays out of the ISR",
        ((isr, "may_join", _joins),),
        invariant=JOINED,
    ),
    Mutant(
        "nothing above the high watermark is compacted",
        (
            (replica_looks, "leader_dirt", _whole_log),
            (compaction, "_cleanable_below", _as_dirty),
            (registrations, "ensure", _nothing),
        ),
        invariant=RISES,
    ),
    Mutant(
        "a decision is applied under the leadership of its image",
        (
            (compacting_replicas, "_may_compact", _whatever_the_fence),
            (replacing, "check_fence", _nothing),
        ),
        invariant="I26 added under its fence",
    ),
    Mutant(
        "the last value of each key stays",
        ((compacting, "key_of", _one_key),),
        invariant=CONTENT,
    ),
    Mutant(
        "a decision waits until every member has finished the last one",
        ((compaction, "_is_finished", _yes),),
        invariant=FINISHED,
    ),
    Mutant(
        "a follower takes its leader's counters with what it fetches",
        ((CompactionProgress, "after_fetch", _itself),),
        seed=98,
        invariant="I1 committed prefix",
    ),
    Mutant(
        "a replica has finished once all its segments are as they must be",
        ((compacting_replicas, "next_group", _nothing),),
        invariant=CONTENT,
    ),
    Mutant(
        "a compacted topic takes no record without a key",
        ((appender, "check_keys", _nothing),),
        invariant=KEYS_ONLY,
    ),
    Mutant(
        "the targets count from the first commit on",
        ((compacting_replicas._Cleaner, "_change", _targets_at_the_end),),
        invariant="I1 committed prefix",
    ),
]
