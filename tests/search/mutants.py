"""Rules of the protocol, each switched off by a patch that the search must see.

Rules whose absence alone does no harm are not here:

- Only replicas fenced at the current epoch are counted, and only those whose log is the leader's: a
  report is made after the fetch has adopted, and what has adopted shares the leader's log up to its end.
- A high watermark counts only in the partition epoch that it was decided in: decisions are taken
  again on the newest image, and a log end only grows under one leadership.
- Only the replica that the register names joins (KIP-903): the partition epoch has changed when a
  replica is created again, and the disk is another.
- A leader proves, when it begins, to have all that is committed: elected in sync it has, unless its
  disk has lost commits (tests/simulation, tests/cluster/replicas/test_cluster_recovery.py).
- A replica that joins the ISR has reached the start of the leadership: Kafka's leader needs it, whose
  own mark lags; here the mark in the register is the true one.
"""

from dataclasses import dataclass, replace
from typing import Any

from kafka_on_spark.base.errors import NO_ERROR
from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.controller import election, isr
from kafka_on_spark.controller.replication_round import ReplicationRound
from kafka_on_spark.log import fetch as fetching
from kafka_on_spark.log import operations, truncation
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata import image as image_module
from kafka_on_spark.metadata import reports
from kafka_on_spark.metadata.records import HighWatermarkRecord
from kafka_on_spark.produce import append_rounds, leader_log
from tests.search import slots
from tests.search.scope import Scope
from tests.simulation.mutants import protocol_mutants as simulated
from tests.simulation.mutants.protocol_mutants import (
    Mutant,
    _any_end,
    _believed,
    _by_epochs,
    _no,
    _nothing,
    _yes,
)


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


def _fence_then_cut(self: Any, follower: Any, leader: Any) -> Any:
    """Adopt in two commits: the fence first, and then the cut."""
    if follower.leader_epoch == self._epoch:
        return follower
    cut = truncation.divergence_offset(follower, leader)
    fence = operations.adopt(follower, leader_epoch=self._epoch, truncate_to=None, floor=Offset(0))
    whole = operations.adopt(follower, leader_epoch=self._epoch, truncate_to=cut, floor=Offset(0))
    fenced = self._commit(follower, fence)
    if not isinstance(fenced, ReplicaState):
        return fenced
    return self._commit(fenced, replace(whole, operation="cut"))


def _cut_then_fence(self: Any, follower: Any, leader: Any) -> Any:
    """Adopt in two commits: the cut first, and then the fence."""
    if follower.leader_epoch == self._epoch:
        return follower
    cut = truncation.divergence_offset(follower, leader)
    whole = operations.adopt(follower, leader_epoch=self._epoch, truncate_to=cut, floor=Offset(0))
    if whole.cut_from is not None:
        whole = replace(whole, leader_epoch=follower.leader_epoch)
        follower = self._commit(follower, whole)
        if not isinstance(follower, ReplicaState):
            return follower
    fence = operations.adopt(follower, leader_epoch=self._epoch, truncate_to=None, floor=Offset(0))
    return self._commit(follower, fence)


def _one_question(follower: Any, leader: Any) -> Offset:
    """KIP-101: the leader's end of the follower's last epoch, asked once."""
    if not follower.batches:
        return follower.log_end_offset
    answer = truncation.end_offset_for(leader, follower.batches[-1].leader_epoch)
    return min(answer.end_offset, follower.log_end_offset)


_ALTER_ISR = isr.alter_isr


def _joins_by_old_mark(image: Any, report: Any, *, high_watermark: Any = None) -> Any:
    return _ALTER_ISR(image, report)


def _zero(*arguments: Any) -> Offset:
    return Offset(0)


def _by_leader_epoch(record: Any, partition: Any) -> bool:
    return record.leader_epoch == partition.leader_epoch


def _only_load(replica: Any, partition: Any, state: Any = None) -> Any:
    return replica.load()


def _stays(self: Any, follower: Any, leader: Any) -> Any:
    """Adopt nothing."""
    return follower


def _conclude_once(metadata: Any, reports: Any, **_: Any) -> Any:
    """Decide on the image of before, and commit that to whatever it has become."""
    decided = isr.conclude(metadata.image, reports)
    return metadata.submit(lambda image: decided, timeout_ms=1)


def _conclude_early(metadata: Any, reports: Any, **_: Any) -> Any:
    """Decide high watermarks on the image of before, and the ISR on that of now."""
    early = isr.conclude(metadata.image, reports)
    marks = [each for each in early.records if isinstance(each, HighWatermarkRecord)]

    def decide(image: Any) -> Any:
        late = isr.conclude(image, reports)
        others = [each for each in late.records if not isinstance(each, HighWatermarkRecord)]
        return replace(late, records=[*marks, *others])

    return metadata.submit(decide, timeout_ms=1)


def _of_round(conclude: Any) -> Any:
    """Return what concludes as a method of a round."""
    return lambda self, reports: conclude(self._metadata, reports)


