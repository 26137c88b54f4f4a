"""Rules of the protocol, switched off one at a time by patches that the simulation must see.

A checker that sees nothing would pass all of them.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any
from unittest.mock import patch

from kafka_on_spark.base.errors import CorruptLogError, KafkaStorageError, ReplicaLostError
from kafka_on_spark.base.ids import KEEP, Offset
from kafka_on_spark.controller import inspections, isr, replica_tables
from kafka_on_spark.controller.lease import Term
from kafka_on_spark.controller.scheduler import SweepRound
from kafka_on_spark.log import fetch as fetching
from kafka_on_spark.log import operations, replicas
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata import reports
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.produce import append_rounds, leader_log
from tests.simulation.faults.swarm_plans import (
    damaged,
    dozing,
    eager,
    hanging,
    retried,
)
from tests.simulation.plan import Plan


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule that is switched off.

    Attributes:
        rule: What holds no more, in words.
        patches: What is replaced: its owner, its name, and what stands there instead.
        seed: Where the search for a plan that shows it begins: some need a rare sequence of events.
        invariant: The one that is seen not to hold then; empty where the test's own case says it.
        plan: Makes the plans that show it, where those of its subject do not.
    """

    rule: str
    patches: tuple[tuple[Any, str, Any], ...]
    seed: int = 0
    invariant: str = ""
    plan: Callable[[int], Plan] | None = None

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Have the rule switched off."""
        with ExitStack() as stack:
            for owner, name, instead in self.patches:
                stack.enter_context(patch.object(owner, name, instead))
            yield


def _nothing(*arguments: Any, **named: Any) -> None:
    return None


def _none_stands(*arguments: Any, **named: Any) -> int:
    return -1


def _forgetting(decide: Any) -> Any:
    """Decide without what is known of producers."""

    def decided(*arguments: Any, **named: Any) -> Any:
        change = decide(*arguments, **named)
        return None if change is None else replace(change, producers=None)

    return decided


def _nowhere(state: Any, uuids: Any) -> Iterator[Any]:
    return iter(())


def _no(*arguments: Any, **named: Any) -> bool:
    return False


def _yes(*arguments: Any, **named: Any) -> bool:
    return True


def _none(*arguments: Any, **named: Any) -> int:
    return 0


def _any_end(follower: Any, leader: Any) -> Any:
    """Compare ends by their offsets only."""
    end = follower.log_end_offset
    return end if leader.log_start_offset <= end <= leader.log_end_offset else None


def _believed(before: Any, topic_id: Any, partition: Any, batches: Any) -> Any:
    """Take the chain digests in the headers as they are."""
    return batches[-1].chain_digest if batches else before


def _by_epochs(follower: Any, leader: Any, end_offset: Any) -> Any:
    """Keep what the epochs say that both share, whatever the chains say."""
    return end_offset


def _is_anything_stored(error: Exception) -> bool:
    return isinstance(error, ReplicaLostError | CorruptLogError | KafkaStorageError)


def _is_one_of_now(image: Any, incarnation: Any) -> bool:
    partition = image.partition(incarnation.key)
    return partition is not None and incarnation.replica_uuid in partition.replica_uuids


def _all_long_ago(batches: Any, wanted: Any) -> dict[Any, int]:
    return dict.fromkeys(wanted, 0)


def _committed_by_offset(partition: Any, appended: Any, *others: Any) -> bool:
    batch = appended.batch
    return batch is None or bool(partition.high_watermark >= batch.end_offset)


def _cut_to(choose: Callable[[Any, Any], int]) -> Callable[..., Any]:
    """Return an `_adopt` that cuts where `choose` says, at the batch that begins there or before."""

    def adopt(self: Any, follower: Any, leader: Any) -> Any:
        if follower.leader_epoch == self._epoch:
            return follower
        wanted = min(choose(self, follower), follower.log_end_offset)
        place = follower.batch_index_at(wanted)
        cut = wanted if place is None else follower.batches[place].base_offset
        change = operations.adopt(
            follower,
            leader_epoch=self._epoch,
            truncate_to=Offset(max(cut, follower.log_start_offset)),
            floor=Offset(0),
        )
        return self._commit(follower, change)

    return adopt


def _epoch_stays(self: Any, change: Any) -> tuple[int, int]:
    return self.leader_epoch, self.partition_epoch + 1


def _partition_epoch_stays(self: Any, change: Any) -> tuple[int, int]:
    return self.leader_epoch + (change.leader is not KEEP), self.partition_epoch


class _NeverError(Exception):
    """No error is of this kind."""


MUTANTS = [
    Mutant(
        "an append is acknowledged by its chain digest, not by its offset",
        ((append_rounds, "is_acknowledged", _committed_by_offset),),
        invariant="H1 acked is committed",
        plan=eager,
        seed=496,
    ),
    Mutant(
        "a follower cuts where it diverges from its leader, not at an old high watermark",
        ((fetching._Fetcher, "_adopt", _cut_to(lambda self, log: 0)),),
        invariant="I14 truncation floor",
    ),
    Mutant(
        "a follower cuts at all",
        ((fetching._Fetcher, "_adopt", _cut_to(lambda self, log: log.log_end_offset)),),
        invariant="L3 the ISR returns to all replicas",
    ),
    Mutant(
        "a retry is searched in the very log that is committed to",
        ((operations, "find_append", _nothing),),
        invariant="H3 one offset a value",
        plan=eager,
        seed=9,
    ),
    Mutant(
        "files that stand in the log are not added again",
        (
            (ReplicaState, "batches_with", _nowhere),
            (replicas, "find_put", _nothing),
            (leader_log, "find_put", _nothing),
        ),
        invariant="I26",
    ),
    Mutant(
        "below the minimum of replicas in sync nothing is committed",
        ((reports, "is_under_min_isr", _no),),
        invariant="I9",
        seed=5,
    ),
    Mutant(
        "each leadership has an epoch of its own",
        ((PartitionRegistration, "epochs_after", _epoch_stays),),
        invariant="I7",
        plan=eager,
    ),
    Mutant(
        "each change of a register has a partition epoch of its own",
        ((PartitionRegistration, "epochs_after", _partition_epoch_stays),),
        invariant="I7",
    ),
    Mutant(
        "a controller that sees a higher epoch than its own stops",
        ((Term, "check", _nothing),),
        invariant="I7",
    ),
    Mutant(
        "a commit that was left behind may land: it is never called not written",
        ((append_rounds, "CommitOutcomeUnknownError", _NeverError),),
        invariant="H4 aborted read",
        plan=hanging,
        seed=60,
    ),
    Mutant(
        "what was not inspected is never reported as caught up",
        ((SweepRound, "not_inspected_count", _none),),
        invariant="I24 inspected in time",
        seed=14,
    ),
    Mutant(
        "a round counts no inspection that is newer than its image",
        ((SweepRound, "is_ahead_of", _no),),
        invariant="I24 inspected in time",
        plan=dozing,
        seed=48,
    ),
    Mutant(
        "a replica is lost only when a second inspection finds it bad again",
        ((isr, "is_verdict", attrgetter("is_bad")),),
        invariant="I22 verdicts",
    ),
    Mutant(
        "an error of the system or the store is no verdict",
        ((fetching, "is_evidence", _is_anything_stored),),
        invariant="I22 verdicts",
    ),
    Mutant(
        "a lost replica's table stays until its new incarnation is in sync",
        ((replica_tables, "is_assigned", _is_one_of_now),),
        invariant="I22 verdicts",
        seed=12,
    ),
    Mutant(
        "a replica is taken back only with all of its files",
        ((inspections, "check_files", _nothing),),
        invariant="I22 verdicts",
        plan=damaged,
        seed=60,
    ),
    Mutant(
        "a table is removed only once its replica was taken away",
        (
            (replica_tables, "is_assigned", _no),
            (replica_tables, "times_unassigned", _all_long_ago),
        ),
        invariant="I18 removed replicas are unassigned",
    ),
    Mutant(
        "all partitions are looked at for an earlier try before the first commit",
        ((append_rounds, "check_tries", _none_stands),),
        invariant="H4 aborted read",
        plan=retried,
        seed=2,
    ),
]
