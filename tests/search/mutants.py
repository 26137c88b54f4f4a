"""Rules of the protocol, each switched off by a patch that the search must see.

A rule that a patch takes out and whose absence no search can see is in `REDUNDANT`, with the rule
that stands behind it and a proof by the search itself: both gone, and it is seen.
"""

from dataclasses import dataclass, replace
from typing import Any

from kafka_on_spark.controller import high_watermark, isr, recovery, replication, reports
from kafka_on_spark.errors import NO_ERROR
from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log import operations, producer_state
from kafka_on_spark.metadata import image as images
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.service import appender, replicas
from kafka_on_spark.service import replication as fetching
from tests.search.scope import Scope
from tests.search import slots
from tests.simulation import mutants as simulated
from tests.simulation.mutants import Mutant


@dataclass(frozen=True, slots=True)
class Case:
    """A mutant, and the smallest scope known in which it does harm."""

    mutant: Mutant
    scope: Scope

    @property
    def rule(self) -> str:
        """What holds no more, in words."""
        return self.mutant.rule


def _counts_unfenced(self: Any, leader_epoch: LeaderEpoch) -> bool:
    return self.error_code == NO_ERROR and self.is_matched


def _counts_unmatched(self: Any, leader_epoch: LeaderEpoch) -> bool:
    return self.error_code == NO_ERROR and self.fence == leader_epoch


def _fence_then_cut(self: Any, log: Any, follower: Any, leader: Any) -> Any:
    """Adopt in two commits: the fence first, and then the cut."""
    if follower.is_fenced_at(self._epoch):
        return follower
    cut = fetching.divergence_offset(
        follower, lambda epoch: fetching.end_offset_for(leader, epoch)
    )
    fence = operations.adopt(
        follower, leader_epoch=self._epoch, truncate_to=None, floor=Offset(0)
    )
    whole = operations.adopt(follower, leader_epoch=self._epoch, truncate_to=cut, floor=Offset(0))
    follower = log.commit(follower, fence)
    return log.commit(follower, replace(whole, operation="cut"))


def _cut_then_fence(self: Any, log: Any, follower: Any, leader: Any) -> Any:
    """Adopt in two commits: the cut first, and then the fence."""
    if follower.is_fenced_at(self._epoch):
        return follower
    cut = fetching.divergence_offset(
        follower, lambda epoch: fetching.end_offset_for(leader, epoch)
    )
    whole = operations.adopt(follower, leader_epoch=self._epoch, truncate_to=cut, floor=Offset(0))
    if whole.cut_from is not None:
        whole = replace(whole, leader_epoch=follower.leader_epoch)
        follower = log.commit(follower, whole)
    fence = operations.adopt(
        follower, leader_epoch=self._epoch, truncate_to=None, floor=Offset(0)
    )
    return log.commit(follower, fence)


def _one_question(follower: Any, ask_leader: Any) -> Offset:
    """KIP-101: the leader's end of the follower's last epoch, asked once."""
    if not follower.batches:
        return follower.log_end_offset
    answer = ask_leader(follower.batches[-1].leader_epoch)
    return min(answer.end_offset, follower.log_end_offset)


def _joins_by_old_mark(image: Any, report: Any, *, high_watermark: Any = None) -> Any:
    return isr.alter_isr(image, report)


def _nothing(*arguments: Any, **named: Any) -> None:
    return None


def _yes(*arguments: Any, **named: Any) -> bool:
    return True


def _zero(*arguments: Any) -> Offset:
    return Offset(0)


def _by_leader_epoch(record: Any, partition: Any) -> bool:
    return record.leader_epoch == partition.leader_epoch


def _reported_leader_epoch(report: Any, partition: Any) -> bool:
    return report.leader_epoch == partition.leader_epoch


def _only_load(replica: Any, partition: Any) -> Any:
    return replica.load()


def _never(*arguments: Any) -> bool:
    return False


ONE = Scope(values="a", elections=1, fencings=1, rounds=0)
TWO = Scope(values="ab", elections=1, fencings=1, rounds=0)
ROUND = Scope(values="a", elections=1, fencings=1, rounds=1)
ROUNDS = Scope(values="ab", elections=1, fencings=1, rounds=1)
TWICE = Scope(values="ab", elections=2, fencings=2, rounds=0)
SHRUNK = Scope(values="ab", elections=1, fencings=2, rounds=1)

CASES = [
    Case(simulated.MUTANTS[0], TWO),
    Case(
        Mutant(
            "a follower cuts where it parts from its leader, not at the true high watermark",
            (
                (
                    fetching._Fetcher,
                    "_adopt",
                    simulated._cut_to(lambda self, log: self._order.partition.high_watermark),
                ),
            ),
        ),
        ROUNDS,
    ),
    Case(simulated.MUTANTS[1], TWO),
    Case(simulated.MUTANTS[2], ROUNDS),
    Case(
        Mutant(
            "a follower asks until both name the same epoch (KIP-279)",
            ((fetching, "divergence_offset", _one_question),),
        ),
        Scope(values='a',elections=2,fencings=2,has_late_rounds=False),
    ),
    Case(
        Mutant(
            "fence and cut are one commit, not a fence and then a cut",
            ((fetching._Fetcher, "_adopt", _fence_then_cut),),
        ),
        TWO,
    ),
    Case(
        Mutant(
            "fence and cut are one commit, not a cut and then a fence",
            ((fetching._Fetcher, "_adopt", _cut_then_fence),),
        ),
        TWO,
    ),
    Case(
        Mutant(
            "only replicas fenced at the current epoch are counted",
            ((reports.ReplicaReport, "counts_in", _counts_unfenced),),
        ),
        TWO,
    ),
    Case(
        Mutant(
            "only replicas whose log is the leader's are counted",
            ((reports.ReplicaReport, "counts_in", _counts_unmatched),),
        ),
        TWO,
    ),
    Case(
        Mutant(
            "who joins the ISR has reached the high watermark", ((isr, "max", _zero),)
        ),
        SHRUNK,
    ),
    Case(
        Mutant(
            "who joins the ISR has what the same commit commits",
            ((replication, "alter_isr", _joins_by_old_mark),),
        ),
        SHRUNK,
    ),
    Case(
        Mutant(
            "a high watermark counts only in the partition epoch that it was decided in",
            (
                (images, "is_current", _by_leader_epoch),
                (high_watermark, "_is_current", _reported_leader_epoch),
            ),
        ),
        ROUNDS,
    ),
    Case(Mutant("a commit to a table is conditional", ((slots, "_has_lost", _never),)), TWO),
    Case(
        Mutant(
            "a table takes records of the leadership that it has adopted only",
            ((operations, "check_fence", _nothing),),
        ),
        ROUND,
    ),
    Case(
        Mutant(
            "a leader fences its table before it serves",
            (
                (appender, "begin_leadership", _only_load),
                (fetching, "begin_leadership", _only_load),
                (operations, "check_fence", _nothing),
                (reports.ReplicaReport, "counts_in", _counts_unfenced),
            ),
        ),
        TWO,
    ),
    Case(
        Mutant(
            "a leader proves to have all that is committed before it serves",
            ((replicas, "proves_complete", _yes),),
        ),
        TWICE,
    ),
    Case(simulated.MUTANTS[3], TWO),
    Case(simulated.MUTANTS[4], ONE),
    Case(simulated.MUTANTS[5], Scope(values='a',min_isr=2,elections=0,fencings=2,rounds=1)),
    Case(simulated.MUTANTS[6], TWO),
    Case(simulated.MUTANTS[7], TWO),
]