APPENDS = Scope(values="ab", rounds=0)
TIMELY = replace(APPENDS, has_late_appends=False)
RETRIES = Scope(values="ab", elections=0, fencings=0, rounds=0, is_retry=True)
ROUNDS = Scope(values="a", fencings=2, has_late_rounds=False)
BOTH = Scope(values="ab", has_late_rounds=False, has_late_appends=False)
GROWTH = Scope(values="ab", elections=0, has_late_rounds=False, has_late_appends=False)
TWICE = Scope(values="ab", elections=2, fencings=2, has_late_rounds=False, has_late_appends=False)
FROZEN = Scope(values="a", elections=0, fencings=2, min_isr=2)
NOBODY = Scope(values="a", elections=2, fencings=3, has_recovery=True, rounds=0)

_TRUE_MARK = simulated._cut_to(lambda self, log: self._order.partition.high_watermark)
_UNMATCHED = (fetching, "fetch_start", _any_end)
_UNCHECKED = (fetching, "check_fetch", _nothing)
_ANY_LOG = (_UNMATCHED, _UNCHECKED)
_BY_EPOCHS = (truncation, "shared_border", _by_epochs)
_UNFENCED = (reports.ReplicaReport, "counts_in", _counts_unfenced)


def _case(rule: str, scope: Scope, *patches: tuple[Any, str, Any]) -> Case:
    return Case(Mutant(rule, patches), scope)


CASES = [
    Case(simulated.MUTANTS[0], TIMELY),
    Case(simulated.MUTANTS[1], TIMELY),
    _case(
        "fence and cut are one commit, not a fence and then a cut",
        TIMELY,
        (fetching._Fetcher, "_adopt", _fence_then_cut),
    ),
    _case(
        "fence and cut are one commit, not a cut and then a fence",
        TIMELY,
        (fetching._Fetcher, "_adopt", _cut_then_fence),
    ),
    _case(
        "a follower adopts a leadership before it is counted in it",
        TIMELY,
        (fetching._Fetcher, "_adopt", _stays),
        (operations, "check_leader_epoch", _nothing),
        _UNFENCED,
    ),
    _case(
        "a replica that joins the ISR has reached the high watermark", GROWTH, (isr, "max", _zero)
    ),
    _case(
        "a replica that joins the ISR has what the same commit commits",
        GROWTH,
        (isr, "alter_isr", _joins_by_old_mark),
    ),
    _case(
        "the high watermark and the ISR are one register, decided on together",
        GROWTH,
        (ReplicationRound, "conclude", _of_round(_conclude_early)),
        (append_rounds, "conclude_reports", _conclude_early),
        (image_module, "is_current", _by_leader_epoch),
    ),
    _case(
        "a decision that met a conflict is taken again",
        BOTH,
        (ReplicationRound, "conclude", _of_round(_conclude_once)),
        (append_rounds, "conclude_reports", _conclude_once),
    ),
    _case("a commit to a table is conditional", APPENDS, (slots, "_has_lost", _no)),
    _case(
        "a table takes records of the leadership that it has adopted only",
        ROUNDS,
        (operations, "check_leader_epoch", _nothing),
    ),
    _case(
        "a leader fences its table before it serves",
        TIMELY,
        (leader_log, "begin_leadership", _only_load),
        (fetching, "begin_leadership", _only_load),
        (operations, "check_leader_epoch", _nothing),
        _UNFENCED,
    ),
    _case(
        "a leader elected out of sync proves to have all that is committed",
        NOBODY,
        (election, "has_all_committed", _yes),
    ),
    # Without a producer, a try finds the commits of those before by their chain digests as well.
    Case(simulated.MUTANTS[3], RETRIES),
    Case(simulated.MUTANTS[4], APPENDS),
    Case(simulated.MUTANTS[5], FROZEN),
    Case(simulated.MUTANTS[6], TIMELY),
    Case(simulated.MUTANTS[7], TIMELY),
]


@dataclass(frozen=True, slots=True)
class Pair:
    """A rule, and those that stand behind it: the harm is seen without all of them.

    Attributes:
        case: The rule; the scope is one in which the harm is.
        behind: What is switched off with it.
    """

    case: Case
    behind: tuple[tuple[Any, str, Any], ...]

    @property
    def together(self) -> Mutant:
        """All of them switched off."""
        mutant = self.case.mutant
        return Mutant(mutant.rule, (*mutant.patches, *self.behind))


BEHIND_CHAINS = [
    # A fetch compares epochs and chain digests at the follower's end, and takes and counts nothing
    # where one of them differs: each of the two is enough.
    Pair(Case(simulated.MUTANTS[2], APPENDS), _ANY_LOG),
    Pair(
        _case(
            "a follower cuts where it diverges from its leader, not at the true high watermark",
            BOTH,
            (fetching._Fetcher, "_adopt", _TRUE_MARK),
        ),
        _ANY_LOG,
    ),
    # Where the epochs leave too much, the cut goes down to where the chain digests agree; the same
    # fetch compares the ends; and a batch whose chain digest does not compute is not taken.
    Pair(
        _case(
            "a follower asks until both name the same epoch (KIP-279)",
            TWICE,
            (truncation, "divergence_offset", _one_question),
        ),
        (_BY_EPOCHS, *_ANY_LOG, (operations, "check_chain", _believed)),
    ),
]
"""Rules behind which others stand. Without one of them there is no harm within so many states as are
searched: their scopes are not searched whole, so that is no proof that they are redundant."""
